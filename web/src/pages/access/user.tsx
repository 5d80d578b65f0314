/** Adding a user, and changing one. */
import { useState } from "preact/hooks";
import { api, path } from "../../core/api";
import { sentence, t } from "../../core/i18n";
import { Action } from "../../ui/action";
import { Field, Tick, useTexts, wordsOf } from "../../ui/fields";
import { LimitFields, limitsOf, NO_LIMITS, textsOf } from "./limits";
import type { User } from "./types";

function useUser() {
  return {
    who: useTexts({ name: "", password: "", groups: "", client_ids: "" }),
    limits: useTexts(NO_LIMITS),
  };
}

function bodyOf({ who, limits }: ReturnType<typeof useUser>, enabled: boolean, scram: boolean) {
  return {
    ...(who.texts.password && { password: who.texts.password, scram }),
    enabled,
    groups: wordsOf(who.texts.groups),
    client_ids: wordsOf(who.texts.client_ids),
    limits: limitsOf(limits.texts),
  };
}

interface FieldsProps {
  form: ReturnType<typeof useUser>;
  enabled: boolean;
  setEnabled: (on: boolean) => void;
  scram: boolean;
  setScram: (on: boolean) => void;
  isNew: boolean;
}

function UserFields({ form, enabled, setEnabled, scram, setScram, isNew }: FieldsProps) {
  return (
    <>
      {isNew && (
        <Field label={t("users.name")}>
          <input class="mono" required autocomplete="off" {...form.who.of("name")} />
        </Field>
      )}
      <Field label={t(isNew ? "users.password" : "users.new_password")}>
        <input type="password" autocomplete="new-password" {...form.who.of("password")} />
      </Field>
      <Tick label={t("users.scram")} on={scram} set={setScram} />
      <Field label={t("users.groups_field")}>
        <input class="mono" {...form.who.of("groups")} />
      </Field>
      <Field label={t("users.client_ids_field")}>
        <input class="mono" {...form.who.of("client_ids")} />
      </Field>
      <Tick label={t("users.enabled")} on={enabled} set={setEnabled} />
      <LimitFields form={form.limits} />
    </>
  );
}

export function AddUser({ done }: { done: () => void }) {
  const form = useUser();
  const [enabled, setEnabled] = useState(true);
  const [scram, setScram] = useState(false);
  return (
    <Action
      role="admin"
      label={t("users.add")}
      question={t("users.add_question")}
      opened={() => {
        form.who.again();
        form.limits.again();
        setEnabled(true);
        setScram(false);
      }}
      run={() => api.post("users", { name: form.who.texts.name, ...bodyOf(form, enabled, scram) })}
      done={done}
    >
      <UserFields {...{ form, enabled, setEnabled, scram, setScram }} isNew />
    </Action>
  );
}

export function ChangeUser({ user, done }: { user: User; done: () => void }) {
  const form = useUser();
  const [enabled, setEnabled] = useState(user.enabled);
  const [scram, setScram] = useState(user.scram);
  const [version, setVersion] = useState(user.version);
  const opened = () => {
    form.who.again({ groups: user.groups.join(", "), client_ids: user.client_ids.join(", ") });
    form.limits.again(textsOf(user.limits));
    setEnabled(user.enabled);
    setScram(user.scram);
    setVersion(user.version);
  };
  return (
    <Action
      role="admin"
      label={t("users.change")}
      question={sentence("users.change_question", { name: user.name })}
      opened={opened}
      run={() => api.post(path("users", user.name), { ...bodyOf(form, enabled, scram), version })}
      done={done}
    >
      <UserFields {...{ form, enabled, setEnabled, scram, setScram }} isNew={false} />
    </Action>
  );
}
