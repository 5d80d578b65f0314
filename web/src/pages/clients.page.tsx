/** All connected clients. */
import { api, type Paged } from "../core/api";
import { ago, bytes, number } from "../core/format";
import { t } from "../core/i18n";
import { place } from "../core/router";
import type { Client } from "../core/types";
import { Filter } from "../ui/filter";
import { Mark } from "../ui/icons";
import { ClientLink, claimed, Head } from "../ui/parts";
import { type Column, DataTable } from "../ui/table";
import type { Hit, Page } from ".";

function columns(): Column<Client>[] {
  return [
    {
      key: "id",
      title: t("clients.id"),
      width: "minmax(10rem, 3fr)",
      cell: (one) => (
        <>
          <Mark level={one.paused ? "bad" : one.writable ? "ok" : "warn"} label={standing(one)} />
          <ClientLink id={one.client_id} />
        </>
      ),
    },
    {
      key: "user",
      title: t("clients.user"),
      width: "minmax(5rem, 1fr)",
      cell: (one) => one.username ?? claimed(one.claimed_user) ?? "–",
      wide: true,
    },
    { key: "peer", title: t("clients.peer"), width: "minmax(11rem, 1.2fr)", cell: (one) => one.peer, wide: true },
    { key: "listener", title: t("clients.listener"), width: "6rem", cell: (one) => one.listener, wide: true },
    { key: "node", title: t("clients.node"), width: "7rem", cell: (one) => one.node ?? "", wide: true },
    { key: "since", title: t("clients.since"), width: "6.5rem", cell: (one) => ago(one.connected_at), end: true },
    {
      key: "subs",
      title: t("clients.subscriptions"),
      width: "5rem",
      cell: (one) => number(one.subscriptions),
      end: true,
      wide: true,
    },
    {
      key: "waiting",
      title: t("clients.waiting"),
      width: "5.5rem",
      cell: (one) => number(one.queued + one.inflight),
      end: true,
    },
    {
      key: "in",
      title: t("clients.in"),
      width: "5.5rem",
      cell: (one) => bytes(one.bytes_received),
      end: true,
      wide: true,
    },
    {
      key: "out",
      title: t("clients.out"),
      width: "5.5rem",
      cell: (one) => bytes(one.bytes_sent),
      end: true,
      wide: true,
    },
  ];
}

function standing(one: Client): string {
  if (one.paused) return t("clients.paused");
  return one.writable ? t("clients.fine") : t("clients.slow");
}

function Clients() {
  const { contains = "", user = "", address = "" } = place.value.query;
  return (
    <>
      <Head title={t("clients.title")} />
      <DataTable<Client>
        label={t("clients.title")}
        path="clients"
        query={{ contains, user, address }}
        columns={columns()}
        id={(one) => `${one.node} ${one.client_id}`}
        empty={t("clients.none")}
      >
        <Filter name="contains" label={t("clients.contains")} />
        <Filter name="user" label={t("clients.user")} />
        <Filter name="address" label={t("clients.address")} />
      </DataTable>
    </>
  );
}

async function search(text: string, signal: AbortSignal): Promise<Hit[]> {
  const found = await api.get<Paged<Client>>("clients", { contains: text, limit: 5 }, signal);
  return found.items.map((one) => ({ text: one.client_id, more: one.peer, parts: ["clients", one.client_id] }));
}

export default {
  path: "clients",
  title: "clients.title",
  menu: { group: "traffic", order: 10 },
  view: Clients,
  search,
} satisfies Page;
