/** Sums over nodes: clients on their way, and links. */
import type { Cluster, Drain, Member } from "./types";

export interface Progress {
  gone: number;
  all: number;
  /** 0 to 1. */
  share: number;
}

/** Of a node that sends clients away: all its clients if it is drained, else those that are too many. */
export function progressOf(drain: Drain): Progress {
  const left = drain.state === "rebalancing" ? drain.remaining + drain.leaving : drain.clients;
  const all = drain.sent_away + left;
  return { gone: drain.sent_away, all, share: all ? drain.sent_away / all : 1 };
}

export interface Link {
  from: string;
  member: Member;
}

const AWAY = ["stopped", "gone", "left"];

/** Each direction between two nodes, as the one that sends sees it. Those that are not there have none. */
export function linksOf(clusters: Cluster[]): Link[] {
  return clusters.flatMap((cluster) =>
    cluster.members
      .filter((member) => member.state !== "self" && !AWAY.includes(member.state))
      .map((member) => ({ from: cluster.node_id, member })),
  );
}

/** Nodes that have joined, were not removed, and are not there, each once, by name. */
export function lackingOf(clusters: Cluster[]): Member[] {
  const there = new Set(clusters.map((one) => one.node_id));
  const found = new Map<string, Member>();
  for (const member of clusters.flatMap((one) => one.members)) {
    if (AWAY.includes(member.state) && !there.has(member.node_id)) found.set(member.node_id, member);
  }
  return [...found.values()].sort((a, b) => a.node_id.localeCompare(b.node_id));
}

/** How many nodes the cluster has, those that are lacking among them. */
export function knownOf(clusters: Cluster[]): number {
  return new Set(clusters.flatMap((one) => one.members.map((member) => member.number))).size;
}

/** How busy a node is, as the others see it: 0 to 1. */
export function loadOf(clusters: Cluster[], node: string): number | null {
  for (const cluster of clusters) {
    const found = cluster.members.find((one) => one.node_id === node && one.state !== "self");
    if (found) return found.load;
  }
  return null;
}

/** Sentences with the nodes that say them: two nodes often say the same. */
export function degradedOf(clusters: Cluster[]): { text: string; nodes: string[] }[] {
  const found = new Map<string, string[]>();
  for (const cluster of clusters) {
    for (const text of cluster.degraded) found.set(text, [...(found.get(text) ?? []), cluster.node_id]);
  }
  return [...found].map(([text, nodes]) => ({ text, nodes }));
}
