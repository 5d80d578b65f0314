/** What all nodes say of the past, as lines of one chart: added up, or the largest, as each series says. */
import type { History } from "./types";

export interface Span {
  key: "hour" | "day" | "week";
  seconds: number;
  /** Milliseconds between two looks. */
  every: number;
}

export const SPANS: [Span, Span, Span] = [
  { key: "hour", seconds: 3600, every: 10_000 },
  { key: "day", seconds: 86_400, every: 60_000 },
  { key: "week", seconds: 7 * 86_400, every: 300_000 },
];

export interface Lines {
  times: number[];
  of: (name: string) => (number | null)[];
}

export function linesOf(nodes: History[], span: number): Lines {
  const step = nodes[0]?.step ?? 10;
  const those = nodes.filter((node) => node.step === step);
  const end = Math.max(0, ...those.map((node) => node.begin + step * (node.series[0]?.values.length ?? 0)));
  const begin = Math.max(end - span, Math.min(...those.map((node) => node.begin)));
  const length = those.length ? Math.max(0, Math.ceil((end - begin) / step)) : 0;
  const times = Array.from({ length }, (_, at) => begin + at * step);
  return { times, of: (name) => times.map((time) => valueAt(those, name, time)) };
}

function valueAt(nodes: History[], name: string, time: number): number | null {
  let found: number | null = null;
  for (const node of nodes) {
    const series = node.series.find((one) => one.name === name);
    const value = series?.values[Math.round((time - node.begin) / node.step)];
    if (value === null || value === undefined) continue;
    found = found === null ? value : series?.over_nodes === "max" ? Math.max(found, value) : found + value;
  }
  return found;
}
