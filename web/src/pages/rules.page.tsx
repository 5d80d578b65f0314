/** Rules of the grid, and the question who may do what, and by which of them. */
import { useState } from "preact/hooks";
import { api, type Paged, path } from "../core/api";
import { number } from "../core/format";
import { sentence, t } from "../core/i18n";
import { useLive } from "../core/live";
import { may } from "../core/session";
import { Action } from "../ui/action";
import { Field, useTexts } from "../ui/fields";
import { Mark } from "../ui/icons";
import { Empty, ProblemNote } from "../ui/notes";
import { Head, Panel } from "../ui/parts";
import type { Page } from ".";
import { LoginForm, MayForm } from "./access/asking";
import type { Right, Rules } from "./access/types";

function RulesPage() {
  const live = useLive<Paged<Rules>>(may("admin") ? "auth/rules" : null, { limit: 1000 }, 5000);
  const [right, setRight] = useState<Right>();
  const rules = live.data?.items ?? [];
  return (
    <>
      <Head title={t("rules.title")}>
        <AddRules done={live.refresh} />
      </Head>
      <ProblemNote problem={live.problem} />
      {rules.some((one) => !one.asked) && (
        <p class="note warn">
          <Mark level="warn" /> {t("rules.not_asked")}
        </p>
      )}
      <div class="panels">
        <MayForm decided={setRight} />
        <LoginForm />
        {live.data && rules.length === 0 && (
          <Panel title={t("rules.documents")}>
            <Empty text={t("rules.none")} />
          </Panel>
        )}
        {rules.map((one) => (
          <Document key={one.name} of={one} right={right} done={live.refresh} />
        ))}
      </div>
    </>
  );
}

/** The line that has decided stands out. */
function Document({ of, right, done }: { of: Rules; right: Right | undefined; done: () => void }) {
  const decided = right?.source === `grid:${of.name}` ? right.line : null;
  return (
    <Panel title={`${of.name} · ${t("rules.count", { count: number(of.rules) })}`} wide>
      <div class="buttons">
        <ChangeRules of={of} done={done} />
        <Action
          role="admin"
          danger
          label={t("rules.delete")}
          question={sentence("rules.delete_question", { name: of.name })}
          run={() => api.delete(path("auth", "rules", of.name))}
          done={done}
        />
      </div>
      <ol class="rules-text" tabIndex={0} aria-label={of.name}>
        {of.text
          .replace(/\n$/, "")
          .split("\n")
          .map((line, at) => (
            <li key={at} class={decided === at + 1 ? "decided" : ""}>
              {line}
            </li>
          ))}
      </ol>
    </Panel>
  );
}

function AddRules({ done }: { done: () => void }) {
  const form = useTexts({ name: "", text: "" });
  return (
    <Action
      role="admin"
      label={t("rules.add")}
      question={t("rules.add_question")}
      opened={() => form.again()}
      run={() => api.post(path("auth", "rules", form.texts.name), { text: form.texts.text, version: 0 })}
      done={done}
    >
      <Field label={t("rules.name")}>
        <input class="mono" required {...form.of("name")} />
      </Field>
      <Field label={t("rules.text")}>
        <textarea class="rules" required placeholder={EXAMPLE} spellcheck={false} {...form.of("text")} />
      </Field>
    </Action>
  );
}

const EXAMPLE = "[group crew]\ndeny all hall/+/secret\nallow all hall/#";

function ChangeRules({ of, done }: { of: Rules; done: () => void }) {
  const form = useTexts({ text: of.text });
  const [version, setVersion] = useState(of.version);
  return (
    <Action
      role="admin"
      label={t("rules.change")}
      question={sentence("rules.change_question", { name: of.name })}
      opened={() => {
        form.again({ text: of.text });
        setVersion(of.version);
      }}
      run={() => api.post(path("auth", "rules", of.name), { text: form.texts.text, version })}
      done={done}
    >
      <Field label={t("rules.text")}>
        <textarea class="rules" required spellcheck={false} {...form.of("text")} />
      </Field>
    </Action>
  );
}

export default {
  path: "rules",
  title: "rules.title",
  menu: { group: "access", order: 20 },
  role: "operator",
  view: RulesPage,
} satisfies Page;
