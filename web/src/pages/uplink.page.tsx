/** The uplink: whether the data platform has what goes up, what waits and why, what it rejected; rules, and their dry run. */
import { useMemo } from "preact/hooks";
import { api, type Missing, type Paged } from "../core/api";
import { now } from "../core/clock";
import { bytes, number, seconds, short, time } from "../core/format";
import { t, tOr } from "../core/i18n";
import { useLive } from "../core/live";
import { type Lines, linesOf } from "../core/series";
import type { History } from "../core/types";
import { Chart } from "../ui/chart";
import { Badge, type Level, Mark } from "../ui/icons";
import { Empty, MissingNote, ProblemNote } from "../ui/notes";
import { Facts, Head, Panel, Tile } from "../ui/parts";
import type { Hit, Page } from ".";
import { last, useGrowth } from "./devices/trail";
import { RulesPanel } from "./uplink/panels";
import { Over } from "./uplink/parts";
import { DryRun } from "./uplink/trial";
import type { Rules, Uplink, UplinkCommands } from "./uplink/types";
import "./uplink/uplink.css";

const HOUR = 3600;
/** Rejected records of all nodes that are shown. */
const SHOWN = 50;

function UplinkPage() {
  const live = useLive<Paged<Uplink>>("uplink", { node: "*" }, 2000);
  const rules = useLive<Paged<Rules>>("uplink/rules", { node: "*" }, 5000);
  const nodes = live.data?.items ?? [];
  const none = live.data !== undefined && nodes.length === 0;
  return (
    <>
      <Head title={t("uplink.title")} />
      <ProblemNote problem={live.problem} />
      {none ? <Reasons of={live.data?.missing} /> : <MissingNote missing={live.data?.missing} />}
      <Alarms nodes={nodes} />
      {nodes.length > 0 && (
        <>
          <Tiles nodes={nodes} answer={live.data} />
          <Past />
          <Places nodes={nodes} />
          <ProblemNote problem={rules.problem} />
          {rules.data && <RulesPanel nodes={rules.data.items} refresh={rules.refresh} />}
          {rules.data && <DryRun nodes={rules.data.items} />}
          <Rejected nodes={nodes} />
          {nodes.some((one) => one.kind === "kafka") && <Commands />}
        </>
      )}
    </>
  );
}

/** Why there is nothing to show, in the words of the nodes. */
function Reasons({ of }: { of: Missing[] | undefined }) {
  return (
    <>
      {(of ?? []).map((one) => (
        <Empty key={one.node} text={`${one.node}: ${one.reason}`} />
      ))}
    </>
  );
}

function Alarms({ nodes }: { nodes: { node: string; alarms: string[] }[] }) {
  const found = nodes.flatMap((one) => one.alarms.map((text) => ({ node: one.node, text })));
  if (found.length === 0) return null;
  return (
    <ul class="alarms" aria-label={t("uplink.alarms")}>
      {found.map(({ node, text }) => (
        <li class="note bad" key={`${node} ${text}`}>
          <Mark level="bad" />
          <div>
            <strong>{node}</strong> {text}
          </div>
        </li>
      ))}
    </ul>
  );
}

function Tiles({ nodes, answer }: { nodes: Uplink[]; answer: unknown }) {
  const sum = (of: (one: Uplink) => number) => nodes.reduce((all, one) => all + of(one), 0);
  const trail = useGrowth(answer, () => ({
    sent: sum((one) => one.sent),
    bytes: sum((one) => one.sent_bytes),
    safe: sum((one) => one.safe),
  }));
  const waiting = sum((one) => one.lag_messages);
  const [sent, sentBytes, safe] = [last(trail, "sent"), last(trail, "bytes"), last(trail, "safe")];
  return (
    <div class="tiles">
      <Tile label={t("uplink.waiting")} value={short(waiting)} more={bytes(sum((one) => one.lag_bytes))} />
      <Tile
        label={t("uplink.oldest")}
        value={waiting === 0 ? "–" : seconds(Math.max(...nodes.map((one) => one.lag_seconds)))}
        more={t("uplink.oldest_more")}
      />
      <Tile
        label={t("uplink.in_log")}
        value={short(sum((one) => one.unread_messages))}
        more={t("uplink.with_sink", { count: short(sum((one) => one.in_flight_messages)) })}
      />
      <Tile
        label={t("uplink.sent")}
        value={short(sent)}
        unit={sent === null ? "" : t("unit.per_second")}
        more={sentBytes === null ? "" : `${bytes(sentBytes)}${t("unit.per_second")}`}
      />
      <Tile
        label={t("uplink.safe")}
        value={short(safe)}
        unit={safe === null ? "" : t("unit.per_second")}
        more={t("overview.in_all", { count: short(sum((one) => one.safe)) })}
      />
      <Tile label={t("uplink.failures")} value={number(sum((one) => one.failures))} more={t("uplink.failures_more")} />
      <Tile
        label={t("uplink.rejected")}
        value={number(sum((one) => one.dead + one.dropped))}
        more={t("uplink.nowhere", { count: number(sum((one) => one.dropped)) })}
      />
      <Tile label={t("uplink.lost")} value={number(sum((one) => one.lost))} more={t("uplink.lost_more")} />
    </div>
  );
}

function Past() {
  const from = useMemo(() => Math.floor(now()) - HOUR, []);
  const live = useLive<Paged<History>>("history", { series: "uplink_lag", from }, 10_000);
  const lines: Lines = useMemo(() => linesOf(live.data?.items ?? [], HOUR), [live.data]);
  return (
    <>
      <ProblemNote problem={live.problem} />
      <Chart
        title={t("uplink.past")}
        times={lines.times}
        lines={[{ label: t("uplink.waiting"), values: lines.of("uplink_lag") }]}
      />
    </>
  );
}

function levelOf(one: Uplink): Level {
  if (one.trouble !== null) return "bad";
  return one.state === "ok" ? "ok" : "warn";
}

/** Each node has a log and a place of its own in it. */
function Places({ nodes }: { nodes: Uplink[] }) {
  return (
    <Panel title={t("uplink.nodes")} wide>
      <Over label={t("uplink.nodes")}>
        <table class="small rows">
          <thead>
            <tr>
              <th>{t("overview.node")}</th>
              <th>{t("uplink.sink")}</th>
              <th>{t("overview.state")}</th>
              <th class="end">{t("uplink.waiting")}</th>
              <th class="end">{t("uplink.bytes")}</th>
              <th class="end">{t("uplink.oldest")}</th>
              <th class="end">{t("uplink.place")}</th>
              <th>{t("uplink.spool")}</th>
            </tr>
          </thead>
          <tbody>
            {nodes.map((one) => (
              <tr key={one.node}>
                <td class="mono">{one.node}</td>
                <td>{tOr(`uplink.kind_${one.kind}`, one.kind)}</td>
                <td>
                  <Badge level={levelOf(one)} text={t(`uplink.level_${levelOf(one)}`)} />
                </td>
                <td class="end">{number(one.lag_messages)}</td>
                <td class="end">{bytes(one.lag_bytes)}</td>
                <td class="end">{one.lag_messages === 0 ? "–" : seconds(one.lag_seconds)}</td>
                <td class="end">{t("uplink.place_of", { at: number(one.position), end: number(one.end) })}</td>
                <td class="mono">{one.spool}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Over>
    </Panel>
  );
}

function Rejected({ nodes }: { nodes: Uplink[] }) {
  const found = nodes.flatMap((one) => one.rejected.map((record) => ({ ...record, node: one.node })));
  found.sort((a, b) => b.came_at - a.came_at);
  return (
    <Panel title={t("uplink.last_rejected")} wide>
      {found.length === 0 && <Empty text={t("uplink.none_rejected")} />}
      {found.length > 0 && (
        <Over label={t("uplink.last_rejected")}>
          <table class="small rows">
            <thead>
              <tr>
                <th>{t("uplink.came")}</th>
                <th>{t("uplink.to")}</th>
                <th>{t("uplink.reason")}</th>
                <th class="end">{t("topics.size")}</th>
                <th>{t("uplink.kept_in")}</th>
                <th>{t("uplink.id")}</th>
                <th>{t("overview.node")}</th>
              </tr>
            </thead>
            <tbody>
              {found.slice(0, SHOWN).map((one) => (
                <tr key={`${one.node} ${one.id}`}>
                  <td>{time(one.came_at)}</td>
                  <td class="mono">{one.topic}</td>
                  <td>{one.reason}</td>
                  <td class="end">{bytes(one.size)}</td>
                  <td class="mono">{one.kept_in ?? <Badge level="bad" text={t("uplink.kept_nowhere")} />}</td>
                  <td class="mono">{one.id}</td>
                  <td class="mono">{one.node}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Over>
      )}
    </Panel>
  );
}

/** What comes back down from Kafka. */
function Commands() {
  const live = useLive<Paged<UplinkCommands>>("uplink/commands", { node: "*" }, 3000);
  const nodes = live.data?.items ?? [];
  return (
    <>
      <ProblemNote problem={live.problem} />
      <Alarms nodes={nodes} />
      <div class="panels">
        {nodes.map((one) => (
          <Panel key={one.node} title={t("uplink.commands", { node: one.node })}>
            <Facts
              of={[
                [t("uplink.topic"), <span class="mono">{one.topic}</span>],
                [
                  t("uplink.partitions"),
                  one.joined ? one.partitions.join(", ") || t("uplink.no_partitions") : t("uplink.not_joined"),
                ],
                [t("uplink.waiting"), t("uplink.under_way", { lag: number(one.lag), count: number(one.under_way) })],
                [t("uplink.received"), number(one.received)],
                [t("uplink.accepted"), number(one.accepted)],
                [t("uplink.repeated"), number(one.repeated)],
                [t("uplink.expired"), number(one.expired)],
                [t("uplink.buried"), number(one.buried)],
              ]}
            />
          </Panel>
        ))}
      </div>
      {live.data && nodes.length === 0 && <Reasons of={live.data.missing} />}
    </>
  );
}

/** Rules by a part of their filter or of where they send to. */
async function search(text: string, signal: AbortSignal): Promise<Hit[]> {
  const found = await api.get<Rules>("uplink/rules", {}, signal);
  return found.items
    .filter((one) => one.filter.includes(text) || one.to.includes(text))
    .slice(0, 5)
    .map((one) => ({ text: `${one.filter} → ${one.to}`, parts: ["uplink"] }));
}

export default {
  path: "uplink",
  title: "uplink.title",
  menu: { group: "traffic", order: 60 },
  view: UplinkPage,
  search,
} satisfies Page;
