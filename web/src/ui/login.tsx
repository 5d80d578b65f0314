/** Who is it? And the first login of all, which asks for a password of one's own. */
import { useState } from "preact/hooks";
import type { Problem } from "../core/api";
import { t } from "../core/i18n";
import { problemOf } from "../core/live";
import { changePassword, login, logout, me } from "../core/session";
import { ProblemNote } from "./notes";

interface Field {
  name: string;
  label: string;
  type: string;
  autocomplete: string;
}

interface FormProps {
  title: string;
  text: string;
  fields: Field[];
  submit: string;
  run: (values: Record<string, string>) => Promise<void>;
}

function Form({ title, text, fields, submit, run }: FormProps) {
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    const data = new FormData(event.currentTarget as HTMLFormElement);
    setBusy(true);
    setProblem(undefined);
    try {
      await run(Object.fromEntries([...data].map(([name, value]) => [name, String(value)])));
    } catch (error) {
      setProblem(problemOf(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="login">
      <form onSubmit={send as unknown as (event: Event) => void}>
        <p class="brand">iot-mqtt</p>
        <h1>{title}</h1>
        <p>{text}</p>
        {fields.map((one, at) => (
          <label key={one.name}>
            {one.label}
            <input name={one.name} type={one.type} autocomplete={one.autocomplete} required autoFocus={at === 0} />
          </label>
        ))}
        <ProblemNote problem={problem} />
        <button type="submit" class="primary" disabled={busy}>
          {submit}
        </button>
      </form>
    </main>
  );
}

export function Login() {
  document.title = `${t("login.title")} · iot-mqtt`;
  return (
    <Form
      title={t("login.title")}
      text={t("login.text")}
      submit={t("login.submit")}
      fields={[
        { name: "name", label: t("login.name"), type: "text", autocomplete: "username" },
        { name: "password", label: t("login.password"), type: "password", autocomplete: "current-password" },
      ]}
      run={({ name = "", password = "" }) => login(name, password)}
    />
  );
}

export function NewPassword() {
  document.title = `${t("login.change")} · iot-mqtt`;
  return (
    <>
      <Form
        title={t("login.change")}
        text={t("login.change_text", { name: me.value?.name ?? "" })}
        submit={t("login.change")}
        fields={[
          { name: "password", label: t("login.password"), type: "password", autocomplete: "current-password" },
          { name: "next", label: t("login.new_password"), type: "password", autocomplete: "new-password" },
        ]}
        run={({ password = "", next = "" }) => changePassword(password, next)}
      />
      <p class="login-more">
        <button type="button" class="plain" onClick={() => void logout()}>
          {t("shell.logout")}
        </button>
      </p>
    </>
  );
}
