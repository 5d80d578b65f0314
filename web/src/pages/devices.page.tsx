/** Gateways and the devices behind them. */
import { api, type Paged } from "../core/api";
import { ago, number } from "../core/format";
import { t } from "../core/i18n";
import { place } from "../core/router";
import { Filter } from "../ui/filter";
import { Mark } from "../ui/icons";
import { Head } from "../ui/parts";
import { type Column, DataTable } from "../ui/table";
import type { Hit, Page } from ".";
import { TargetLink } from "./devices/parts";
import type { Device } from "./devices/types";

export function columns(): Column<Device>[] {
  return [
    {
      key: "target",
      title: t("devices.name"),
      width: "minmax(10rem, 3fr)",
      cell: (one) => (
        <span class={one.device === null ? "" : "child"}>
          <Mark level={one.online ? "ok" : "none"} label={t(one.online ? "devices.online" : "devices.offline")} />
          <TargetLink target={one.target} text={one.device ?? one.gateway} />
        </span>
      ),
    },
    { key: "codec", title: t("devices.codec"), width: "7rem", cell: (one) => one.codec ?? "", wide: true },
    { key: "version", title: t("devices.version"), width: "6rem", cell: (one) => one.version ?? "", wide: true },
    {
      key: "address",
      title: t("devices.address"),
      width: "minmax(8rem, 1fr)",
      cell: (one) => one.address ?? "",
      wide: true,
    },
    { key: "readings", title: t("devices.readings"), width: "6.5rem", cell: (one) => number(one.readings), end: true },
    { key: "seen", title: t("devices.seen"), width: "7rem", cell: (one) => ago(one.last_seen), end: true },
    {
      key: "first",
      title: t("devices.first"),
      width: "8rem",
      cell: (one) => ago(one.first_seen),
      end: true,
      wide: true,
    },
  ];
}

function Devices() {
  const { gateway = "" } = place.value.query;
  return (
    <>
      <Head title={t("devices.title")} />
      <DataTable<Device>
        label={t("devices.title")}
        path="devices"
        query={{ gateway }}
        columns={columns()}
        id={(one) => one.target}
        empty={t("devices.none")}
      >
        <Filter name="gateway" label={t("devices.of_gateway")} />
      </DataTable>
    </>
  );
}

/** The API finds gateways by their whole name only. */
async function search(text: string, signal: AbortSignal): Promise<Hit[]> {
  const found = await api.get<Paged<Device>>("devices", { gateway: text.split("/")[0], limit: 5 }, signal);
  return found.items.map((one) => ({ text: one.target, more: one.codec ?? "", parts: ["devices", one.target] }));
}

export default {
  path: "devices",
  title: "devices.title",
  menu: { group: "devices", order: 40 },
  view: Devices,
  search,
} satisfies Page;
