/** A plugin is each node's own: how it is at all of them, and changing it at one or at all. */
import { Problem } from "../../core/api";
import { number } from "../../core/format";
import { t, tOr } from "../../core/i18n";
import { problemOf } from "../../core/live";
import { href } from "../../core/router";
import type { Plugin } from "../../core/types";
import { Badge } from "../../ui/icons";
import { Panel } from "../../ui/parts";
import { faultsOf, levelOf } from "./parts";

/** In place of a node's name: all of them. */
export const ALL = "*";

/** At each of these nodes, at once. Who refused is named, with why; the others have done it all the same. */
export async function atEach<T>(nodes: (string | undefined)[], run: (node: string | undefined) => Promise<T>) {
  const outcomes = await Promise.allSettled(nodes.map(run));
  const failed = outcomes.flatMap((one, at) =>
    one.status === "rejected" ? [[nodes[at], problemOf(one.reason)] as const] : [],
  );
  const [first] = failed;
  if (first && nodes.length === 1) throw first[1];
  if (first) throw new Problem(0, "nodes", failed.map(([node, why]) => `${node}: ${why.detail}`).join("; "));
  return outcomes.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
}

interface WhereProps {
  nodes: string[];
  value: string;
  chosen: (value: string) => void;
}

/** Not there where there is one node. */
export function Where({ nodes, value, chosen }: WhereProps) {
  if (nodes.length < 2) return null;
  return (
    <label>
      <span>{t("plugins.where")}</span>
      <select name="node" value={value} onChange={(event) => chosen(event.currentTarget.value)}>
        <option value={ALL}>{t("plugins.all_nodes")}</option>
        {nodes.map((one) => (
          <option key={one} value={one}>
            {one}
          </option>
        ))}
      </select>
    </label>
  );
}

/** How it is at every node, each with a link to what this page shows of it there. */
export function AtTheNodes({ all, shown }: { all: Plugin[]; shown: string | undefined }) {
  if (all.length < 2) return null;
  const versions = new Set(all.map((one) => one.version));
  return (
    <Panel title={t("plugins.at_nodes")}>
      {versions.size > 1 && <p class="dim">{t("plugins.nodes_differ")}</p>}
      <table class="small">
        <thead>
          <tr>
            <th>{t("clients.node")}</th>
            <th>{t("plugins.state")}</th>
            <th>{t("plugins.version")}</th>
            <th class="end">{t("plugins.connections")}</th>
            <th class="end">{t("plugins.faults")}</th>
          </tr>
        </thead>
        <tbody>
          {all.map((one) => (
            <tr key={one.node}>
              <td>
                <a
                  class="mono"
                  href={href(["plugins", one.name], { node: one.node })}
                  aria-current={one.node === shown ? "true" : undefined}
                >
                  {one.node}
                </a>
              </td>
              <td>
                <Badge level={levelOf(one)} text={tOr(`plugins.state_${one.state}`, one.state)} />
                {one.reason && <small> {one.reason}</small>}
              </td>
              <td class="mono">{one.version ?? "–"}</td>
              <td class="end">{number(one.connections)}</td>
              <td class="end">{number(faultsOf(one))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}
