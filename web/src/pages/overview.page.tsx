/** How the brokers are, in one look. */
import { useMemo, useState } from "preact/hooks";
import type { Paged } from "../core/api";
import { now } from "../core/clock";
import { type BrokerEvent, useEvents } from "../core/events";
import { bytes, duration, number, seconds, short, time } from "../core/format";
import { t, tOr } from "../core/i18n";
import { type Live, useLive } from "../core/live";
import { silent } from "../core/pulse";
import { type Figures, figuresOf, LOST, type Lost, quantile, retainedOf, useRates } from "../core/rates";
import { reasonText } from "../core/reasons";
import { type Lines, linesOf, SPANS } from "../core/series";
import type { History, Status } from "../core/types";
import { Chart } from "../ui/chart";
import { Badge, type Level, Mark } from "../ui/icons";
import { Empty, MissingNote, ProblemNote } from "../ui/notes";
import { ClientLink, Counts, Head, Panel, Tile } from "../ui/parts";
import type { Page } from ".";

function Overview() {
  const live = useLive<Paged<Status>>("status", { node: "*" }, 2000, true);
  const nodes = live.data?.items ?? [];
  const figures = useMemo(() => figuresOf(nodes), [live.data]);
  const rates = useRates(figures);
  const alarms = nodes.flatMap((node) => node.alarms.map((text) => ({ node: node.node_id, text })));
  return (
    <>
      <Head title={t("overview.title")} />
      <ProblemNote problem={live.problem} />
      <MissingNote missing={live.data?.missing} />
      <Alarms alarms={alarms} fresh={live.data !== undefined && !live.problem && silent.value === null} />
      <Tiles live={live} nodes={nodes} figures={figures} rates={rates} />
      <Past />
      <div class="panels">
        <Nodes nodes={nodes} />
        <Panel title={t("overview.dropped")}>{figures && <NotArrived lost={figures.lost} />}</Panel>
        <Happening />
      </div>
    </>
  );
}

/** That there are none is said only of what was just heard. */
function Alarms({ alarms, fresh }: { alarms: { node: string; text: string }[]; fresh: boolean }) {
  if (alarms.length === 0) {
    if (!fresh) return null;
    return (
      <p class="calm">
        <Mark level="ok" /> {t("overview.no_alarms")}
      </p>
    );
  }
  return (
    <ul class="alarms" aria-label={t("overview.alarms")}>
      {alarms.map(({ node, text }) => (
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

interface TilesProps {
  live: Live<Paged<Status>>;
  nodes: Status[];
  figures: Figures | undefined;
  rates: Figures | undefined;
}

function Tiles({ live, nodes, figures, rates }: TilesProps) {
  const sum = (of: (node: Status) => number) =>
    live.data ? nodes.reduce((all, node) => all + of(node), 0) : undefined;
  const waits = rates?.waits ?? {};
  return (
    <div class="tiles">
      <Tile
        label={t("overview.received")}
        value={short(rates?.received)}
        unit={t("unit.per_second")}
        more={`${bytes(rates?.bytesIn)}/s`}
      />
      <Tile
        label={t("overview.delivered")}
        value={short(rates?.delivered)}
        unit={t("unit.per_second")}
        more={`${bytes(rates?.bytesOut)}/s`}
      />
      <Tile
        label={t("overview.lost")}
        value={short(rates?.dropped)}
        unit={t("unit.per_second")}
        more={t("overview.in_all", { count: short(figures?.dropped) })}
      />
      <Tile
        label={t("overview.clients")}
        value={number(sum((node) => node.clients))}
        more={t("overview.sessions", { count: number(sum((node) => node.sessions)) })}
      />
      <Tile
        label={t("overview.waiting")}
        value={short(sum((node) => node.waiting))}
        more={t("overview.inflight", { count: short(sum((node) => node.inflight)) })}
      />
      <Tile
        label={t("overview.acknowledged")}
        value={seconds(quantile(0.5, waits))}
        more={t("overview.acknowledged_p99", { wait: seconds(quantile(0.99, waits)) })}
      />
      <Tile
        label={t("overview.subscriptions")}
        value={number(sum((node) => node.subscriptions))}
        more={t("overview.retained", { count: short(retainedOf(nodes)) })}
      />
      <Tile
        label={t("overview.unexplained")}
        value={number(sum((node) => node.unexplained))}
        more={t("overview.unexplained_more")}
      />
    </div>
  );
}

const SERIES = [
  "messages_received",
  "messages_delivered",
  "messages_dropped",
  "clients",
  "queued",
  "acknowledgement_p50",
  "acknowledgement_p99",
  "loop_lag",
  "cpu",
  "connects",
  "disconnects",
  "refusals",
].join(",");

function Past() {
  const [span, setSpan] = useState(SPANS[0]);
  const from = useMemo(() => Math.floor(now()) - span.seconds, [span]);
  // The whole span each time; the server picks the step, and a week of one node is read in 3 ms.
  const live = useLive<Paged<History>>("history", { series: SERIES, from }, span.every);
  const lines: Lines = useMemo(() => linesOf(live.data?.items ?? [], span.seconds), [live.data, span]);
  const of = (...names: string[]) => names.map((name) => ({ label: t(`series.${name}`), values: lines.of(name) }));
  return (
    <section class="past" aria-label={t("overview.past")}>
      <fieldset class="spans">
        <legend class="unseen">{t("overview.past")}</legend>
        {SPANS.map((one) => (
          <button
            type="button"
            key={one.key}
            class={one === span ? "on" : ""}
            aria-pressed={one === span}
            onClick={() => setSpan(one)}
          >
            {t(`overview.span_${one.key}`)}
          </button>
        ))}
      </fieldset>
      <ProblemNote problem={live.problem} />
      <div class="charts">
        <Chart
          title={t("overview.chart_messages")}
          times={lines.times}
          lines={of("messages_received", "messages_delivered", "messages_dropped")}
        />
        <Chart title={t("overview.chart_clients")} times={lines.times} lines={of("clients")} />
        <Chart
          title={t("overview.chart_coming")}
          times={lines.times}
          lines={of("connects", "disconnects", "refusals")}
        />
        <Chart title={t("overview.chart_waiting")} times={lines.times} lines={of("queued")} />
        <Chart
          title={t("overview.chart_acknowledged")}
          times={lines.times}
          lines={of("acknowledgement_p50", "acknowledgement_p99")}
          format={seconds}
        />
        <Chart title={t("overview.chart_lag")} times={lines.times} lines={of("loop_lag")} format={seconds} />
        <Chart title={t("overview.chart_cpu")} times={lines.times} lines={of("cpu")} />
      </div>
    </section>
  );
}

function levelOf(node: Status): Level {
  if (!node.ready) return "bad";
  return node.alarms.length > 0 || node.state !== "serving" ? "warn" : "ok";
}

function Nodes({ nodes }: { nodes: Status[] }) {
  return (
    <Panel title={t("overview.nodes")}>
      <table class="small">
        <thead>
          <tr>
            <th>{t("overview.node")}</th>
            <th>{t("overview.state")}</th>
            <th class="end">{t("overview.clients")}</th>
            <th class="end">{t("overview.up")}</th>
            <th class="end">{t("overview.version")}</th>
          </tr>
        </thead>
        <tbody>
          {nodes.map((node) => (
            <tr key={node.node_id}>
              <td class="mono">{node.node_id}</td>
              <td>
                <Badge level={levelOf(node)} text={tOr(`state.${node.state}`, node.state)} />
              </td>
              <td class="end">{number(node.clients)}</td>
              <td class="end">{duration(node.uptime)}</td>
              <td class="end">{node.version}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

function NotArrived({ lost }: { lost: Lost }) {
  const kinds = LOST.filter((kind) => Object.values(lost[kind]).some((count) => count > 0));
  if (kinds.length === 0) return <Empty text={t("overview.no_drops")} />;
  return (
    <>
      {kinds.map((kind) => (
        <section key={kind}>
          <h3>{t(`dropped.kind_${kind}`)}</h3>
          <Counts of={lost[kind]} names={reasonText} empty="" />
        </section>
      ))}
    </>
  );
}

const KINDS = ["client.refused", "alarm.raised", "alarm.cleared"] as const;
const KEPT = 12;

function Happening() {
  const [events, setEvents] = useState<BrokerEvent[]>([]);
  const add = useMemo(() => (event: BrokerEvent) => setEvents((before) => [event, ...before].slice(0, KEPT)), []);
  useEvents(KINDS, add);
  return (
    <Panel title={t("overview.happening")}>
      {events.length === 0 && <Empty text={t("overview.nothing")} />}
      <ul class="events" aria-live="off">
        {events.map((event) => (
          <li key={`${event.node} ${event.at} ${event.kind} ${event.client}`}>
            <time>{time(event.at)}</time>
            <Mark level={event.kind === "alarm.cleared" ? "ok" : event.kind === "alarm.raised" ? "bad" : "warn"} />
            <span>
              {t(`event.${event.kind}`)} {typeof event.client === "string" && <ClientLink id={event.client} />}{" "}
              <small>{event.reason ? reasonText(String(event.reason)) : String(event.text ?? "")}</small>
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

export default { path: "", title: "overview.title", menu: { group: "now", order: 0 }, view: Overview } satisfies Page;
