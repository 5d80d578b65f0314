/** Tokens of the API: made, shown once, taken back. */
import { useState } from "preact/hooks";
import { api, path } from "../core/api";
import { time } from "../core/format";
import { sentence, t } from "../core/i18n";
import { Action } from "../ui/action";
import { Field, useTexts, wordsOf } from "../ui/fields";
import { Badge } from "../ui/icons";
import { Head } from "../ui/parts";
import { type Column, DataTable } from "../ui/table";
import type { Page } from ".";
import type { MadeToken, Token } from "./access/types";

const DAY = 86_400;

function columns(changed: () => void): Column<Token>[] {
  return [
    { key: "name", title: t("tokens.name"), width: "minmax(8rem, 1.5fr)", cell: (one) => one.name },
    { key: "role", title: t("tokens.role"), width: "8rem", cell: (one) => t(`role.${one.role}`) },
    {
      key: "scope",
      title: t("tokens.scope"),
      width: "minmax(8rem, 2fr)",
      cell: (one) => <span class="mono">{one.scope.join(", ") || t("tokens.all")}</span>,
      wide: true,
    },
    { key: "ends", title: t("tokens.ends"), width: "minmax(7rem, 1fr)", cell: (one) => <Ends of={one} />, wide: true },
    { key: "by", title: t("tokens.by"), width: "8rem", cell: (one) => one.made_by, wide: true },
    {
      key: "id",
      title: t("tokens.id"),
      width: "9rem",
      cell: (one) => <span class="mono">{one.id}</span>,
      wide: true,
    },
    {
      key: "take",
      title: "",
      width: "9.5rem",
      end: true,
      cell: (one) => (
        <span class="row-actions">
          <Action
            role="admin"
            danger
            label={t("tokens.delete")}
            question={sentence("tokens.delete_question", { name: one.name })}
            run={() => api.delete(path("tokens", one.id))}
            done={changed}
          />
        </span>
      ),
    },
  ];
}

function Ends({ of }: { of: Token }) {
  if (of.expired) return <Badge level="warn" text={t("tokens.over")} />;
  return <>{of.expires_at === null ? t("tokens.never") : time(of.expires_at)}</>;
}

function Tokens() {
  const [turn, setTurn] = useState(0);
  const [made, setMade] = useState<MadeToken>();
  const changed = () => setTurn((before) => before + 1);
  return (
    <>
      <Head title={t("tokens.title")}>
        <Make
          done={(token) => {
            setMade(token);
            changed();
          }}
        />
      </Head>
      {made && <Once of={made} close={() => setMade(undefined)} />}
      <DataTable<Token>
        label={t("tokens.title")}
        path="tokens"
        columns={columns(changed)}
        id={(one) => one.id}
        empty={t("tokens.none")}
        turn={turn}
      />
    </>
  );
}

/** It is not kept anywhere: who closes this will not see it again. */
function Once({ of, close }: { of: MadeToken; close: () => void }) {
  const [copied, setCopied] = useState(false);
  return (
    <section class="note warn secret" aria-label={t("tokens.once")}>
      <p>{t("tokens.once_text", { name: of.name })}</p>
      <output class="said">{of.token}</output>
      <button
        type="button"
        onClick={() => {
          void navigator.clipboard?.writeText(of.token).then(() => setCopied(true));
        }}
      >
        {t(copied ? "tokens.copied" : "tokens.copy")}
      </button>
      <button type="button" onClick={close}>
        {t("tokens.close")}
      </button>
    </section>
  );
}

function Make({ done }: { done: (made: MadeToken) => void }) {
  const form = useTexts({ name: "", role: "viewer", scope: "", user: "", days: "90" });
  const { name, role, scope, user, days } = form.texts;
  const run = async () => {
    const paths = [...wordsOf(scope), ...(user ? [`as:${user}`] : [])];
    const seconds = days ? Math.round(Number(days) * DAY) : null;
    done(await api.post<MadeToken>("tokens", { name, role, scope: paths, seconds }));
  };
  return (
    <Action
      role="admin"
      label={t("tokens.make")}
      question={t("tokens.make_question")}
      opened={() => form.again()}
      run={run}
    >
      <Field label={t("tokens.name")}>
        <input required maxLength={64} {...form.of("name")} />
      </Field>
      <Field label={t("tokens.role")}>
        <select {...form.of("role")}>
          {["viewer", "operator", "admin"].map((one) => (
            <option key={one} value={one}>
              {t(`role.${one}`)}
            </option>
          ))}
        </select>
      </Field>
      <Field label={t("tokens.scope_field")}>
        <input class="mono" placeholder="clients, retained" {...form.of("scope")} />
      </Field>
      <Field label={t("tokens.user_field")}>
        <input class="mono" {...form.of("user")} />
      </Field>
      <Field label={t("tokens.days")}>
        <input type="number" min="1" max="366" {...form.of("days")} />
      </Field>
    </Action>
  );
}

export default {
  path: "tokens",
  title: "tokens.title",
  menu: { group: "access", order: 60 },
  role: "admin",
  view: Tokens,
} satisfies Page;
