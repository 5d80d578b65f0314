/** One shared group: its members, what each got and has under way, and what waits for the group. */
import type { Paged } from "../core/api";
import { number } from "../core/format";
import { t, tOr } from "../core/i18n";
import { useLive } from "../core/live";
import type { Session, SharedGroup } from "../core/types";
import { Badge, type Level } from "../ui/icons";
import { Empty, MissingNote, ProblemNote } from "../ui/notes";
import { ClientLink, Head, Panel, Tile } from "../ui/parts";
import type { Page } from ".";
import "./groups.css";

const MOST = 1000;

function Group({ filter = "" }: Record<string, string>) {
  const groups = useLive<Paged<SharedGroup>>("shared-groups", { limit: MOST }, 3000);
  const members = useLive<Paged<Session>>("sessions", { filter, limit: MOST }, 3000);
  const parts = (groups.data?.items ?? []).filter((one) => one.filter === filter);
  const sum = (of: (one: SharedGroup) => number) => number(parts.reduce((all, one) => all + of(one), 0));
  const found = members.data?.items ?? [];
  const delivered = found.reduce((all, one) => all + one.delivered, 0);
  return (
    <>
      <Head title={t("groups.one")} of={filter} />
      <ProblemNote problem={groups.problem ?? members.problem} />
      <MissingNote missing={members.data?.missing} />
      <div class="tiles">
        <Tile label={t("groups.members")} value={sum((one) => one.members)} />
        <Tile label={t("groups.connected")} value={sum((one) => one.connected)} />
        <Tile label={t("groups.waiting")} value={sum((one) => one.waiting)} more={t("groups.waiting_more")} />
        <Tile label={t("groups.delivered")} value={number(delivered)} more={t("groups.delivered_more")} />
      </div>
      <Panel title={t("groups.members")} wide>
        {members.data && found.length === 0 && <Empty text={t("groups.no_members")} />}
        {found.length > 0 && (
          <div role="group" class="members" tabIndex={0} aria-label={t("groups.members")}>
            <table class="small">
              <thead>
                <tr>
                  <th>{t("clients.id")}</th>
                  <th>{t("client.state")}</th>
                  <th>{t("groups.share")}</th>
                  <th class="end">{t("client.delivered")}</th>
                  <th class="end">{t("client.inflight")}</th>
                  <th class="end">{t("client.queued")}</th>
                  <th>{t("clients.node")}</th>
                </tr>
              </thead>
              <tbody>
                {found.map((one) => (
                  <Member key={`${one.node} ${one.client_id}`} one={one} all={delivered} />
                ))}
              </tbody>
            </table>
          </div>
        )}
        {members.data?.after && <p class="dim">{t("groups.more", { count: number(MOST) })}</p>}
      </Panel>
    </>
  );
}

const LEVELS: Record<string, Level> = { caught_up: "ok", reading: "ok", offline: "none" };

function Member({ one, all }: { one: Session; all: number }) {
  const share = all > 0 ? one.delivered / all : 0;
  return (
    <tr>
      <td>
        <ClientLink id={one.client_id} />
      </td>
      <td>
        <Badge level={LEVELS[one.state] ?? "warn"} text={tOr(`session.${one.state}`, one.state)} />
      </td>
      <td>
        <span class="share">
          <span class="bar" style={{ width: `${100 * share}%` }} />
        </span>{" "}
        {number(100 * share, 1)} %
      </td>
      <td class="end">{number(one.delivered)}</td>
      <td class="end">{number(one.inflight)}</td>
      <td class="end">{number(one.queued)}</td>
      <td class="mono">{one.node}</td>
    </tr>
  );
}

export default { path: "groups/:filter", title: "groups.one", view: Group } satisfies Page;
