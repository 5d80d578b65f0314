/** All subscriptions: whose, and to what; of a topic, those that it goes to. */
import { number } from "../core/format";
import { t } from "../core/i18n";
import { place } from "../core/router";
import type { Subscription } from "../core/types";
import { Filter } from "../ui/filter";
import { ClientLink, Head } from "../ui/parts";
import { DataTable } from "../ui/table";
import type { Page } from ".";

function Subscriptions() {
  const { topic = "", client = "" } = place.value.query;
  return (
    <>
      <Head title={t("subscriptions.title")} />
      <DataTable<Subscription>
        label={t("subscriptions.title")}
        path="subscriptions"
        query={{ topic, client_id: client }}
        id={(one) => JSON.stringify([one.node, one.client_id, one.filter])}
        empty={t("subscriptions.none")}
        columns={[
          {
            key: "client",
            title: t("clients.id"),
            width: "minmax(9rem, 1fr)",
            cell: (one) => <ClientLink id={one.client_id} />,
          },
          {
            key: "filter",
            title: t("subscriptions.filter"),
            width: "minmax(9rem, 2fr)",
            cell: (one) => <span class="mono">{one.filter}</span>,
          },
          { key: "qos", title: "QoS", width: "4rem", cell: (one) => number(one.qos), end: true },
          { key: "node", title: t("clients.node"), width: "7rem", cell: (one) => one.node ?? "", wide: true },
        ]}
      >
        <Filter name="topic" label={t("subscriptions.topic")} />
        <Filter name="client" label={t("clients.id")} />
      </DataTable>
    </>
  );
}

export default {
  path: "subscriptions",
  title: "subscriptions.title",
  menu: { group: "traffic", order: 30 },
  view: Subscriptions,
} satisfies Page;
