/** Parts of the pages of the cluster and of one node. */
import { useState } from "preact/hooks";
import { api, path } from "../../core/api";
import { bytes, duration, number } from "../../core/format";
import { sentence, t, tOr } from "../../core/i18n";
import { href } from "../../core/router";
import { Action } from "../../ui/action";
import { Field, Tick, useTexts } from "../../ui/fields";
import { Badge, type Level } from "../../ui/icons";
import { type Link, progressOf } from "./moving";
import type { Listener, Node } from "./types";

export function NodeLink({ id }: { id: string }) {
  return (
    <a class="mono" href={href(["cluster", id])}>
      {id}
    </a>
  );
}

export function nodeLevel(state: string): Level {
  if (state === "serving") return "ok";
  return state === "apart" || state === "not_ready" ? "bad" : "warn";
}

export function NodeState({ state }: { state: string }) {
  return <Badge level={nodeLevel(state)} text={tOr(`state.${state}`, state)} />;
}

const LINKS: Record<string, Level> = { up: "ok", deaf: "warn", silent: "bad", dead: "bad" };

function linkLevel({ member }: Link): Level {
  const level = LINKS[member.state] ?? "none";
  return level === "ok" && (member.crowded || !member.routes_agree || member.routes_behind > 0) ? "warn" : level;
}

export function Links({ of }: { of: Link[] }) {
  return (
    <div role="group" class="over" tabIndex={0} aria-label={t("cluster.links")}>
      <table class="small">
        <thead>
          <tr>
            <th>{t("cluster.from")}</th>
            <th>{t("cluster.to")}</th>
            <th>{t("cluster.state")}</th>
            <th class="end">{t("cluster.lag")}</th>
            <th class="end">{t("cluster.sent")}</th>
            <th class="end">{t("cluster.received")}</th>
            <th class="end">{t("cluster.routes")}</th>
            <th class="end">{t("cluster.repairs")}</th>
            <th class="end">{t("cluster.gaps")}</th>
          </tr>
        </thead>
        <tbody>
          {of.map((one) => (
            <tr key={`${one.from} ${one.member.number}`}>
              <td class="mono">{one.from}</td>
              <td class="mono">{one.member.node_id || one.member.number}</td>
              <td>
                <Badge level={linkLevel(one)} text={tOr(`link.${one.member.state}`, one.member.state)} />
              </td>
              <td class="end">{bytes(one.member.unconfirmed)}</td>
              <td class="end">{bytes(one.member.bytes_sent)}</td>
              <td class="end">{bytes(one.member.bytes_received)}</td>
              <td class="end">
                {one.member.routes_behind
                  ? t("cluster.behind", { count: number(one.member.routes_behind) })
                  : number(one.member.routes)}
              </td>
              <td class="end">{number(one.member.repairs_asked)}</td>
              <td class="end">{number(one.member.gaps)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Begin, end, or go on at another rate. */
export function DrainActions({ node, done }: { node: Node; done: () => void }) {
  const form = useTexts({ rate: "" });
  const [moved, setMoved] = useState(false);
  const id = node.node_id;
  const draining = node.drain.state !== "serving";
  const order = { ...(form.texts.rate && { rate: Number(form.texts.rate) }), moved };
  return (
    <span class="buttons">
      {node.drain.state !== "rebalancing" && (
        <Action
          role="operator"
          danger
          label={t(draining ? "cluster.rate" : "cluster.drain")}
          question={sentence("cluster.drain_question", { node: id })}
          run={() => api.post(path("nodes", id, "drain"), order)}
          done={done}
        >
          <Field label={t("cluster.per_second")}>
            <input type="number" min="1" {...form.of("rate")} />
          </Field>
          <Tick label={t("cluster.moved")} on={moved} set={setMoved} />
        </Action>
      )}
      {draining && (
        <Action
          role="operator"
          label={t("cluster.resume")}
          question={sentence("cluster.resume_question", { node: id })}
          run={() => api.delete(path("nodes", id, "drain"))}
          done={done}
        />
      )}
    </span>
  );
}

/** How far a node is with sending its clients away. */
export function Moving({ node }: { node: Node }) {
  const { drain } = node;
  const { gone, all, share } = progressOf(drain);
  const label = t("cluster.gone", { gone: number(gone), all: number(all) });
  return (
    <div class="moving">
      <div class="moving-line">
        <NodeLink id={node.node_id} /> <NodeState state={drain.state} />
        <span class="end dim">
          {label}
          {drain.estimate !== null && drain.estimate > 0
            ? ` · ${t("cluster.to_go", { time: duration(drain.estimate) })}`
            : ""}
        </span>
      </div>
      <progress value={share} max={1} aria-label={`${node.node_id}: ${label}`} />
      <p class="dim">
        {drain.refusing ? t("cluster.refusing", { count: number(drain.refused) }) : t("cluster.taking")}
        {drain.leaving ? ` · ${t("cluster.leaving", { count: number(drain.leaving) })}` : ""}
      </p>
    </div>
  );
}

export function Ports({ of }: { of: Listener[] }) {
  return (
    <div role="group" class="over" tabIndex={0} aria-label={t("cluster.ports")}>
      <table class="small">
        <thead>
          <tr>
            <th>{t("cluster.node")}</th>
            <th>{t("listeners.name")}</th>
            <th>{t("listeners.where")}</th>
            <th>{t("cluster.state")}</th>
            <th class="end">{t("listeners.connections")}</th>
          </tr>
        </thead>
        <tbody>
          {of.map((one) => (
            <tr key={`${one.node} ${one.name}`}>
              <td class="mono">{one.node}</td>
              <td class="mono">{one.name}</td>
              <td class="mono">{`${one.host}:${one.port}`}</td>
              <td>
                <Badge
                  level={one.open ? "ok" : "none"}
                  text={`${t(one.open ? "listeners.open" : "listeners.closed")}${one.tls ? ", TLS" : ""}`}
                />
              </td>
              <td class="end">{number(one.connections)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
