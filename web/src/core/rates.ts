/** Rates, as the difference of what all nodes have counted at two times. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Status } from "./types";

export interface Figures {
  at: number;
  /** Which nodes, and which of their lives: with others a difference means nothing. */
  of: string;
  received: number;
  delivered: number;
  dropped: number;
  bytesIn: number;
  bytesOut: number;
  commits: number;
  commitSeconds: number;
  /** What did not arrive, by reason. */
  lost: Record<string, number>;
}

export function figuresOf(nodes: Status[]): Figures | undefined {
  if (nodes.length === 0) return undefined;
  const sum = (of: (node: Status) => number) => nodes.reduce((all, node) => all + of(node), 0);
  const lost: Record<string, number> = {};
  for (const { counters } of nodes) {
    for (const counts of [counters.dropped, counters.forwards_dropped, counters.messages_refused]) {
      for (const [reason, count] of Object.entries(counts)) lost[reason] = (lost[reason] ?? 0) + count;
    }
  }
  return {
    at: Date.now() / 1000,
    of: nodes.map((node) => `${node.node_id} ${node.started_at}`).join(),
    received: sum((node) => node.counters.messages_received),
    delivered: sum((node) => node.counters.messages_delivered),
    dropped: Object.values(lost).reduce((all, count) => all + count, 0),
    bytesIn: sum((node) => node.counters.bytes_received),
    bytesOut: sum((node) => node.counters.bytes_sent),
    commits: sum((node) => node.counters.commits),
    commitSeconds: sum((node) => node.counters.commit_seconds),
    lost,
  };
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
    commits: rate(before.commits, now.commits),
    commitSeconds: rate(before.commitSeconds, now.commitSeconds),
  };
}

/** The rates between the last two figures. */
export function useRates(figures: Figures | undefined): Figures | undefined {
  const before = useRef<Figures>();
  const [rates, setRates] = useState<Figures>();
  useEffect(() => {
    if (!figures) return;
    if (before.current) setRates(ratesOf(before.current, figures));
    before.current = figures;
  }, [figures]);
  return rates;
}
