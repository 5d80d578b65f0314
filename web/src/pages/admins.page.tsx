/** Who may log in here, and what for. */
import { useState } from "preact/hooks";
import { api, path } from "../core/api";
import { time } from "../core/format";
import { sentence, t } from "../core/i18n";
import { me } from "../core/session";
import { Action } from "../ui/action";
import { Field, Tick, useTexts } from "../ui/fields";
import { Badge } from "../ui/icons";
import { Head } from "../ui/parts";
import { type Column, DataTable } from "../ui/table";
import type { Page } from ".";
import type { Admin } from "./access/types";

const ROLES = ["viewer", "operator", "admin"];

function columns(changed: () => void): Column<Admin>[] {
  return [
    { key: "name", title: t("admins.name"), width: "minmax(5rem, 2fr)", cell: (one) => <Name of={one} /> },
    { key: "role", title: t("tokens.role"), width: "6.5rem", cell: (one) => t(`role.${one.role}`) },
    {
      key: "must",
      title: t("admins.password"),
      width: "minmax(9rem, 1fr)",
      cell: (one) => (one.must_change ? <Badge level="warn" text={t("admins.must_change")} /> : t("admins.own")),
      wide: true,
    },
    { key: "tokens", title: t("tokens.title"), width: "5rem", cell: (one) => one.tokens, end: true, wide: true },
    { key: "at", title: t("admins.made"), width: "11rem", cell: (one) => time(one.made_at), wide: true },
    {
      key: "acts",
      title: "",
      width: "minmax(10.8rem, 16rem)",
      end: true,
      cell: (one) => (
        <span class="row-actions">
          <Change of={one} done={changed} />
          <span class="roomy">
            <Action
              role="admin"
              label={t("admins.unlock")}
              question={sentence("admins.unlock_question", { name: one.name })}
              run={() => api.post(path("admins", one.name, "unlock"))}
            />
          </span>
          {one.name !== me.value?.name && (
            <Action
              role="admin"
              danger
              label={t("admins.delete")}
              question={sentence("admins.delete_question", { name: one.name, tokens: one.tokens })}
              run={() => api.delete(path("admins", one.name))}
              done={changed}
            />
          )}
        </span>
      ),
    },
  ];
}

function Name({ of }: { of: Admin }) {
  return (
    <>
      {of.name} {of.name === me.value?.name && <small>{t("admins.you")}</small>}
    </>
  );
}

function Admins() {
  const [turn, setTurn] = useState(0);
  const changed = () => setTurn((before) => before + 1);
  return (
    <>
      <Head title={t("admins.title")}>
        <Add done={changed} />
      </Head>
      <DataTable<Admin>
        label={t("admins.title")}
        path="admins"
        columns={columns(changed)}
        id={(one) => one.name}
        empty={t("admins.none")}
        turn={turn}
      />
    </>
  );
}

function RoleField({ form }: { form: ReturnType<typeof useTexts<"role">> }) {
  return (
    <Field label={t("tokens.role")}>
      <select {...form.of("role")}>
        {ROLES.map((one) => (
          <option key={one} value={one}>
            {t(`role.${one}`)}
          </option>
        ))}
      </select>
    </Field>
  );
}

function Add({ done }: { done: () => void }) {
  const form = useTexts({ name: "", password: "" });
  const role = useTexts({ role: "viewer" });
  const [must, setMust] = useState(true);
  return (
    <Action
      role="admin"
      label={t("admins.add")}
      question={t("admins.add_question")}
      opened={() => {
        form.again();
        role.again();
        setMust(true);
      }}
      run={() => api.post("admins", { ...form.texts, role: role.texts.role, must_change: must })}
      done={done}
    >
      <Field label={t("admins.name")}>
        <input required autocomplete="off" {...form.of("name")} />
      </Field>
      <Field label={t("admins.password")}>
        <input type="password" required autocomplete="new-password" {...form.of("password")} />
      </Field>
      <RoleField form={role} />
      <Tick label={t("admins.must_change_field")} on={must} set={setMust} />
    </Action>
  );
}

function Change({ of, done }: { of: Admin; done: () => void }) {
  const form = useTexts({ password: "" });
  const role = useTexts({ role: of.role });
  return (
    <Action
      role="admin"
      label={t("admins.change")}
      question={sentence("admins.change_question", { name: of.name })}
      opened={() => {
        form.again();
        role.again({ role: of.role });
      }}
      run={() =>
        api.post(path("admins", of.name), {
          role: role.texts.role,
          ...(form.texts.password && { password: form.texts.password, must_change: true }),
        })
      }
      done={done}
    >
      <RoleField form={role} />
      <Field label={t("admins.new_password")}>
        <input type="password" autocomplete="new-password" {...form.of("password")} />
      </Field>
    </Action>
  );
}

export default {
  path: "admins",
  title: "admins.title",
  menu: { group: "access", order: 50 },
  role: "admin",
  view: Admins,
} satisfies Page;
