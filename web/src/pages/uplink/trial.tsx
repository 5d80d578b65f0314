/** The dry run: what rules would do with what has just come, and what would be different from now. Nothing is sent. */
import { useState } from "preact/hooks";
import { api, type Missing, Problem } from "../../core/api";
import { number, time } from "../../core/format";
import { t } from "../../core/i18n";
import { problemOf } from "../../core/live";
import { may } from "../../core/session";
import { Empty, MissingNote, ProblemNote } from "../../ui/notes";
import { Panel } from "../../ui/parts";
import { Choice } from "../devices/parts";
import { Over } from "./parts";
import { readRules, together, written } from "./rules";
import type { Example, Rules, RuleTrial, Trial } from "./types";

/** The sums, and who did not answer. */
type OfAll = Trial & { missing: Missing[] };

const LAST = ["100", "1000", "10000", "50000"];

export function DryRun({ nodes }: { nodes: Rules[] }) {
  const [text, setText] = useState(() => written(together(nodes).rules));
  const [messages, setMessages] = useState("1000");
  const [node, setNode] = useState("");
  const [busy, setBusy] = useState(false);
  const [trial, setTrial] = useState<OfAll>();
  const [problem, setProblem] = useState<Problem>();
  if (!may("operator")) return null;
  // By hand only: each run is a line of the audit log.
  const run = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    const [found, failed] = await tried(text, Number(messages), node);
    setBusy(false);
    setProblem(failed);
    if (found) setTrial(found);
  };
  return (
    <Panel title={t("uplink.dry_run")} wide>
      <form class="form" onSubmit={run}>
        <label>
          <span>{t("uplink.dry_rules")}</span>
          <textarea
            name="rules"
            class="rules"
            spellcheck={false}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <div class="row-of">
          <Choice
            label={t("uplink.dry_messages")}
            value={messages}
            of={LAST.map((one) => [one, t("uplink.dry_last", { count: number(Number(one)) })])}
            chosen={setMessages}
          />
          {nodes.length > 1 && (
            <Choice
              label={t("overview.node")}
              value={node}
              of={[["", t("uplink.dry_everywhere")], ...nodes.map((one): [string, string] => [one.node, one.node])]}
              chosen={setNode}
            />
          )}
          <button type="submit" class="primary" disabled={busy}>
            {t("uplink.dry_try")}
          </button>
        </div>
        <ProblemNote problem={problem} />
      </form>
      {trial && <Outcome trial={trial} />}
    </Panel>
  );
}

async function tried(text: string, messages: number, node: string): Promise<[OfAll?, Problem?]> {
  let rules: Record<string, unknown>[];
  try {
    rules = readRules(text);
  } catch (error) {
    return [undefined, new Problem(0, "no_rules", (error as Error).message)];
  }
  try {
    return [await api.post<OfAll>("uplink/test", { rules, messages }, { node: node || undefined })];
  } catch (error) {
    return [undefined, problemOf(error)];
  }
}

function Outcome({ trial }: { trial: OfAll }) {
  if (trial.messages === 0) return <Empty text={t("uplink.dry_nothing")} />;
  const span = { count: number(trial.messages), first: time(trial.first_at), last: time(trial.last_at) };
  return (
    <section class="trial" aria-live="polite" aria-label={t("uplink.dry_outcome")}>
      <MissingNote missing={trial.missing} />
      <p class="sum">{t("uplink.dry_sum", span)}</p>
      <h3>{t("uplink.dry_changed", { count: number(trial.changed ?? 0) })}</h3>
      {trial.differences.length > 0 && <Differences trial={trial} />}
      {trial.other_keys > 0 && <p class="dim">{t("uplink.dry_keys", { count: number(trial.other_keys) })}</p>}
      <h3>{t("uplink.dry_by_rule")}</h3>
      <Over label={t("uplink.dry_by_rule")}>
        <table class="small rows">
          <thead>
            <tr>
              <th class="end">{t("uplink.number")}</th>
              <th>{t("uplink.rule")}</th>
              <th class="end">{t("uplink.matched")}</th>
              <th class="end">{t("uplink.would_go")}</th>
              <th>{t("uplink.to")}</th>
              <th>{t("uplink.example")}</th>
            </tr>
          </thead>
          <tbody>
            {trial.rules.map((one) => (
              <ByRule key={one.number} one={one} />
            ))}
            {trial.unmatched > 0 && (
              <tr>
                <td class="end">–</td>
                <td>{t("uplink.dry_no_rule")}</td>
                <td class="end">{number(trial.unmatched)}</td>
                <td class="end">0</td>
                <td>–</td>
                <td>
                  <Examples of={trial.unmatched_examples} />
                </td>
              </tr>
            )}
          </tbody>
        </table>
      </Over>
      {trial.notes.map((text) => (
        <p class="dim" key={text}>
          {text}
        </p>
      ))}
    </section>
  );
}

function ByRule({ one }: { one: RuleTrial }) {
  return (
    <tr>
      <td class="end">{one.number}</td>
      <td class="mono">{one.rule}</td>
      <td class="end">{number(one.matched)}</td>
      <td class="end">{number(one.sent)}</td>
      <td class="mono">
        {Object.entries(one.to).map(([to, count]) => (
          <div key={to}>
            {to}: {number(count)}
          </div>
        ))}
      </td>
      <td>
        <Examples of={one.examples} />
      </td>
    </tr>
  );
}

function Differences({ trial }: { trial: Trial }) {
  return (
    <Over label={t("uplink.differences")}>
      <table class="small rows">
        <thead>
          <tr>
            <th class="end">{t("uplink.messages")}</th>
            <th>{t("uplink.now")}</th>
            <th>{t("uplink.then")}</th>
            <th>{t("uplink.example")}</th>
          </tr>
        </thead>
        <tbody>
          {trial.differences.map((one) => (
            <tr key={`${one.now} ${one.then}`}>
              <td class="end">{number(one.messages)}</td>
              <td class="mono">{one.now}</td>
              <td class="mono">{one.then}</td>
              <td>
                <Examples of={[one.example]} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Over>
  );
}

/** One is enough to see what a rule is about. */
function Examples({ of }: { of: Example[] }) {
  return (
    <>
      {of.slice(0, 1).map((one) => (
        <div class="mono" key={one.topic}>
          {one.topic} <span class="dim">{one.payload}</span>
        </div>
      ))}
    </>
  );
}
