/** The way of a message to a client as a picture, with the places where it is held up. */
import { number } from "../core/format";
import { t } from "../core/i18n";
import type { Why } from "../core/types";
import { type PlaceName, standing } from "../core/way";
import { type Level, Mark } from "./icons";

export function Way({ why }: { why: Why }) {
  const stands = standing(why);
  const first = why.findings[0];
  return (
    <ol class="way" aria-label={t("way.title")}>
      {stands.map(({ name, finding }) => {
        const level: Level = finding ? (finding.weight >= 80 ? "bad" : "warn") : unknown(name, why) ? "none" : "ok";
        return (
          <li key={name} class={`${level}${finding && finding === first ? " here" : ""}`}>
            <Mark level={level} label={t(`level.${level}`)} />
            <strong>{t(`way.${name}`)}</strong>
            <span>{finding && finding === first ? t("way.here") : said(name, why)}</span>
          </li>
        );
      })}
    </ol>
  );
}

/** Of who is not there nobody knows how it would be. */
function unknown(name: PlaceName, { client, session }: Why): boolean {
  if (name === "window" || name === "subscription" || name === "session") return session === null;
  return (name === "connection" || name === "client") && client === null;
}

function said(name: PlaceName, { client, session, node }: Why): string {
  if (name === "session" && session) return t("way.kept", { count: number(session.queued + session.backlog) });
  if (name === "window" && session) return t("way.unacknowledged", { count: number(session.inflight) });
  if (name === "subscription" && session) return t("way.filters", { count: number(session.subscriptions) });
  if (name === "connection" && client) return client.listener;
  if (name === "client" && client) return client.peer;
  if (name === "node" && (client || session)) return node ?? "";
  return "";
}
