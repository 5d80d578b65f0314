/** Commands to devices, and what became of them. */
import { time } from "../core/format";
import { t, tOr } from "../core/i18n";
import { href, place, refine } from "../core/router";
import { Filter } from "../ui/filter";
import { Badge } from "../ui/icons";
import { Head } from "../ui/parts";
import { type Column, DataTable } from "../ui/table";
import type { Page } from ".";
import { SendCommand } from "./devices/command";
import { Choice, commandLevel, TargetLink } from "./devices/parts";
import type { Command } from "./devices/types";

const STATES = ["queued", "sent", "acked", "failed", "expired", "uncertain"];

function columns(): Column<Command>[] {
  return [
    {
      key: "state",
      title: t("commands.state"),
      width: "9rem",
      cell: (one) => <Badge level={commandLevel(one.state)} text={tOr(`command_state.${one.state}`, one.state)} />,
    },
    {
      key: "target",
      title: t("commands.target"),
      width: "minmax(8rem, 2fr)",
      cell: (one) => <TargetLink target={one.target} />,
    },
    {
      key: "id",
      title: t("commands.id"),
      width: "minmax(6rem, 1fr)",
      cell: (one) => (
        <a class="mono" href={href(["commands", one.id])}>
          {one.id}
        </a>
      ),
      wide: true,
    },
    { key: "sender", title: t("commands.sender"), width: "8rem", cell: (one) => one.sender || "–", wide: true },
    { key: "detail", title: t("commands.detail"), width: "minmax(8rem, 2fr)", cell: (one) => one.detail, wide: true },
    { key: "at", title: t("commands.accepted"), width: "7rem", cell: (one) => time(one.accepted_at), end: true },
  ];
}

function Commands() {
  const { target = "", state = "" } = place.value.query;
  const states: [string, string][] = STATES.map((one) => [one, t(`command_state.${one}`)]);
  return (
    <>
      <Head title={t("commands.title")} />
      <DataTable<Command>
        label={t("commands.title")}
        path="commands"
        query={{ target, state }}
        columns={columns()}
        id={(one) => one.id}
        empty={t("commands.none")}
        every={3000}
      >
        <Filter name="target" label={t("commands.target")} />
        <Choice
          label={t("commands.state")}
          value={state}
          of={[["", t("commands.all")], ...states]}
          chosen={(chosen) => refine({ state: chosen })}
        />
      </DataTable>
      <SendCommand />
    </>
  );
}

export default {
  path: "commands",
  title: "commands.title",
  menu: { group: "devices", order: 50 },
  view: Commands,
} satisfies Page;
