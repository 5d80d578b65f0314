/** The cluster: its nodes, where sessions live, the links, the grid, and clients on their way. */
import { useState } from "preact/hooks";
import { api, type Missing, type Paged } from "../core/api";
import { bytes, duration, number, short, time } from "../core/format";
import { t, tOr } from "../core/i18n";
import { useLive } from "../core/live";
import { reasonText } from "../core/reasons";
import { may } from "../core/session";
import { Action } from "../ui/action";
import { Field, useTexts } from "../ui/fields";
import { Badge, Mark } from "../ui/icons";
import { Empty, MissingNote, ProblemNote } from "../ui/notes";
import { Counts, Facts, Head, Panel, Tile } from "../ui/parts";
import type { Hit, Page } from ".";
import { degradedOf, knownOf, lackingOf, linksOf, loadOf } from "./cluster/moving";
import { DrainActions, Links, Moving, NodeLink, NodeState, Ports } from "./cluster/parts";
import type { Cluster, Identity, Listener, Node, Room, Share } from "./cluster/types";
import "./cluster/cluster.css";

type Of<Item> = Paged<Item>;

function ClusterPage() {
  const nodes = useLive<Of<Node>>("nodes", {}, 2000, true);
  const clusters = useLive<Of<Cluster>>("cluster", { node: "*" }, 3000);
  const identity = useLive<Identity & { missing?: Missing[] }>("identity/cluster", {}, 5000);
  const all = nodes.data?.items ?? [];
  const seen = clusters.data?.items ?? [];
  const moving = all.filter((one) => one.drain.state !== "serving");
  return (
    <>
      <Head title={t("cluster.title")}>{all.length > 1 && <Rebalance done={nodes.refresh} />}</Head>
      <ProblemNote problem={nodes.problem ?? clusters.problem} />
      <MissingNote missing={nodes.data?.missing} />
      <Degraded clusters={seen} known={clusters.data !== undefined} missing={nodes.data?.missing ?? []} />
      <Tiles nodes={all} clusters={seen} identity={identity.data} />
      <div class="panels">
        <Panel title={t("cluster.nodes")} wide>
          <Nodes nodes={all} clusters={seen} done={nodes.refresh} />
        </Panel>
        {moving.length > 0 && (
          <Panel title={t("cluster.moving")} wide>
            {moving.map((one) => (
              <Moving key={one.node_id} node={one} />
            ))}
          </Panel>
        )}
        <Panel title={t("cluster.homes")}>
          <Counts
            of={Object.fromEntries(all.map((one) => [one.node_id, one.sessions]))}
            names={(key) => key}
            empty={t("cluster.no_sessions")}
          />
        </Panel>
        <GridPanel clusters={seen} />
        <Panel title={t("cluster.links")} wide>
          {linksOf(seen).length ? <Links of={linksOf(seen)} /> : <Empty text={t("cluster.alone")} />}
        </Panel>
        <IdentityPanel identity={identity.data} />
        {may("operator") && <PortsPanel />}
      </div>
    </>
  );
}

/** Nothing is well before everybody has said so. */
function Degraded({ clusters, known, missing }: { clusters: Cluster[]; known: boolean; missing: Missing[] }) {
  const found = degradedOf(clusters);
  if (!known || (!found.length && missing.length)) return null;
  if (!found.length) {
    return (
      <p class="calm">
        <Mark level="ok" /> {t("cluster.well")}
      </p>
    );
  }
  return (
    <ul class="alarms" aria-label={t("cluster.degraded")}>
      {found.map(({ text, nodes }) => (
        <li class="note warn" key={text}>
          <Mark level="warn" />
          <div>
            {text} <span class="dim">{t("cluster.says", { nodes: nodes.join(", ") })}</span>
          </div>
        </li>
      ))}
    </ul>
  );
}

function Tiles({ nodes, clusters, identity }: { nodes: Node[]; clusters: Cluster[]; identity: Identity | undefined }) {
  const sum = (of: (node: Node) => number) => nodes.reduce((count, node) => count + of(node), 0);
  return (
    <div class="tiles few">
      <Tile
        label={t("cluster.nodes")}
        value={number(nodes.length)}
        more={t("cluster.of_members", { count: number(Math.max(knownOf(clusters), nodes.length)) })}
      />
      <Tile label={t("cluster.clients")} value={number(sum((node) => node.clients))} />
      <Tile label={t("cluster.sessions")} value={number(sum((node) => node.sessions))} />
      <Tile
        label={t("cluster.forwarded")}
        value={short(clusters.reduce((count, one) => count + one.messages_forwarded, 0))}
        more={t("cluster.forwarded_more")}
      />
      <Tile
        label={t("cluster.unexplained")}
        value={number(identity?.unexplained)}
        more={t("cluster.unexplained_more")}
      />
    </div>
  );
}

function Nodes({ nodes, clusters, done }: { nodes: Node[]; clusters: Cluster[]; done: () => void }) {
  return (
    <div role="group" class="over" tabIndex={0} aria-label={t("cluster.nodes")}>
      <table class="small nodes">
        <thead>
          <tr>
            <th>{t("cluster.node")}</th>
            <th>{t("cluster.state")}</th>
            <th class="wide">{t("cluster.version")}</th>
            <th class="end wide">{t("cluster.up")}</th>
            <th class="end wide">{t("cluster.load")}</th>
            <th class="end">{t("cluster.clients")}</th>
            <th class="end">{t("cluster.sessions")}</th>
            <th class="end wide">{t("cluster.waiting")}</th>
            <th class="end wide">{t("cluster.alarms")}</th>
            {may("operator") && (
              <th class="wide">
                <span class="unseen">{t("cluster.actions")}</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {nodes.map((one) => (
            <tr key={one.node_id}>
              <td>
                <NodeLink id={one.node_id} />
              </td>
              <td>
                <NodeState state={one.state} />
              </td>
              <td class="wide">{one.version}</td>
              <td class="end wide">{duration(one.uptime)}</td>
              <td class="end wide">{percent(loadOf(clusters, one.node_id))}</td>
              <td class="end">{number(one.clients)}</td>
              <td class="end">{number(one.sessions)}</td>
              <td class="end wide">{number(one.waiting)}</td>
              <td class="end wide">{number(one.alarms.length)}</td>
              {may("operator") && (
                <td class="end wide">
                  <DrainActions node={one} done={done} />
                </td>
              )}
            </tr>
          ))}
          {lackingOf(clusters).map((one) => (
            <tr key={one.node_id}>
              <td class="mono">{one.node_id}</td>
              <td colSpan={may("operator") ? 9 : 8}>
                <Badge level={one.state === "gone" ? "bad" : "none"} text={tOr(`state.${one.state}`, one.state)} />
                {one.left_at !== null && <span class="dim"> {t("cluster.since", { time: time(one.left_at) })}</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function percent(load: number | null): string {
  return load === null ? "–" : `${number(100 * load)} %`;
}

function GridPanel({ clusters }: { clusters: Cluster[] }) {
  const rooms = useLive<Of<Room>>("log", { node: "*" }, 10000);
  const first = clusters[0];
  const fullest = [...(rooms.data?.items ?? [])].sort(
    (a, b) => b.disk_used / Math.max(1, b.disk_limit) - a.disk_used / Math.max(1, a.disk_limit),
  )[0];
  const trouble = clusters.find((one) => one.grid_trouble !== null);
  const known = clusters.flatMap((one) => (one.copies_missing === null ? [] : [one.copies_missing]));
  const missing = known.length ? Math.max(...known) : null;
  const servers = Math.max(0, ...clusters.map((one) => one.grid_servers ?? 0));
  return (
    <Panel title={t("cluster.grid")}>
      {first && (
        <Facts
          of={[
            [
              t("cluster.writes"),
              trouble ? (
                <Badge level="bad" text={`${trouble.node_id}: ${trouble.grid_trouble}`} />
              ) : (
                <Badge level="ok" text={t("cluster.takes_writes")} />
              ),
            ],
            [t("cluster.servers"), first.clustered ? (servers ? number(servers) : "–") : t("cluster.embedded")],
            ...(first.clustered ? [[t("cluster.copies"), <Copies key="copies" missing={missing} />] as Fact] : []),
            [
              t("cluster.room"),
              fullest ? t("cluster.used", { used: bytes(fullest.disk_used), of: bytes(fullest.disk_limit) }) : "–",
            ],
            ...clusters.map(
              (one): Fact => [t("cluster.registry_of", { node: one.node_id }), <Registry key="r" of={one} />],
            ),
          ]}
        />
      )}
    </Panel>
  );
}

type Fact = [string, preact.ComponentChildren];

function Copies({ missing }: { missing: number | null }) {
  if (missing === null) return <Badge level="none" text={t("cluster.copies_unknown")} />;
  if (missing === 0) return <Badge level="ok" text={t("cluster.copies_all")} />;
  return <Badge level="bad" text={t("cluster.copies_missing", { count: number(missing) })} />;
}

function Registry({ of }: { of: Cluster }) {
  if (!of.clustered) return <>{t("cluster.no_registry")}</>;
  const text = tOr(`registry.${of.registry}`, of.registry);
  return (
    <Badge
      level={of.registry === "connected" ? "ok" : "bad"}
      text={of.registry_trouble ? `${text}: ${of.registry_trouble}` : text}
    />
  );
}

const TERMS = [
  "matched",
  "restored",
  "delivered",
  "handed_over",
  "waiting",
  "left",
  "found",
  "moving",
  "on_links",
] as const;

function IdentityPanel({ identity }: { identity: (Identity & { missing?: Missing[] }) | undefined }) {
  return (
    <Panel title={t("cluster.identity")} wide>
      {identity && (
        <>
          <MissingNote missing={identity.missing} />
          <div class="across">
            <Facts
              of={[
                [
                  t("identity.unexplained"),
                  <Badge
                    key="sum"
                    level={identity.unexplained === 0 ? "ok" : "bad"}
                    text={number(identity.unexplained)}
                  />,
                ],
                ...TERMS.map((name): Fact => [t(`identity.${name}`), number(identity[name])]),
                [
                  t("identity.lives"),
                  t("identity.killed", { lives: number(identity.lives), killed: number(identity.killed) }),
                ],
                ...(identity.estimated.length
                  ? [
                      [
                        t("identity.estimated"),
                        identity.estimated.map((one) => tOr(`identity.${one}`, one)).join(", "),
                      ] as Fact,
                    ]
                  : []),
              ]}
            />
          </div>
          <h3>{t("identity.dropped")}</h3>
          <Counts of={identity.dropped} names={reasonText} empty={t("identity.nothing")} />
        </>
      )}
    </Panel>
  );
}

function PortsPanel() {
  const live = useLive<Of<Listener>>("listeners", { limit: 1000 }, 10000);
  return (
    <Panel title={t("cluster.ports")} wide>
      <ProblemNote problem={live.problem} />
      <Ports of={live.data?.items ?? []} />
    </Panel>
  );
}

/** What each node would send away is seen before it does. */
function Rebalance({ done }: { done: () => void }) {
  const form = useTexts({ rate: "" });
  const [shares, setShares] = useState<Share[]>();
  const order = form.texts.rate ? { rate: Number(form.texts.rate) } : {};
  const look = async () => {
    setShares(undefined);
    const found = await api
      .post<{ items: Share[] }>("cluster/rebalance", { ...order, dry_run: true })
      .catch(() => undefined);
    setShares(found?.items);
  };
  return (
    <Action
      role="operator"
      label={t("cluster.rebalance")}
      question={t("cluster.rebalance_question")}
      opened={() => void look()}
      run={() => api.post("cluster/rebalance", order)}
      done={done}
    >
      <table class="small">
        <thead>
          <tr>
            <th>{t("cluster.node")}</th>
            <th class="end">{t("cluster.clients")}</th>
            <th class="end">{t("cluster.leave")}</th>
          </tr>
        </thead>
        <tbody>
          {shares?.map((one) => (
            <tr key={one.number}>
              <td class="mono">{one.node_id}</td>
              <td class="end">{number(one.clients)}</td>
              <td class="end">{one.note ?? number(one.surplus)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <Field label={t("cluster.per_second")}>
        <input type="number" min="1" {...form.of("rate")} />
      </Field>
    </Action>
  );
}

async function search(text: string, signal: AbortSignal): Promise<Hit[]> {
  const found = await api.get<Of<Node>>("nodes", {}, signal);
  const part = text.toLocaleLowerCase();
  return found.items
    .filter((one) => one.node_id.toLocaleLowerCase().includes(part))
    .map((one) => ({ text: one.node_id, more: tOr(`state.${one.state}`, one.state), parts: ["cluster", one.node_id] }));
}

export default {
  path: "cluster",
  title: "cluster.title",
  menu: { group: "system", order: 10 },
  view: ClusterPage,
  search,
} satisfies Page;
