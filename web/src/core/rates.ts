/** Rates, as the difference of what all nodes have counted at two times. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Counters, Status } from "./types";

/** Kinds of what did not arrive: messages, requests, what there was no right to, clients. */
export const LOST = ["dropped", "refused", "denied", "connect"] as const;

export type Lost = Record<(typeof LOST)[number], Record<string, number>>;

export interface Figures {
  at: number;
  /** Which nodes, and which of their lives: with others a difference means nothing. */
  of: string;
  received: number;
  delivered: number;
  dropped: number;
  bytesIn: number;
  bytesOut: number;
  /** Acknowledgements by how long they waited at most, in seconds; the longest is open. */
  waits: Record<string, number>;
  /** What did not arrive, by reason; `dropped` is all of it. */
  lost: Lost;
}

export function figuresOf(nodes: Status[]): Figures | undefined {
  if (nodes.length === 0) return undefined;
  const sum = (of: (node: Status) => number) => nodes.reduce((all, node) => all + of(node), 0);
  const added = (of: (counters: Counters) => Counts[]) => addedUp(nodes.flatMap((node) => of(node.counters)));
  const lost = {
    dropped: added((one) => [one.dropped, one.forwards_dropped]),
    refused: added((one) => [one.messages_refused, limitedAlone(one)]),
    denied: added((one) => [one.denied]),
    connect: added((one) => [one.connects_refused]),
  };
  return {
    // When they were counted: an answer may be a moment old.
    at: sum((node) => node.started_at + node.uptime) / nodes.length,
    of: nodes.map((node) => `${node.node_id} ${node.started_at}`).join(),
    received: sum((node) => node.counters.messages_received),
    delivered: sum((node) => node.counters.messages_delivered),
    dropped: LOST.flatMap((kind) => Object.values(lost[kind])).reduce((all, count) => all + count, 0),
    bytesIn: sum((node) => node.counters.bytes_received),
    bytesOut: sum((node) => node.counters.bytes_sent),
    // A node of an older version counts none.
    waits: added((one) => [one.acknowledgement_wait ?? {}]),
    lost,
  };
}

/** Every node has all retained messages of the cluster, once it has loaded them. */
export function retainedOf(nodes: Status[]): number | undefined {
  return (nodes.find((node) => node.ready) ?? nodes[0])?.retained;
}

type Counts = Record<string, number>;

function addedUp(those: Counts[]): Counts {
  const sums: Counts = {};
  for (const counts of those) {
    for (const [name, count] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + count;
  }
  return sums;
}

/** Beyond a limit, and counted nowhere else: clients were not let in, messages were not retained, publishers only wait. */
function limitedAlone({ limited }: Counters): Counts {
  return limited?.subscriptions ? { subscriptions: limited.subscriptions } : {};
}

export function ratesOf(before: Figures, now: Figures): Figures | undefined {
  const passed = now.at - before.at;
  if (before.of !== now.of || passed <= 0) return undefined;
  const rate = (a: number, b: number) => Math.max(0, b - a) / passed;
  return {
    ...now,
    received: rate(before.received, now.received),
    delivered: rate(before.delivered, now.delivered),
    dropped: rate(before.dropped, now.dropped),
    bytesIn: rate(before.bytesIn, now.bytesIn),
    bytesOut: rate(before.bytesOut, now.bytesOut),
    waits: Object.fromEntries(
      Object.entries(now.waits).map(([bound, count]) => [bound, rate(before.waits[bound] ?? 0, count)]),
    ),
  };
}

/** What so large a share waited at most, each bucket evenly filled; beyond the last bound nobody knows, so it is that. */
export function quantile(share: number, waits: Record<string, number>): number | undefined {
  const rows = Object.entries(waits)
    .map(([bound, count]) => [Number(bound), count] as const)
    .map(([bound, count]) => [Number.isNaN(bound) ? Number.POSITIVE_INFINITY : bound, count] as const)
    .sort(([a], [b]) => a - b);
  const wanted = share * rows.reduce((all, [, count]) => all + count, 0);
  if (wanted === 0) return undefined;
  let [running, lower] = [0, 0];
  for (const [bound, count] of rows) {
    if (count > 0 && running + count >= wanted)
      return Number.isFinite(bound) ? lower + ((bound - lower) * Math.max(0, wanted - running)) / count : lower;
    running += count;
    lower = Number.isFinite(bound) ? bound : lower;
  }
  return lower;
}

/** The rates between the last two figures. */
export function useRates(figures: Figures | undefined): Figures | undefined {
  const before = useRef<Figures>();
  const [rates, setRates] = useState<Figures>();
  useEffect(() => {
    if (!figures) return;
    if (before.current?.of === figures.of && figures.at <= before.current.at) return;
    if (before.current) setRates(ratesOf(before.current, figures));
    before.current = figures;
  }, [figures]);
  return rates;
}
