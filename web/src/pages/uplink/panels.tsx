/** The rules in force, what they did, and reading them anew. */
import { useState } from "preact/hooks";
import { api } from "../../core/api";
import { number } from "../../core/format";
import { sentence, t } from "../../core/i18n";
import { Action } from "../../ui/action";
import { Mark } from "../../ui/icons";
import { Empty } from "../../ui/notes";
import { Panel } from "../../ui/parts";
import { Over } from "./parts";
import { conditions, together } from "./rules";
import type { Reload, Rule, Rules } from "./types";

export function RulesPanel({ nodes, refresh }: { nodes: Rules[]; refresh: () => void }) {
  const { rules, same } = together(nodes);
  const [reloads, setReloads] = useState<[string, Reload][]>([]);
  const reload = async () => {
    setReloads([]);
    // One after the other: what one node refuses the others are not asked to do.
    for (const { node } of nodes) {
      const done = await api.post<Reload>("uplink/reload", {}, { node });
      setReloads((before) => [...before, [node, done]]);
    }
  };
  const sum = (of: "earlier" | "turned_away") => nodes.reduce((all, one) => all + one[of], 0);
  return (
    <Panel title={t("uplink.rules")} wide>
      {!same && (
        <p class="note warn">
          <Mark level="warn" />
          <span>{t("uplink.differ", { node: nodes[0]?.node ?? "" })}</span>
        </p>
      )}
      {rules.length === 0 ? <Empty text={t("uplink.no_rules")} /> : <Table rules={rules} />}
      {sum("earlier") > 0 && <p class="dim">{t("uplink.earlier", { count: number(sum("earlier")) })}</p>}
      {sum("turned_away") > 0 && <p class="dim">{t("uplink.turned_away", { count: number(sum("turned_away")) })}</p>}
      <div class="buttons inline">
        <Action
          role="operator"
          label={t("uplink.reload")}
          question={sentence("uplink.reload_question", { nodes: nodes.map((one) => one.node).join(", ") })}
          run={reload}
          done={refresh}
        />
      </div>
      <ul class="plain-list" aria-live="polite">
        {reloads.map(([node, one]) => (
          <li key={node}>
            <Reloaded node={node} done={one} />
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function Table({ rules }: { rules: Rule[] }) {
  return (
    <Over label={t("uplink.rules")}>
      <table class="small rows">
        <thead>
          <tr>
            <th class="end">{t("uplink.number")}</th>
            <th>{t("uplink.filter")}</th>
            <th>{t("uplink.conditions")}</th>
            <th>{t("uplink.to")}</th>
            <th>{t("uplink.key")}</th>
            <th>{t("uplink.subscribers")}</th>
            <th class="end">{t("uplink.matched")}</th>
            <th class="end">{t("uplink.went_up")}</th>
          </tr>
        </thead>
        <tbody>
          {rules.map((one) => (
            <tr key={one.number}>
              <td class="end">{one.number}</td>
              <td class="mono">{one.filter}</td>
              <td class="mono">
                {conditions(one).map((text) => (
                  <div key={text}>{text}</div>
                ))}
              </td>
              <td class="mono">{one.to}</td>
              <td class="mono">{one.key}</td>
              <td>{t(one.mode === "only" ? "uplink.only" : "uplink.also")}</td>
              <td class="end">{number(one.matched)}</td>
              <td class="end">{number(one.sent)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Over>
  );
}

function Reloaded({ node, done }: { node: string; done: Reload }) {
  const changes = [
    ...done.removed.map((text) => `− ${text}`),
    ...done.added.map((text) => `+ ${text}`),
    ...(done.reordered ? [t("uplink.reordered")] : []),
    ...(done.waiting > 0 ? [t("uplink.by_earlier", { count: number(done.waiting) })] : []),
  ];
  return (
    <>
      <strong>{node}</strong> {t(done.changed ? "uplink.changed" : "uplink.unchanged")}
      {changes.map((text) => (
        <div class="mono" key={text}>
          {text}
        </div>
      ))}
    </>
  );
}
