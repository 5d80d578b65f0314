/** Who is not let in. */
import { useState } from "preact/hooks";
import { api, path } from "../core/api";
import { now } from "../core/clock";
import { duration, time } from "../core/format";
import { sentence, t, tOr } from "../core/i18n";
import { Action } from "../ui/action";
import { Field, useTexts } from "../ui/fields";
import { Head } from "../ui/parts";
import { type Column, DataTable } from "../ui/table";
import type { Page } from ".";
import type { Ban } from "./access/types";

function columns(changed: () => void): Column<Ban>[] {
  return [
    {
      key: "who",
      title: t("bans.who"),
      width: "minmax(11rem, 2fr)",
      cell: (one) => <span class="mono">{whoOf(one)}</span>,
    },
    { key: "until", title: t("bans.until"), width: "minmax(7rem, 1fr)", cell: (one) => untilOf(one) },
    {
      key: "cause",
      title: t("bans.cause"),
      width: "9rem",
      cell: (one) => tOr(`ban.${one.cause}`, one.cause),
      wide: true,
    },
    {
      key: "reason",
      title: t("bans.reason"),
      width: "minmax(8rem, 2fr)",
      cell: (one) => one.reason || "–",
      wide: true,
    },
    { key: "by", title: t("bans.by"), width: "7rem", cell: (one) => one.made_by || "–", wide: true },
    { key: "at", title: t("bans.at"), width: "10rem", cell: (one) => time(one.made_at), wide: true },
    {
      key: "lift",
      title: "",
      width: "7rem",
      end: true,
      cell: (one) => (
        <span class="row-actions">
          <Action
            role="operator"
            label={t("bans.lift")}
            question={sentence("bans.lift_question", { who: whoOf(one) })}
            run={() => api.delete(path("bans", one.id))}
            done={changed}
          />
        </span>
      ),
    },
  ];
}

function whoOf(one: Ban): string {
  const said = (["client", "user", "address"] as const).flatMap((name) => {
    const value = one[name];
    return value === null ? [] : [`${t(`bans.${name}`)} ${value}`];
  });
  return said.join(", ");
}

function untilOf(one: Ban): string {
  if (one.until === null) return t("bans.for_good");
  const left = one.until - now();
  return left > 0 ? t("bans.left", { time: duration(left) }) : t("bans.over");
}

function Bans() {
  const [turn, setTurn] = useState(0);
  const changed = () => setTurn((before) => before + 1);
  return (
    <>
      <Head title={t("bans.title")}>
        <Add done={changed} />
      </Head>
      <DataTable<Ban>
        label={t("bans.title")}
        path="bans"
        columns={columns(changed)}
        id={(one) => one.id}
        empty={t("bans.none")}
        every={3000}
        turn={turn}
      />
    </>
  );
}

function Add({ done }: { done: () => void }) {
  const form = useTexts({ client: "", user: "", address: "", seconds: "3600", reason: "" });
  const { seconds, ...texts } = form.texts;
  const said = Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== ""));
  return (
    <Action
      role="operator"
      danger
      label={t("bans.add")}
      question={t("bans.add_question")}
      opened={() => form.again()}
      run={() => api.post("bans", { ...said, ...(seconds && { seconds: Number(seconds) }) })}
      done={done}
    >
      <Field label={t("bans.client_field")}>
        <input class="mono" {...form.of("client")} />
      </Field>
      <Field label={t("bans.user")}>
        <input class="mono" {...form.of("user")} />
      </Field>
      <Field label={t("bans.address_field")}>
        <input class="mono" {...form.of("address")} />
      </Field>
      <Field label={t("bans.seconds")}>
        <input type="number" min="1" {...form.of("seconds")} />
      </Field>
      <Field label={t("bans.reason_field")}>
        <input {...form.of("reason")} />
      </Field>
    </Action>
  );
}

export default {
  path: "bans",
  title: "bans.title",
  menu: { group: "access", order: 40 },
  role: "operator",
  view: Bans,
} satisfies Page;
