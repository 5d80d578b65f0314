import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

const SRC = join(import.meta.dirname, "../src");
const NODE = Date.parse("2026-03-01T12:00:00Z");
const HOUR = 3_600_000;
type Clock = typeof import("../src/core/clock");
let clock: Clock;

beforeEach(async () => {
  vi.useFakeTimers();
  vi.resetModules();
  vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => {} });
  vi.stubGlobal("navigator", { languages: ["en"] });
  clock = await import("../src/core/clock");
});
afterEach(() => vi.useRealTimers());

/** An answer of a node whose clock is `apart` ms away from the browser's, and that took so long on its way there and back. */
function answered(apart: number, there = 0, back = 0): void {
  const asked = Date.now();
  vi.advanceTimersByTime(there);
  const date = new Date(Math.floor((Date.now() + apart) / 1000) * 1000).toUTCString();
  vi.advanceTimersByTime(back);
  clock.compare(date, asked);
}

test("times are counted from the node's clock, however far the browser's is away", async () => {
  const { ago, time } = await import("../src/core/format");
  for (const apart of [-HOUR, HOUR, -30 * 24 * HOUR]) {
    vi.setSystemTime(NODE - apart);
    answered(apart);
    expect(Math.abs(clock.now() * 1000 - NODE)).toBeLessThanOrEqual(1000);
    expect(["0 s", "1 s"]).toContain(ago(NODE / 1000));
    // Today is the node's today.
    expect(time(NODE / 1000)).not.toContain("2026");
  }
});

test("a browser whose clock is right is believed, whatever the second and the way", () => {
  vi.setSystemTime(NODE + 250);
  for (const [there, back] of [
    [0, 0],
    [900, 10],
    [10, 4000],
    [6000, 300],
  ] as const) {
    answered(0, there, back);
    vi.advanceTimersByTime(777);
    expect(clock.now() * 1000).toBe(Date.now());
  }
});

test("a clock that is set is noticed by the next answer", () => {
  vi.setSystemTime(NODE);
  answered(0);
  vi.setSystemTime(NODE + HOUR);
  answered(-HOUR);
  expect(Math.abs(clock.now() * 1000 - NODE)).toBeLessThanOrEqual(1000);
  // No answer with a date, no change.
  const before = clock.now();
  clock.compare(null, Date.now());
  clock.compare("yesterday", Date.now());
  expect(clock.now()).toBe(before);
});

test("every answer is compared", async () => {
  const { api } = await import("../src/core/api");
  vi.setSystemTime(NODE + HOUR);
  vi.stubGlobal("fetch", async () => new Response("{}", { headers: { Date: new Date(NODE).toUTCString() } }));
  await api.get("status");
  expect(Math.abs(clock.now() * 1000 - NODE)).toBeLessThanOrEqual(1000);
});

test("nothing but core/clock.ts looks at the browser's clock", () => {
  const sources = readdirSync(SRC, { recursive: true, encoding: "utf-8" }).filter((name) => /\.tsx?$/.test(name));
  const looking = sources.filter((name) => /Date\.now\(|new Date\(\)/.test(readFileSync(join(SRC, name), "utf-8")));
  expect(looking).toEqual(["core/clock.ts"]);
});
