/** The jobs that read the uplink: whether they keep up, what became of rows; single alarms and dead letters. */
import type { Paged } from "../core/api";
import { ago, number, seconds, time } from "../core/format";
import { t, tOr } from "../core/i18n";
import { lines } from "../core/legible";
import { useLive } from "../core/live";
import { Chart } from "../ui/chart";
import { Badge, type Level } from "../ui/icons";
import { Empty, MissingNote, ProblemNote } from "../ui/notes";
import { Counts, Facts, Head, Panel } from "../ui/parts";
import type { Page } from ".";
import { useTrail } from "./devices/trail";
import { Rows } from "./pipeline/rows";
import type { Job } from "./uplink/types";
import "./uplink/uplink.css";

/** What is counted by name, and what it is a count of. */
const NAMED = ["invalid", "duplicate", "raised"];
/** From what comes to what becomes of it. */
const TOTALS = [
  "in",
  "rows",
  "valid",
  "dead",
  "invalid_tags",
  "duplicate",
  "late",
  "out",
  "invalid",
  "raised",
  "cleared",
];

function Pipeline() {
  const live = useLive<Paged<Job>>("pipeline", {}, 3000);
  return (
    <>
      <Head title={t("pipeline.title")} />
      <ProblemNote problem={live.problem} />
      <MissingNote missing={live.data?.missing} />
      {live.data?.items.length === 0 && <Empty text={t("pipeline.none")} />}
      <div class="jobs">
        {live.data?.items.map((job) => (
          <OneJob key={`${job.node} ${job.job}`} job={job} />
        ))}
      </div>
      <Rows />
    </>
  );
}

/** Who ended with an error has failed, whatever its process says. */
function stateOf(job: Job): string {
  return job.state === "stopped" && job.error !== null ? "failed" : job.state;
}

function levelOf(state: string): Level {
  if (state === "running") return "ok";
  if (state === "stopped") return "none";
  return state === "died" || state === "failed" ? "bad" : "warn";
}

/** What is known of its last batch. */
function factsOf(job: Job): [string, string][] {
  const batch = { number: number(job.batch), took: seconds(job.batch_seconds) };
  const took = job.batch_seconds === null ? batch.number : t("pipeline.batch_took", batch);
  const facts: [string, string | null][] = [
    [t("pipeline.since"), job.started_at === null ? null : time(job.started_at)],
    [t("pipeline.batch"), job.batch === null ? null : took],
    [t("pipeline.come"), rate(job.input_rows_per_second)],
    [t("pipeline.done"), rate(job.processed_rows_per_second)],
    [t("pipeline.lag"), job.lag === null ? null : number(job.lag)],
    [t("pipeline.watermark"), job.watermark === null ? null : time(Date.parse(job.watermark) / 1000)],
  ];
  return facts.filter((one): one is [string, string] => one[1] !== null);
}

/** Rows, messages and values: not one measure, so without bars. */
function totalsOf(job: Job): [string, string][] {
  const found = Object.entries(job.totals).sort(([a], [b]) => placeOf(a) - placeOf(b));
  return found.map(([key, count]) => [tOr(`pipeline.total_${key}`, key), number(count)]);
}

function placeOf(key: string): number {
  const at = TOTALS.indexOf(key);
  return at < 0 ? TOTALS.length : at;
}

function OneJob({ job }: { job: Job }) {
  const trail = useTrail(job, () => ({
    input: job.input_rows_per_second,
    processed: job.processed_rows_per_second,
  }));
  const state = stateOf(job);
  const named = NAMED.filter((what) => job.named[what]);
  return (
    <Panel title={tOr(`pipeline.job_${job.job}`, job.job)}>
      <p>
        <Badge level={levelOf(state)} text={tOr(`pipeline.state_${state}`, state)} />{" "}
        <span class="dim">
          <span class="mono">{job.job}</span> · {t("pipeline.said", { ago: ago(job.updated_at) })} · {job.node}
        </span>
      </p>
      {job.error !== null && (
        <pre class="said cause" tabIndex={0}>
          {lines(job.error)}
        </pre>
      )}
      <Facts of={factsOf(job)} />
      {job.state === "running" && (
        <Chart
          title={t("pipeline.rates")}
          times={[...trail.times]}
          lines={[
            { label: t("pipeline.come"), values: [...(trail.lines.get("input") ?? [])] },
            { label: t("pipeline.done"), values: [...(trail.lines.get("processed") ?? [])] },
          ]}
          height={90}
        />
      )}
      <h3>{t("pipeline.totals")}</h3>
      {Object.keys(job.totals).length === 0 && <Empty text={t("pipeline.no_totals")} />}
      <Facts of={totalsOf(job)} />
      {named.map((what) => (
        <div key={what}>
          <h3>{t(`pipeline.named_${what}`)}</h3>
          <Counts of={job.named[what] ?? {}} names={(key) => key} empty="–" />
        </div>
      ))}
    </Panel>
  );
}

function rate(value: number | null): string | null {
  return value === null ? null : `${number(value, 1)} ${t("unit.per_second")}`;
}

export default {
  path: "pipeline",
  title: "pipeline.title",
  menu: { group: "traffic", order: 70 },
  view: Pipeline,
} satisfies Page;
