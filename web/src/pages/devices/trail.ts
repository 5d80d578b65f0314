/** What was seen of figures while the page is open: the API keeps no past of single devices. */
import { useEffect, useRef, useState } from "preact/hooks";
import { now } from "../../core/clock";
import { Raw } from "../../core/json";

const KEPT = 240;

/** Samples of several figures at the same times; the oldest go. */
export class Trail {
  readonly times: number[] = [];
  readonly lines = new Map<string, (number | null)[]>();

  constructor(private readonly kept = KEPT) {}

  add(at: number, figures: Record<string, number | null>): void {
    for (const name of Object.keys(figures)) {
      if (!this.lines.has(name)) this.lines.set(name, Array<null>(this.times.length).fill(null));
    }
    this.times.push(at);
    for (const [name, values] of this.lines) values.push(figures[name] ?? null);
    if (this.times.length <= this.kept) return;
    this.times.shift();
    for (const values of this.lines.values()) values.shift();
  }
}

/** A chart can show numbers, and switches as 0 and 1. */
export function charted(value: unknown): number | null {
  if (typeof value === "boolean") return value ? 1 : 0;
  const number = value instanceof Raw ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : null;
}

export interface Count {
  at: number;
  counts: Record<string, number>;
}

/** How fast counts grow; null where they began anew, or were not there before. */
export function growth(before: Count | undefined, now: Count): Record<string, number | null> {
  const passed = before ? now.at - before.at : 0;
  const rate = (name: string, count: number) => {
    const was = before?.counts[name];
    return was === undefined || passed <= 0 || count < was ? null : (count - was) / passed;
  };
  return Object.fromEntries(Object.entries(now.counts).map(([name, count]) => [name, rate(name, count)]));
}

/** A trail that gets what `figures` has each time that `answer` is another one. */
export function useTrail(answer: unknown, figures: () => Record<string, number | null>): Trail {
  const trail = useRef(new Trail());
  const [, show] = useState(0);
  useEffect(() => {
    if (answer === undefined) return;
    trail.current.add(now(), figures());
    show((count) => count + 1);
  }, [answer]);
  return trail.current;
}

/** The same of counts, as rates. */
export function useGrowth(answer: unknown, counts: () => Record<string, number>): Trail {
  const before = useRef<Count>();
  return useTrail(answer, () => {
    const count = { at: now(), counts: counts() };
    const rates = growth(before.current, count);
    before.current = count;
    return rates;
  });
}

/** The last of a line that is known. */
export function last(trail: Trail, name: string): number | null {
  return trail.lines.get(name)?.at(-1) ?? null;
}
