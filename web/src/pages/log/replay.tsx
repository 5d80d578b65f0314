/** What came, once more: as a list of what all nodes have of it, or as messages of MQTT from the node of this page. */
import { useState } from "preact/hooks";
import type { Paged } from "../../core/api";
import { now } from "../../core/clock";
import { number, time } from "../../core/format";
import { sentence, t } from "../../core/i18n";
import { lines } from "../../core/legible";
import { useLive } from "../../core/live";
import { go, place, refine } from "../../core/router";
import type { Logged } from "../../core/types";
import { Mark } from "../../ui/icons";
import { ClientLink, Panel } from "../../ui/parts";
import { DataTable } from "../../ui/table";

const UNITS = { s: 1, m: 60, h: 3600, d: 86_400 } as const;
type Unit = keyof typeof UNITS;

export function Replay() {
  const asked = place.value.query.replay ?? "#";
  // It is typed over what the address says: when that says something else, what was typed is over.
  const [typed, setTyped] = useState({ over: asked, text: asked });
  if (typed.over !== asked) setTyped({ over: asked, text: asked });
  const filter = typed.text;
  const [count, setCount] = useState("1");
  const [unit, setUnit] = useState<Unit>("h");
  const show = (event: Event) => {
    event.preventDefault();
    // A time, and not so long ago: what is looked at stays the same.
    const since = new Date((now() - Number(count) * UNITS[unit]) * 1000);
    refine({ replay: filter, since: since.toISOString() });
  };
  return (
    <Panel title={t("log.replay")}>
      <form class="inline" onSubmit={show}>
        <label>
          <span>{t("log.filter")}</span>
          <input
            name="replayed"
            class="mono"
            value={filter}
            required
            onInput={(event) => setTyped({ over: asked, text: event.currentTarget.value })}
          />
        </label>
        <label class="number">
          <span>{t("log.since")}</span>
          <input
            type="number"
            name="since"
            min="1"
            max="9999"
            value={count}
            required
            onInput={(event) => setCount(event.currentTarget.value)}
          />
        </label>
        <label class="number">
          <span>{t("log.unit")}</span>
          <select value={unit} onChange={(event) => setUnit(event.currentTarget.value as Unit)}>
            {Object.keys(UNITS).map((one) => (
              <option key={one} value={one}>
                {t(`log.unit_${one}`)}
              </option>
            ))}
          </select>
        </label>
        <button type="submit" class="primary">
          {t("log.replay_show")}
        </button>
        <button type="button" onClick={() => go(["mqtt"], { subscribe: `$replay/${count}${unit}/${filter}` })}>
          {t("log.replay_go")}
        </button>
      </form>
      <p class="dim">{t("log.replay_text")}</p>
      <Whose />
    </Panel>
  );
}

/** MQTT has it from one node. */
function Whose() {
  const asked = useLive<{ node_id: string }>("status", {}, 0).data?.node_id;
  const nodes = useLive<Paged<{ node_id: string }>>("nodes", {}, 30_000).data?.items ?? [];
  const others = nodes.map((one) => one.node_id).filter((one) => one !== asked);
  if (asked === undefined || others.length === 0) return null;
  return (
    <p class="note warn">
      <Mark level="warn" />
      <span>{t("log.replay_here", { node: asked, others: others.join(", ") })}</span>
    </p>
  );
}

export function Messages({ filter, since }: { filter: string; since: string }) {
  return (
    <div class="list">
      <h2 class="log-head">{sentence("log.replayed_of", { filter })}</h2>
      <DataTable<Logged>
        label={t("log.replayed")}
        path="log/messages"
        query={{ filter, since }}
        id={(one) => `${one.writer}.${one.position}`}
        empty={t("log.no_messages")}
        every={30_000}
        columns={[
          { key: "came_at", title: t("log.came"), width: "minmax(6.5rem, 11.5rem)", cell: (one) => time(one.came_at) },
          {
            key: "topic",
            title: t("log.topic"),
            width: "minmax(8rem, 2fr)",
            cell: (one) => <span class="mono">{one.topic}</span>,
          },
          {
            key: "payload",
            title: t("log.payload"),
            width: "minmax(8rem, 3fr)",
            cell: (one) => <span class="mono">{lines(one.payload ?? one.payload_base64)}</span>,
          },
          { key: "size", title: t("log.bytes"), width: "5rem", cell: (one) => number(one.size), end: true, wide: true },
          {
            key: "publisher",
            title: t("log.publisher"),
            width: "minmax(6rem, 1fr)",
            cell: (one) => <ClientLink id={one.publisher} />,
            wide: true,
          },
          { key: "node", title: t("clients.node"), width: "7rem", cell: (one) => one.node ?? "", wide: true },
        ]}
      />
    </div>
  );
}
