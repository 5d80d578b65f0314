/** Single alarms and dead letters, page by page as one scrolls: each question starts a reader, so they are asked for rarely. */
import { bytes, duration, number, time } from "../../core/format";
import { t, tOr } from "../../core/i18n";
import { place, refine } from "../../core/router";
import { may } from "../../core/session";
import { Filter } from "../../ui/filter";
import { Badge } from "../../ui/icons";
import { type Column, DataTable } from "../../ui/table";
import { Choice } from "../devices/parts";
import type { DeadLetter, PlantAlarm } from "./types";

const EVERY = 60_000;
const KINDS = ["alarms", "letters"] as const;

export function Rows() {
  if (!may("operator")) return null;
  const { show = "alarms" } = place.value.query;
  return (
    <section class="list table-rows" aria-label={t("pipeline.rows")}>
      <fieldset class="spans">
        <legend class="unseen">{t("pipeline.rows")}</legend>
        {KINDS.map((one) => (
          <button
            type="button"
            key={one}
            class={one === show ? "on" : ""}
            aria-pressed={one === show}
            onClick={() => refine({ show: one, contains: undefined, active: undefined })}
          >
            {t(`pipeline.rows_${one}`)}
          </button>
        ))}
      </fieldset>
      {show === "letters" ? <Letters /> : <Alarms />}
    </section>
  );
}

function Alarms() {
  const { contains, active = "" } = place.value.query;
  return (
    <DataTable<PlantAlarm>
      key="alarms"
      label={t("pipeline.rows_alarms")}
      path="pipeline/alarms"
      query={{ contains, active }}
      id={(one) => `${one.node} ${one.id}`}
      empty={t("pipeline.no_alarms")}
      every={EVERY}
      columns={ALARMS()}
    >
      <Filter name="contains" label={t("pipeline.alarms_contain")} />
      <Choice
        label={t("pipeline.state")}
        value={active}
        of={[
          ["", t("pipeline.all")],
          ["true", t("pipeline.active")],
          ["false", t("pipeline.over")],
        ]}
        chosen={(chosen) => refine({ active: chosen || undefined })}
      />
    </DataTable>
  );
}

const ALARMS = (): Column<PlantAlarm>[] => [
  { key: "raised", title: t("pipeline.raised"), width: "minmax(6.5rem, 11.5rem)", cell: (one) => time(one.raised_at) },
  {
    key: "state",
    title: t("pipeline.state"),
    width: "8rem",
    cell: (one) =>
      one.cleared_at === null ? (
        <Badge level="bad" text={t("pipeline.active")} />
      ) : (
        <Badge level="none" text={t("pipeline.after", { time: duration(one.cleared_at - one.raised_at) })} />
      ),
  },
  {
    key: "device",
    title: t("pipeline.device"),
    width: "minmax(8rem, 1.5fr)",
    cell: (one) => <span class="mono">{[one.gateway, one.device].filter(Boolean).join("/")}</span>,
  },
  {
    key: "tag",
    title: t("pipeline.tag"),
    width: "minmax(5rem, 1fr)",
    cell: (one) => <span class="mono">{one.tag ?? "–"}</span>,
    wide: true,
  },
  { key: "rule", title: t("pipeline.rule"), width: "minmax(7rem, 1.5fr)", cell: (one) => one.rule ?? "–", wide: true },
  {
    key: "severity",
    title: t("pipeline.severity"),
    width: "6rem",
    cell: (one) => tOr(`pipeline.severity_${one.severity}`, one.severity ?? "–"),
    wide: true,
  },
  {
    key: "value",
    title: t("pipeline.value"),
    width: "6rem",
    cell: (one) => number(one.value, 3),
    end: true,
    wide: true,
  },
  {
    key: "threshold",
    title: t("pipeline.threshold"),
    width: "6rem",
    cell: (one) => number(one.threshold, 3),
    end: true,
    wide: true,
  },
  { key: "node", title: t("clients.node"), width: "6rem", cell: (one) => one.node ?? "", wide: true },
];

function Letters() {
  const { contains } = place.value.query;
  return (
    <DataTable<DeadLetter>
      key="letters"
      label={t("pipeline.rows_letters")}
      path="pipeline/dead_letters"
      query={{ contains }}
      id={(one) => `${one.node} ${one.at} ${one.id}`}
      empty={t("pipeline.no_letters")}
      every={EVERY}
      columns={LETTERS()}
    >
      <Filter name="contains" label={t("pipeline.letters_contain")} />
    </DataTable>
  );
}

const LETTERS = (): Column<DeadLetter>[] => [
  { key: "at", title: t("pipeline.arrived"), width: "minmax(6.5rem, 11.5rem)", cell: (one) => time(one.at) },
  {
    key: "device",
    title: t("pipeline.device"),
    width: "minmax(7rem, 1fr)",
    cell: (one) => <span class="mono">{one.device ?? "–"}</span>,
  },
  {
    key: "reason",
    title: t("pipeline.reason"),
    width: "minmax(7rem, 1.2fr)",
    cell: (one) => (one.tags !== null && one.tags > 1 ? `${one.reason} (${number(one.tags)})` : one.reason),
  },
  {
    key: "payload",
    title: t("pipeline.payload"),
    width: "minmax(9rem, 2fr)",
    cell: (one) => (
      <span class="mono" title={one.payload}>
        {one.payload}
      </span>
    ),
    wide: true,
  },
  { key: "size", title: t("pipeline.size"), width: "5.5rem", cell: (one) => bytes(one.size), end: true, wide: true },
  { key: "node", title: t("clients.node"), width: "6rem", cell: (one) => one.node ?? "", wide: true },
];
