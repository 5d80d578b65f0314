/** The ports that clients connect to: opened and closed while the nodes run. */
import { useState } from "preact/hooks";
import { api, type Paged, path } from "../core/api";
import { number, short } from "../core/format";
import { sentence, t } from "../core/i18n";
import { useLive } from "../core/live";
import { Action } from "../ui/action";
import { Field, useTexts } from "../ui/fields";
import { Badge } from "../ui/icons";
import { Head } from "../ui/parts";
import { type Column, DataTable } from "../ui/table";
import type { Page } from ".";
import type { Listener, Node } from "./cluster/types";

function columns(changed: () => void): Column<Listener>[] {
  return [
    {
      key: "name",
      title: t("listeners.name"),
      width: "minmax(5.5rem, 1fr)",
      cell: (one) => <span class="mono">{one.name}</span>,
    },
    {
      key: "state",
      title: t("cluster.state"),
      width: "6.5rem",
      cell: (one) => (
        <Badge level={one.open ? "ok" : "none"} text={t(one.open ? "listeners.open" : "listeners.closed")} />
      ),
    },
    {
      key: "node",
      title: t("cluster.node"),
      width: "7rem",
      cell: (one) => <span class="mono">{one.node}</span>,
      wide: true,
    },
    {
      key: "where",
      title: t("listeners.where"),
      width: "minmax(8rem, 1.5fr)",
      cell: (one) => <span class="mono">{`${one.host}:${one.port}`}</span>,
      wide: true,
    },
    {
      key: "protocol",
      title: t("listeners.protocol"),
      width: "minmax(7rem, 1fr)",
      cell: (one) => [one.protocol, one.codec ?? "", one.tls ? "TLS" : ""].filter(Boolean).join(", "),
      wide: true,
    },
    { key: "layer", title: t("config.where"), width: "8rem", cell: (one) => t(`layer.${one.layer}`), wide: true },
    {
      key: "connections",
      title: t("listeners.connections"),
      width: "8rem",
      cell: (one) => `${number(one.connections)} / ${short(one.max_connections)}`,
      end: true,
      wide: true,
    },
    {
      key: "accepted",
      title: t("listeners.accepted"),
      width: "7rem",
      cell: (one) => number(one.accepted),
      end: true,
      wide: true,
    },
    {
      key: "refused",
      title: t("listeners.refused"),
      width: "6rem",
      cell: (one) => number(one.refused),
      end: true,
      wide: true,
    },
    {
      key: "close",
      title: "",
      width: "6rem",
      end: true,
      cell: (one) =>
        one.open && (
          <span class="row-actions">
            <Action
              role="admin"
              danger
              label={t("listeners.close")}
              question={sentence("listeners.close_question", { name: one.name, node: one.node ?? "" })}
              run={() => api.delete(path("listeners", one.name), { node: one.node })}
              done={changed}
            />
          </span>
        ),
    },
  ];
}

function Listeners() {
  const [turn, setTurn] = useState(0);
  const changed = () => setTurn((before) => before + 1);
  return (
    <>
      <Head title={t("listeners.title")}>
        <Open done={changed} />
      </Head>
      <DataTable<Listener>
        label={t("listeners.title")}
        path="listeners"
        columns={columns(changed)}
        id={(one) => `${one.node} ${one.name}`}
        empty={t("listeners.none")}
        turn={turn}
      />
    </>
  );
}

const NEW = { name: "", node: "", protocol: "mqtt", host: "127.0.0.1", port: "", path: "", codec: "", max: "" };

function Open({ done }: { done: () => void }) {
  const form = useTexts(NEW);
  const nodes = useLive<Paged<Node>>("nodes", {}, 30_000).data?.items.map((one) => one.node_id) ?? [];
  const { name, node, protocol, host, port, path: ws, codec, max } = form.texts;
  const said = {
    ...(codec ? { codec } : { protocol }),
    ...{ host, port: Number(port) },
    ...(ws && { path: ws }),
    ...(max && { max_connections: Number(max) }),
  };
  return (
    <Action
      role="admin"
      label={t("listeners.add")}
      question={t("listeners.add_question")}
      opened={() => form.again({ node: nodes[0] ?? "" })}
      run={() => api.post(path("listeners", name), said, { node })}
      done={done}
    >
      <Field label={t("listeners.name")}>
        <input class="mono" required pattern="[a-z][a-z0-9_\-]{0,31}" {...form.of("name")} />
      </Field>
      {nodes.length > 1 && (
        <Field label={t("cluster.node")}>
          <select {...form.of("node")}>
            {nodes.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </Field>
      )}
      <div class="form">
        <div class="row-of">
          <Field label={t("listeners.host")}>
            <input class="mono" required {...form.of("host")} />
          </Field>
          <Field label={t("listeners.port")}>
            <input type="number" min="0" max="65535" required {...form.of("port")} />
          </Field>
        </div>
        <div class="row-of">
          <Field label={t("listeners.protocol")}>
            <select {...form.of("protocol")}>
              <option value="mqtt">MQTT</option>
              <option value="websocket">MQTT, WebSocket</option>
            </select>
          </Field>
          <Field label={t("listeners.codec")}>
            <input class="mono" {...form.of("codec")} />
          </Field>
        </div>
        <div class="row-of">
          <Field label={t("listeners.path")}>
            <input class="mono" {...form.of("path")} />
          </Field>
          <Field label={t("listeners.max")}>
            <input type="number" min="1" {...form.of("max")} />
          </Field>
        </div>
      </div>
    </Action>
  );
}

export default {
  path: "listeners",
  title: "listeners.title",
  menu: { group: "system", order: 20 },
  role: "operator",
  view: Listeners,
} satisfies Page;
