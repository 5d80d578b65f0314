/** One key of the configuration: what it means, what each layer says of it, and changing it. */
import { useState } from "preact/hooks";
import { api, type Paged, path } from "../core/api";
import { sentence, t } from "../core/i18n";
import { useLive } from "../core/live";
import { Action } from "../ui/action";
import { Field, useTexts } from "../ui/fields";
import { Badge } from "../ui/icons";
import { MissingNote, ProblemNote } from "../ui/notes";
import { Facts, Head, Panel } from "../ui/parts";
import type { Page } from ".";
import { ChangesNote } from "./settings/changes";
import { MASK, text, typed } from "./settings/keys";
import type { Changes, KeyDetail } from "./settings/types";

type Body = { set: Record<string, unknown> } | { unset: string[] };

function OneKey({ key_: key = "" }: Record<string, string>) {
  const live = useLive<Paged<KeyDetail>>(path("config", key), { node: "*" }, 5000);
  const [changes, setChanges] = useState<Changes[]>();
  const found = live.data?.items ?? [];
  const first = found[0];
  /** Each node has its own configuration: what is said of several is said to one after the other. */
  const change = async (nodes: string[], body: Body) => {
    const said: Changes[] = [];
    try {
      for (const node of nodes) said.push(await api.patch<Changes>("config", body, { node }));
    } finally {
      setChanges(said);
      live.refresh();
    }
  };
  const nodes = found.map((one) => one.node ?? "");
  const kept = found.filter((one) => one.layer === "changed").map((one) => one.node ?? "");
  return (
    <>
      <Head title={t("config.one")} of={key}>
        {first?.live && <Change key={key} of={found} change={(where, body) => change(where, body)} />}
        {kept.length > 0 && (
          <Action
            role="admin"
            label={t("config.unset")}
            question={sentence("config.unset_question", { key, nodes: kept.join(", ") })}
            run={() => change(kept, { unset: [key] })}
          />
        )}
      </Head>
      <ProblemNote problem={live.problem} />
      <MissingNote missing={live.data?.missing} />
      {changes && <ChangesNote of={changes} />}
      {first && (
        <div class="panels">
          <Panel title={t("config.means")} wide>
            <p class="text">{first.means}</p>
            <Facts
              of={[
                [t("config.takes_effect"), t(first.live ? "config.at_once" : "config.after_restart")],
                [
                  t("config.default"),
                  <span key="default" class="mono">
                    {text(first.default)}
                  </span>,
                ],
                [
                  t("config.nodes"),
                  <span key="nodes" class="mono">
                    {nodes.join(", ")}
                  </span>,
                ],
              ]}
            />
          </Panel>
          {found.map((one) => (
            <Layers key={one.node} of={one} />
          ))}
        </div>
      )}
    </>
  );
}

function Layers({ of }: { of: KeyDetail }) {
  return (
    <Panel title={of.node ?? ""}>
      <Facts
        of={[
          [
            t("config.value"),
            <span key="value" class="mono">
              {text(of.value)}
            </span>,
          ],
          ...(of.restart
            ? [
                [t("config.after"), <Badge key="after" level="warn" text={text(of.written)} />] as [
                  string,
                  preact.ComponentChildren,
                ],
              ]
            : []),
        ]}
      />
      <h3>{t("config.layers")}</h3>
      <Facts
        of={[...of.layers].reverse().map((one, at): [string, preact.ComponentChildren] => [
          t(`layer.${one.layer}`),
          <div key={one.where}>
            <span class={at === 0 ? "mono" : "mono dim"}>{text(one.value)}</span>{" "}
            <small>{one.layer === "default" ? "" : one.where}</small>
          </div>,
        ])}
      />
    </Panel>
  );
}

function Change({ of, change }: { of: KeyDetail[]; change: (nodes: string[], body: Body) => Promise<void> }) {
  const first = of[0] as KeyDetail;
  const form = useTexts({ value: text(first.value), node: "*" });
  const { value, node } = form.texts;
  const all = of.map((one) => one.node ?? "");
  const secret = first.value === MASK;
  return (
    <Action
      role="admin"
      label={t("config.change")}
      question={sentence("config.change_now", { key: first.key })}
      opened={() => form.again({ value: secret ? "" : text(first.value), node: "*" })}
      run={() => change(node === "*" ? all : [node], { set: { [first.key]: typed(value) } })}
    >
      <Field label={t("config.value")}>
        <input class="mono" type={secret ? "password" : "text"} autocomplete="off" {...form.of("value")} />
      </Field>
      {all.length > 1 && (
        <Field label={t("config.where_to")}>
          <select {...form.of("node")}>
            <option value="*">{t("config.all_nodes")}</option>
            {all.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </Field>
      )}
    </Action>
  );
}

export default { path: "configuration/:key_", title: "config.one", role: "operator", view: OneKey } satisfies Page;
