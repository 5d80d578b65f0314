/** Forms that only ask: who would be let in, and may somebody do something, and by which rule. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { api, type Problem } from "../../core/api";
import { t, tOr } from "../../core/i18n";
import { problemOf } from "../../core/live";
import { Field, Tick, useTexts, wordsOf } from "../../ui/fields";
import { Badge } from "../../ui/icons";
import { ProblemNote } from "../../ui/notes";
import { Panel } from "../../ui/parts";
import { Holding } from "./limits";
import type { Explanation, Right } from "./types";

const ACTIONS = [
  "publish",
  "subscribe",
  "receive",
  "replay",
  "command",
  "shadow-read",
  "shadow-write",
  "client",
  "gateway",
];

interface FormProps<Answer> {
  title: string;
  submit: string;
  ask: () => Promise<Answer>;
  answered: (answer: Answer) => ComponentChildren;
  children: ComponentChildren;
  wide?: boolean;
}

export function AskForm<Answer>({ title, submit, ask, answered, children, wide }: FormProps<Answer>) {
  const [answer, setAnswer] = useState<Answer>();
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(undefined);
    setAnswer(undefined);
    try {
      setAnswer(await ask());
    } catch (error) {
      setProblem(problemOf(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Panel title={title} wide={wide ?? false}>
      <form class="form" onSubmit={send}>
        {children}
        <div class="buttons">
          <button type="submit" class="primary" disabled={busy}>
            {submit}
          </button>
        </div>
      </form>
      <ProblemNote problem={problem} />
      <div aria-live="polite">{answer !== undefined && answered(answer)}</div>
    </Panel>
  );
}

interface MayProps {
  user?: string;
  /** Is told the rule that has decided. */
  decided?: (right: Right) => void;
}

/** May X do Y on Z? */
export function MayForm({ user, decided }: MayProps) {
  const form = useTexts({
    user: user ?? "",
    groups: "",
    client_id: "",
    address: "",
    action: "publish",
    asked: "",
    qos: "0",
  });
  const [retain, setRetain] = useState(false);
  const { texts } = form;
  const ask = async () => {
    const right = await api.post<Right>("auth/may", {
      ...(texts.user && { user: texts.user }),
      ...(texts.groups && { groups: wordsOf(texts.groups) }),
      ...(texts.client_id && { client_id: texts.client_id }),
      ...(texts.address && { address: texts.address }),
      ...{ action: texts.action, asked: texts.asked, qos: Number(texts.qos), retain },
    });
    decided?.(right);
    return right;
  };
  return (
    <AskForm
      title={t("may.title")}
      submit={t("may.ask")}
      ask={ask}
      answered={(right) => <Verdict right={right} question={texts} />}
    >
      <div class="row-of">
        <Field label={t("may.user")}>
          <input class="mono" {...form.of("user")} placeholder={t("may.anonymous")} />
        </Field>
        <Field label={t("may.groups")}>
          <input class="mono" {...form.of("groups")} />
        </Field>
      </div>
      <div class="row-of">
        <Field label={t("may.client_id")}>
          <input class="mono" {...form.of("client_id")} />
        </Field>
        <Field label={t("may.address")}>
          <input class="mono" {...form.of("address")} />
        </Field>
      </div>
      <div class="row-of">
        <Field label={t("may.action")}>
          <select {...form.of("action")}>
            {ACTIONS.map((one) => (
              <option key={one} value={one}>
                {t(`may.${one}`)}
              </option>
            ))}
          </select>
        </Field>
        <Field label={t("may.asked")}>
          <input class="mono" required {...form.of("asked")} />
        </Field>
      </div>
      <div class="row-of">
        <Field label="QoS">
          <select {...form.of("qos")}>
            <option>0</option>
            <option>1</option>
            <option>2</option>
          </select>
        </Field>
        <Tick label={t("may.retain")} on={retain} set={setRetain} />
      </div>
    </AskForm>
  );
}

function Verdict({ right, question }: { right: Right; question: { user: string; action: string; asked: string } }) {
  const who = question.user || t("may.anonymous");
  return (
    <div class="verdict">
      <p>
        <Badge level={right.allowed ? "ok" : "bad"} text={t(right.allowed ? "may.yes" : "may.no")} />{" "}
        <span class="mono">{who}</span> · {t(`may.${question.action}`)} · <span class="mono">{question.asked}</span>
      </p>
      <p>{right.detail}</p>
      {right.rule !== null && (
        <p>
          {t("may.rule")} <span class="said">{right.rule}</span>{" "}
          <span class="dim mono">
            {right.source}
            {right.line === null ? "" : `:${right.line}`}
          </span>
        </p>
      )}
    </div>
  );
}

const VERDICTS: Record<string, "ok" | "bad" | "warn"> = { allow: "ok", deny: "bad", error: "warn" };

/** Who would be let in, by which link of the chain, and what holds for him then. */
export function LoginForm({ user }: { user?: string }) {
  const form = useTexts({
    username: user ?? "",
    password: "",
    client_id: "",
    listener: "mqtt",
    address: "",
    certificate_name: "",
  });
  const { texts } = form;
  const ask = () => {
    const said = Object.entries(texts).filter(([, text]) => text !== "");
    return api.post<Explanation>("auth/explain", Object.fromEntries(said));
  };
  return (
    <AskForm
      title={t("explain.title")}
      submit={t("explain.ask")}
      ask={ask}
      answered={(found) => <Explained found={found} />}
    >
      <div class="row-of">
        <Field label={t("may.user")}>
          <input class="mono" autocomplete="off" {...form.of("username")} />
        </Field>
        <Field label={t("explain.password")}>
          <input type="password" autocomplete="off" {...form.of("password")} />
        </Field>
      </div>
      <div class="row-of">
        <Field label={t("may.client_id")}>
          <input class="mono" {...form.of("client_id")} />
        </Field>
        <Field label={t("explain.listener")}>
          <input class="mono" {...form.of("listener")} />
        </Field>
      </div>
      <div class="row-of">
        <Field label={t("may.address")}>
          <input class="mono" {...form.of("address")} />
        </Field>
        <Field label={t("explain.certificate")}>
          <input class="mono" {...form.of("certificate_name")} />
        </Field>
      </div>
    </AskForm>
  );
}

function Explained({ found }: { found: Explanation }) {
  return (
    <div class="verdict">
      <p>
        <Badge
          level={found.verdict === "allow" ? "ok" : "bad"}
          text={t(found.verdict === "allow" ? "explain.let_in" : "explain.refused")}
        />{" "}
        <span class="mono">{found.user ?? ""}</span> {found.detail}
      </p>
      <table class="small">
        <thead>
          <tr>
            <th>{t("explain.link")}</th>
            <th>{t("explain.says")}</th>
            <th>{t("explain.why")}</th>
          </tr>
        </thead>
        <tbody>
          {found.links.map((one) => (
            <tr key={one.link}>
              <td class="mono">{one.link}</td>
              <td>
                <Badge
                  level={VERDICTS[one.verdict] ?? "none"}
                  text={tOr(`verdict.${one.verdict.replace(" ", "_")}`, one.verdict)}
                />
              </td>
              <td>{one.detail}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {found.groups.length > 0 && (
        <p>
          {t("may.groups")} <span class="mono">{found.groups.join(", ")}</span>
        </p>
      )}
      <h3>{t("limits.hold")}</h3>
      <Holding limits={found.limits} />
    </div>
  );
}
