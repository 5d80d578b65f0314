/** Users of the grid. */
import { useState } from "preact/hooks";
import { api, type Paged } from "../core/api";
import { t } from "../core/i18n";
import { useLive } from "../core/live";
import { href, place } from "../core/router";
import { Filter } from "../ui/filter";
import { Badge, Mark } from "../ui/icons";
import { Head } from "../ui/parts";
import { type Column, DataTable } from "../ui/table";
import type { Hit, Page } from ".";
import { limitsLine } from "./access/limits";
import type { User } from "./access/types";
import { AddUser } from "./access/user";
import "./access/access.css";

function columns(): Column<User>[] {
  return [
    {
      key: "name",
      title: t("users.name"),
      width: "minmax(9rem, 2fr)",
      cell: (one) => (
        <a class="mono" href={href(["users", one.name])}>
          {one.name}
        </a>
      ),
    },
    { key: "enabled", title: t("users.state"), width: "9rem", cell: (one) => <Enabled user={one} /> },
    {
      key: "groups",
      title: t("users.groups"),
      width: "minmax(6rem, 1.5fr)",
      cell: (one) => <span class="mono">{one.groups.join(", ") || "–"}</span>,
    },
    {
      key: "client_ids",
      title: t("users.client_ids"),
      width: "minmax(6rem, 1.5fr)",
      cell: (one) => <span class="mono">{one.client_ids.join(", ") || t("users.any")}</span>,
      wide: true,
    },
    {
      key: "password",
      title: t("users.proof"),
      width: "10rem",
      cell: (one) => proofOf(one),
      wide: true,
    },
    {
      key: "limits",
      title: t("limits.title"),
      width: "minmax(8rem, 2fr)",
      cell: (one) => limitsLine(one.limits) || "–",
      wide: true,
    },
  ];
}

export function proofOf(user: User): string {
  return [user.password ?? t("users.no_password"), user.scram ? "SCRAM" : ""].filter(Boolean).join(", ");
}

export function Enabled({ user }: { user: User }) {
  return (
    <Badge level={user.enabled ? "ok" : "warn"} text={t(user.enabled ? "users.is_enabled" : "users.is_disabled")} />
  );
}

function Users() {
  const [turn, setTurn] = useState(0);
  const { contains = "" } = place.value.query;
  const first = useLive<Paged<User>>("users", { limit: 1 }, 30000).data?.items[0];
  return (
    <>
      <Head title={t("users.title")}>
        <AddUser done={() => setTurn(turn + 1)} />
      </Head>
      {first && !first.in_chain && (
        <p class="note warn">
          <Mark level="warn" /> {t("users.not_asked")}
        </p>
      )}
      <DataTable<User>
        label={t("users.title")}
        path="users"
        query={{ contains }}
        columns={columns()}
        id={(one) => one.name}
        empty={t("users.none")}
        turn={turn}
      >
        <Filter name="contains" label={t("users.contains")} />
      </DataTable>
    </>
  );
}

async function search(text: string, signal: AbortSignal): Promise<Hit[]> {
  const found = await api.get<Paged<User>>("users", { contains: text, limit: 5 }, signal);
  return found.items.map((one) => ({ text: one.name, more: one.groups.join(", "), parts: ["users", one.name] }));
}

export default {
  path: "users",
  title: "users.title",
  menu: { group: "access", order: 10 },
  role: "admin",
  view: Users,
  search,
} satisfies Page;
