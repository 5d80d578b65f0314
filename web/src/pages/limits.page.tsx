/** Limits of the grid: documents, and what holds for a client. */
import { useState } from "preact/hooks";
import { api, type Paged, path } from "../core/api";
import { sentence, t } from "../core/i18n";
import { useLive } from "../core/live";
import { Action } from "../ui/action";
import { Field, useTexts } from "../ui/fields";
import { Empty, ProblemNote } from "../ui/notes";
import { Facts, Head, Panel } from "../ui/parts";
import type { Page } from ".";
import { AskForm } from "./access/asking";
import { Holding, LimitFields, limitName, limitsOf, limitValue, NO_LIMITS, textsOf } from "./access/limits";
import type { LimitRule, SaidLimit } from "./access/types";

const WHO = { name: "", user: "", client: "", group: "" };

function LimitsPage() {
  const live = useLive<Paged<LimitRule>>("limits", { limit: 1000 }, 5000);
  return (
    <>
      <Head title={t("limits.title")}>
        <Write done={live.refresh} />
      </Head>
      <ProblemNote problem={live.problem} />
      <div class="panels">
        <Holds />
        {live.data?.items.length === 0 && (
          <Panel title={t("limits.documents")}>
            <Empty text={t("limits.none")} />
          </Panel>
        )}
        {live.data?.items.map((one) => (
          <Panel key={one.name} title={one.name}>
            <div class="buttons">
              <Write of={one} done={live.refresh} />
              <Action
                role="admin"
                danger
                label={t("limits.delete")}
                question={sentence("limits.delete_question", { name: one.name })}
                run={() => api.delete(path("limits", one.name))}
                done={live.refresh}
              />
            </div>
            <Facts
              of={[
                [
                  t("limits.for"),
                  <span key="who" class="mono">
                    {whoOf(one)}
                  </span>,
                ],
                ...Object.entries(one.limits).map(([name, value]): [string, string] => [
                  limitName(name),
                  limitValue(value),
                ]),
              ]}
            />
          </Panel>
        ))}
      </div>
    </>
  );
}

function whoOf(one: LimitRule): string {
  const said = (["user", "group", "client"] as const).flatMap((name) => {
    const value = one[name];
    return value === null ? [] : [`${t(`limits.${name}`)} ${value === "" ? t("may.anonymous") : value}`];
  });
  return said.join(", ") || t("limits.everybody");
}

function Write({ of, done }: { of?: LimitRule; done: () => void }) {
  const who = useTexts(WHO);
  const limits = useTexts(NO_LIMITS);
  const [version, setVersion] = useState(0);
  const opened = () => {
    who.again(of ? { name: of.name, user: of.user ?? "", client: of.client ?? "", group: of.group ?? "" } : {});
    limits.again(of ? textsOf(of.limits) : {});
    setVersion(of?.version ?? 0);
  };
  const { name, ...rest } = who.texts;
  // A user that is written as an empty text is whoever has none.
  const kept = of?.user === "" && rest.user === "" ? { user: "" } : {};
  const said = Object.fromEntries(Object.entries(rest).filter(([, text]) => text !== ""));
  return (
    <Action
      role="admin"
      label={t(of ? "limits.change" : "limits.add")}
      question={t("limits.write_question")}
      opened={opened}
      run={() => api.post(path("limits", name), { ...kept, ...said, ...limitsOf(limits.texts), version })}
      done={done}
    >
      {!of && (
        <Field label={t("limits.name")}>
          <input class="mono" required {...who.of("name")} />
        </Field>
      )}
      <div class="form">
        <div class="row-of">
          {(["user", "group", "client"] as const).map((one) => (
            <Field key={one} label={t(`limits.${one}`)}>
              <input class="mono" {...who.of(one)} />
            </Field>
          ))}
        </div>
      </div>
      <LimitFields form={limits} />
    </Action>
  );
}

/** What holds for a client that there may be. */
function Holds() {
  const form = useTexts({ user: "", client: "" });
  const ask = () => {
    const said = Object.entries(form.texts).filter(([, text]) => text !== "");
    return api.post<{ items: SaidLimit[] }>("auth/limits", Object.fromEntries(said));
  };
  return (
    <AskForm
      title={t("limits.ask_title")}
      submit={t("may.ask")}
      ask={ask}
      answered={(found) => (
        <div class="verdict">
          <Holding limits={found.items} />
        </div>
      )}
    >
      <div class="row-of">
        <Field label={t("limits.user")}>
          <input class="mono" {...form.of("user")} placeholder={t("may.anonymous")} />
        </Field>
        <Field label={t("limits.client")}>
          <input class="mono" {...form.of("client")} />
        </Field>
      </div>
    </AskForm>
  );
}

export default {
  path: "limits",
  title: "limits.title",
  menu: { group: "access", order: 30 },
  role: "operator",
  view: LimitsPage,
} satisfies Page;
