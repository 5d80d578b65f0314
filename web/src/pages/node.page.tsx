/** One node of the cluster. */
import type { Missing, Paged } from "../core/api";
import { path } from "../core/api";
import { duration, number, time } from "../core/format";
import { t } from "../core/i18n";
import { useLive } from "../core/live";
import { href } from "../core/router";
import { may } from "../core/session";
import { Mark } from "../ui/icons";
import { Empty, ProblemNote } from "../ui/notes";
import { Facts, Head, Panel } from "../ui/parts";
import type { Page } from ".";
import { linksOf } from "./cluster/moving";
import { DrainActions, Links, Moving, NodeState, Ports } from "./cluster/parts";
import type { Cluster, Listener, Node } from "./cluster/types";

function OneNode({ id = "" }: Record<string, string>) {
  const live = useLive<Node & { missing?: Missing[] }>(path("nodes", id), {}, 1500);
  const cluster = useLive<Cluster>("cluster", { node: id }, 3000);
  const node = live.data;
  const links = cluster.data ? linksOf([cluster.data]) : [];
  return (
    <>
      <Head title={t("node.title")} of={id}>
        {may("operator") && node && <DrainActions node={node} done={live.refresh} />}
      </Head>
      <ProblemNote problem={live.problem} />
      {node && (
        <>
          {node.alarms.map((text) => (
            <p class="note bad" key={text}>
              <Mark level="bad" /> {text}
            </p>
          ))}
          <div class="panels">
            {node.drain.state !== "serving" && (
              <Panel title={t("cluster.moving")} wide>
                <Moving node={node} />
              </Panel>
            )}
            <Panel title={t("node.about")}>
              <Facts
                of={[
                  [t("cluster.state"), <NodeState key="state" state={node.state} />],
                  [t("cluster.version"), node.version],
                  [t("cluster.up"), `${duration(node.uptime)} (${time(node.started_at)})`],
                  [t("cluster.clients"), number(node.clients)],
                  [t("cluster.sessions"), number(node.sessions)],
                  [t("node.subscriptions"), number(node.subscriptions)],
                  [t("node.retained"), number(node.retained)],
                  [t("cluster.waiting"), number(node.waiting)],
                  [t("node.inflight"), number(node.inflight)],
                  [t("node.paused"), number(node.paused)],
                  [t("cluster.unexplained"), number(node.unexplained)],
                  ...(may("operator") ? [configuration(id)] : []),
                ]}
              />
            </Panel>
            <Panel title={t("cluster.links")} wide>
              {links.length ? <Links of={links} /> : <Empty text={t("cluster.alone")} />}
            </Panel>
            {may("operator") && <PortsOf id={id} />}
          </div>
        </>
      )}
    </>
  );
}

function configuration(id: string): [string, preact.ComponentChildren] {
  const link = (
    <a key="configuration" href={href(["configuration"], { node: id })}>
      {t("node.see_configuration")}
    </a>
  );
  return [t("node.configuration"), link];
}

function PortsOf({ id }: { id: string }) {
  const live = useLive<Paged<Listener>>("listeners", { node: id, limit: 1000 }, 10000);
  return (
    <Panel title={t("cluster.ports")} wide>
      <ProblemNote problem={live.problem} />
      <Ports of={live.data?.items ?? []} />
    </Panel>
  );
}

export default { path: "cluster/:id", title: "node.title", view: OneNode } satisfies Page;
