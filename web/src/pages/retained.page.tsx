/** Retained messages that a filter matches. */
import { number } from "../core/format";
import { t } from "../core/i18n";
import { place } from "../core/router";
import { Filter } from "../ui/filter";
import { Head } from "../ui/parts";
import { DataTable } from "../ui/table";
import type { Page } from ".";

interface Retained {
  topic: string;
  qos: number;
}

function RetainedMessages() {
  const { filter = "" } = place.value.query;
  return (
    <>
      <Head title={t("retained.title")} />
      <DataTable<Retained>
        label={t("retained.title")}
        path="retained"
        query={{ filter }}
        id={(one) => one.topic}
        empty={t("retained.none")}
        columns={[
          {
            key: "topic",
            title: t("retained.topic"),
            width: "minmax(10rem, 1fr)",
            cell: (one) => <span class="mono">{one.topic}</span>,
          },
          { key: "qos", title: "QoS", width: "4rem", cell: (one) => number(one.qos), end: true },
        ]}
      >
        <Filter name="filter" label={t("retained.filter")} />
      </DataTable>
    </>
  );
}

export default {
  path: "retained",
  title: "retained.title",
  menu: { group: "traffic", order: 40 },
  view: RetainedMessages,
} satisfies Page;
