/** What the nodes go by, who says so, and where they differ. */

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Problem } from "../core/api";
import { api, type Missing, type Paged } from "../core/api";
import { number } from "../core/format";
import { t } from "../core/i18n";
import { Poll, problemOf, useLive } from "../core/live";
import { href, place, refine } from "../core/router";
import { Action } from "../ui/action";
import { Field } from "../ui/fields";
import { Filter } from "../ui/filter";
import { Badge } from "../ui/icons";
import { MissingNote, ProblemNote } from "../ui/notes";
import { Head } from "../ui/parts";
import type { Hit, Page } from ".";
import type { Node } from "./cluster/types";
import { ChangesNote } from "./settings/changes";
import { type Row, rowsOf, shownRows, text, VIEWS, type View } from "./settings/keys";
import type { Changes, Key } from "./settings/types";
import "./settings/settings.css";

/** All pages of the list: there are some hundred keys of each node. */
async function allKeys(node: string, signal: AbortSignal): Promise<{ keys: Key[]; missing: Missing[] | undefined }> {
  const keys: Key[] = [];
  let after: string | undefined;
  let missing: Missing[] | undefined;
  do {
    const page = await api.get<Paged<Key>>("config", { node, limit: 1000, after }, signal);
    keys.push(...page.items);
    missing = page.missing;
    after = page.after ?? undefined;
  } while (after !== undefined);
  return { keys, missing };
}

function Configuration() {
  const { node = "*", view = "changed", contains = "" } = place.value.query;
  const known = useLive<Paged<Node>>("nodes", {}, 60_000).data;
  const [keys, setKeys] = useState<Key[]>();
  const [missing, setMissing] = useState<Missing[]>();
  const [problem, setProblem] = useState<Problem>();
  const [changes, setChanges] = useState<Changes[]>();
  useEffect(() => {
    const poll = new Poll(
      (signal) => allKeys(node, signal),
      30_000,
      (found, failed) => {
        setProblem(failed);
        if (!found) return;
        setKeys(found.keys);
        setMissing(found.missing);
      },
    );
    return () => poll.stop();
  }, [node, changes]);
  const rows = useMemo(() => rowsOf(keys ?? []), [keys]);
  const shown = shownRows(rows, view as View, contains);
  const nodes = [...new Set((keys ?? []).map((one) => one.node ?? ""))].sort();
  return (
    <>
      <Head title={t("config.title")}>
        <Reload nodes={nodes} done={setChanges} failed={setProblem} />
      </Head>
      <ProblemNote problem={problem} />
      <MissingNote missing={missing} />
      {changes && <ChangesNote of={changes} />}
      <div class="filters">
        <fieldset class="spans" aria-label={t("config.view")}>
          {VIEWS.map((one) => (
            <button
              type="button"
              key={one}
              class={one === view ? "on" : ""}
              aria-pressed={one === view}
              onClick={() => refine({ view: one })}
            >
              {t(`config.${one}`)}
            </button>
          ))}
        </fieldset>
        <Filter name="contains" label={t("config.contains")} />
        {(known?.items.length ?? 0) > 1 && (
          <Field label={t("cluster.node")}>
            <select value={node} onChange={(event) => refine({ node: event.currentTarget.value })}>
              <option value="*">{t("config.all_nodes")}</option>
              {known?.items.map((one) => (
                <option key={one.node_id}>{one.node_id}</option>
              ))}
            </select>
          </Field>
        )}
        <span class="count" role="status">
          {keys ? t("table.rows", { count: number(shown.length) }) : t("table.loading")}
        </span>
      </div>
      <section class="panel over" tabIndex={0} aria-label={t("config.title")}>
        <table class="small configuration">
          <thead>
            <tr>
              <th>{t("config.key")}</th>
              <th>{t("config.value")}</th>
              <th class="wide">{t("config.default")}</th>
              <th class="wide">{t("config.where")}</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <KeyRow key={row.key} row={row} />
            ))}
          </tbody>
        </table>
        {keys && shown.length === 0 && <p class="empty">{t("config.none")}</p>}
      </section>
    </>
  );
}

function KeyRow({ row }: { row: Row }) {
  const said = row.differs ? row.of : row.of.slice(0, 1);
  return (
    <tr>
      <td>
        <a class="mono" href={href(["configuration", row.key])}>
          {row.key}
        </a>
        <div class="tags dim">
          {row.restart && <Badge level="warn" text={t("config.restart_needed")} />}
          {row.differs && row.of.length > 1 && <Badge level="warn" text={t("config.differ")} />}
        </div>
      </td>
      <td>
        {said.map((one) => (
          <div key={one.node}>
            {row.differs && <span class="dim mono">{one.node} </span>}
            <span class="mono">{text(one.value)}</span>
            {one.restart && <span class="dim"> → {text(one.written)}</span>}
          </div>
        ))}
      </td>
      <td class="mono dim wide">{text(row.of[0]?.default)}</td>
      <td class="wide">
        {said.map((one) => (
          <div key={one.node}>
            <Where of={one} />
          </div>
        ))}
      </td>
    </tr>
  );
}

/** Its layer, and where in it: what is said on the command line is both. */
function Where({ of: { layer, where } }: { of: Key }) {
  const more = layer === "default" || layer === "set" ? "" : where;
  return (
    <>
      {t(`layer.${layer}`)} <span class="dim">{more}</span>
    </>
  );
}

function Reload({
  nodes,
  done,
  failed,
}: {
  nodes: string[];
  done: (changes: Changes[]) => void;
  failed: (problem: Problem) => void;
}) {
  const run = async () => {
    const found: Changes[] = [];
    try {
      for (const node of nodes) found.push(await api.post<Changes>("config/reload", {}, { node }));
    } catch (error) {
      failed(problemOf(error));
      throw error;
    } finally {
      done(found);
    }
  };
  return <Action role="admin" label={t("config.reload")} question={t("config.reload_question")} run={run} />;
}

async function search(part: string, signal: AbortSignal): Promise<Hit[]> {
  const found = await api.get<Paged<Key>>("config", { contains: part, limit: 5 }, signal);
  return found.items.map((one) => ({ text: one.key, more: text(one.value), parts: ["configuration", one.key] }));
}

export default {
  path: "configuration",
  title: "config.title",
  menu: { group: "system", order: 30 },
  role: "operator",
  view: Configuration,
  search,
} satisfies Page;
