/** Shared groups: of several subscribers one gets each message. */
import { api, type Paged } from "../core/api";
import { number } from "../core/format";
import { t } from "../core/i18n";
import { href } from "../core/router";
import type { SharedGroup } from "../core/types";
import { Mark } from "../ui/icons";
import { Head } from "../ui/parts";
import { DataTable } from "../ui/table";
import type { Hit, Page } from ".";

function Groups() {
  return (
    <>
      <Head title={t("groups.title")} />
      <DataTable<SharedGroup>
        label={t("groups.title")}
        path="shared-groups"
        id={(one) => JSON.stringify([one.node, one.filter])}
        empty={t("groups.none")}
        columns={[
          {
            key: "group",
            title: t("groups.group"),
            width: "minmax(9rem, 1fr)",
            cell: (one) => (
              <>
                <Mark
                  level={one.connected > 0 ? "ok" : one.members > 0 ? "bad" : "none"}
                  label={t(one.connected > 0 ? "groups.served" : "groups.unserved")}
                />
                <a class="mono" href={href(["groups", one.filter])}>
                  {one.group}
                </a>
              </>
            ),
          },
          {
            key: "topics",
            title: t("groups.topics"),
            width: "minmax(5rem, 2fr)",
            cell: (one) => <span class="mono">{one.topics}</span>,
          },
          {
            key: "members",
            title: t("groups.members"),
            width: "6rem",
            cell: (one) => t("groups.of", { connected: number(one.connected), members: number(one.members) }),
            end: true,
            wide: true,
          },
          { key: "waiting", title: t("groups.waiting"), width: "5rem", cell: (one) => number(one.waiting), end: true },
          { key: "node", title: t("clients.node"), width: "7rem", cell: (one) => one.node ?? "", wide: true },
        ]}
      />
    </>
  );
}

async function search(text: string, signal: AbortSignal): Promise<Hit[]> {
  const found = await api.get<Paged<SharedGroup>>("shared-groups", { limit: 1000 }, signal);
  const part = text.toLocaleLowerCase();
  const names = new Set(found.items.map((one) => one.filter).filter((one) => one.toLocaleLowerCase().includes(part)));
  return [...names].slice(0, 5).map((one) => ({ text: one, parts: ["groups", one] }));
}

export default {
  path: "groups",
  title: "groups.title",
  menu: { group: "traffic", order: 35 },
  view: Groups,
  search,
} satisfies Page;
