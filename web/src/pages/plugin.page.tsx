/** One plugin: how it is, its versions, its report, and what it makes of frames. */
import { useState } from "preact/hooks";
import type { Problem } from "../core/api";
import { api, type Paged, path } from "../core/api";
import { duration, number, seconds } from "../core/format";
import { sentence, t, tOr } from "../core/i18n";
import { problemOf, useLive } from "../core/live";
import { place } from "../core/router";
import { may } from "../core/session";
import type { CheckReport, Plugin } from "../core/types";
import { Action } from "../ui/action";
import { Badge, Mark } from "../ui/icons";
import { Empty, MissingNote, ProblemNote } from "../ui/notes";
import { ClientLink, Counts, Facts, Head, Panel } from "../ui/parts";
import type { Page } from ".";
import { Frames } from "./plugins/frames";
import { ALL, AtTheNodes, atEach, Where } from "./plugins/nodes";
import { levelOf } from "./plugins/parts";
import "./plugins/plugins.css";

function One({ name = "" }: Record<string, string>) {
  const node = place.value.query.node;
  const live = useLive<Plugin>(path("plugins", name), { node }, 3000);
  const everywhere = useLive<Paged<Plugin>>("plugins", { limit: 1000 }, 3000);
  const one = live.data;
  const all = (everywhere.data?.items ?? []).filter((other) => other.name === name);
  const changed = () => {
    live.refresh();
    everywhere.refresh();
  };
  return (
    <>
      <Head title={t("plugins.one")} of={name}>
        {one && <Changes one={one} all={all} done={changed} />}
      </Head>
      <ProblemNote problem={live.problem} />
      <MissingNote missing={everywhere.data?.missing} />
      {one && (
        <>
          <p class="standing">
            <Badge level={levelOf(one)} text={tOr(`plugins.state_${one.state}`, one.state)} /> {one.reason}
          </p>
          <div class="panels">
            <AtTheNodes all={all} shown={one.node} />
            <Health one={one} />
            <Versions one={one} />
            <Faults one={one} />
          </div>
          {may("admin") && <Report one={one} node={one.node ?? node} />}
          <Frames codec={name} node={one.node ?? node} />
        </>
      )}
    </>
  );
}

interface ChangesProps {
  one: Plugin;
  /** The same at all nodes. */
  all: Plugin[];
  done: () => void;
}

const isOff = (one: Plugin) => one.state === "disabled";
const needsEnable = (one: Plugin) => isOff(one) || one.quarantine !== null || one.state === "refused";

/** At the node that is shown, or at all nodes that it makes sense for. */
function Changes({ one, all, done }: ChangesProps) {
  const [drain, setDrain] = useState(false);
  const [where, setWhere] = useState(ALL);
  const several = all.length > 1;
  const change = (what: string, body: object, fits: (other: Plugin) => boolean) => () => {
    const others = several ? all.filter((other) => (where === ALL ? fits(other) : other.node === where)) : [one];
    return atEach(
      others.map((other) => other.node),
      (node) => api.post(path("plugins", one.name, what), body, { node }),
    );
  };
  const at = <Where nodes={all.map((other) => other.node ?? "")} value={where} chosen={setWhere} />;
  const drained = (
    <label class="check">
      <input type="checkbox" checked={drain} onChange={(event) => setDrain(event.currentTarget.checked)} />{" "}
      {t("plugins.drain")}
    </label>
  );
  const question = (what: string) => sentence(`plugins.${what}_question`, { name: one.name });
  const runs = (other: Plugin) => !isOff(other);
  const reset = () => setWhere(ALL);
  return (
    <>
      {needsEnable(one) && (
        <Action
          role="admin"
          label={t(one.quarantine === null ? "plugins.enable" : "plugins.end_quarantine")}
          question={question("enable")}
          opened={reset}
          run={change("enable", {}, needsEnable)}
          done={done}
        >
          {at}
        </Action>
      )}
      {runs(one) && (
        <>
          <Action
            role="admin"
            label={t("plugins.reload")}
            question={question("reload")}
            opened={reset}
            run={change("reload", { drain }, runs)}
            done={done}
          >
            {at}
            {drained}
          </Action>
          <Action
            role="admin"
            label={t("plugins.rollback")}
            question={question("rollback")}
            opened={reset}
            run={change("rollback", { drain }, runs)}
            done={done}
          >
            {at}
            {drained}
          </Action>
          <Action
            role="admin"
            danger
            label={t("plugins.disable")}
            question={question("disable")}
            opened={reset}
            run={change("disable", {}, runs)}
            done={done}
          >
            {at}
          </Action>
        </>
      )}
    </>
  );
}

function Health({ one }: { one: Plugin }) {
  const loose = Object.entries(one.unconfined);
  return (
    <Panel title={t("plugins.health")}>
      <Facts
        of={[
          [t("clients.node"), one.node ?? ""],
          [t("plugins.version"), one.version ?? "–"],
          [t("plugins.isolation"), tOr(`plugins.isolation_${one.isolation}`, one.isolation)],
          [t("plugins.process"), one.pid === null ? "–" : String(one.pid)],
          [t("plugins.restarts"), number(one.restarts)],
          [t("plugins.quarantines"), number(one.quarantines)],
          [t("plugins.quarantine"), one.quarantine === null ? "–" : duration(one.quarantine)],
          [t("plugins.slowest"), seconds(one.slowest)],
        ]}
      />
      {loose.length > 0 && (
        <p class="note warn">
          <Mark level="warn" />
          <span>
            {t("plugins.unconfined")} {loose.map(([step, why]) => `${step}: ${why}`).join("; ")}
          </span>
        </p>
      )}
    </Panel>
  );
}

function Versions({ one }: { one: Plugin }) {
  return (
    <Panel title={t("plugins.versions")}>
      {one.versions.length === 0 && <Empty text={t("plugins.no_versions")} />}
      <ul class="plain-list">
        {one.versions.map((version) => (
          <li key={version.label}>
            <span class="mono">{version.label}</span>{" "}
            {version.current && <Badge level="ok" text={t("plugins.current")} />}{" "}
            <small>
              {t(version.loaded ? "plugins.loaded" : "plugins.kept")} ·{" "}
              {t("plugins.on_it", { count: number(version.connections) })}
            </small>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function Faults({ one }: { one: Plugin }) {
  const names = (key: string) => tOr(`plugins.fault_${key}`, key);
  return (
    <Panel title={t("plugins.faults")}>
      <Counts of={{ ...one.faults, ...one.turned_away }} names={names} empty={t("plugins.no_faults")} />
      {one.held_off.length > 0 && <h3>{t("plugins.held_off")}</h3>}
      <ul class="plain-list">
        {one.held_off.map((held) => (
          <li key={`${held.kind} ${held.name}`}>
            {held.kind === "device" ? <ClientLink id={held.name} /> : <span class="mono">{held.name}</span>}{" "}
            <small>
              {duration(held.seconds)}: {held.reason}
            </small>
          </li>
        ))}
      </ul>
      {Object.keys(one.counters).length > 0 && (
        <>
          <h3>{t("plugins.counters")}</h3>
          <Counts of={one.counters} names={(key) => key} empty="" />
        </>
      )}
    </Panel>
  );
}

const VERDICTS = { pass: "ok", fail: "bad", none: "none" } as const;

/** What the codec kit says of the version that came last, or of a chosen one; the node asks a process without rights. */
function Report({ one, node }: { one: Plugin; node: string | undefined }) {
  const [report, setReport] = useState<CheckReport>();
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const check = async () => {
    setBusy(true);
    setProblem(undefined);
    setReport(undefined);
    try {
      setReport(await api.post<CheckReport>(path("plugins", one.name, "check"), {}, { node }));
    } catch (error) {
      setProblem(problemOf(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Panel title={t("plugins.report")} wide>
      <div class="buttons">
        <button type="button" disabled={busy} onClick={() => void check()}>
          {t(busy ? "plugins.checking" : "plugins.check")}
        </button>
        <span class="dim">{t("plugins.check_text")}</span>
      </div>
      <ProblemNote problem={problem} />
      {report && (
        <>
          <p class="standing">
            <Badge
              level={report.ok ? "ok" : "bad"}
              text={t(report.ok ? "plugins.passed" : "plugins.failed", { label: report.label })}
            />
          </p>
          <section class="report" tabIndex={0} aria-label={t("plugins.report")}>
            <table class="small">
              <tbody>
                {report.checks.map((line) => (
                  <tr key={line.name}>
                    <td>
                      <Mark
                        level={VERDICTS[line.verdict as keyof typeof VERDICTS] ?? "bad"}
                        label={t(`plugins.verdict_${line.verdict}`)}
                      />{" "}
                      {line.name}
                    </td>
                    <td>
                      {line.figure}
                      {line.complaints.map((text) => (
                        <p key={text} class="bad-text">
                          {text}
                        </p>
                      ))}
                    </td>
                    <td class="end">{seconds(line.seconds)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
        </>
      )}
    </Panel>
  );
}

export default { path: "plugins/:name", title: "plugins.one", view: One } satisfies Page;
