import { signal } from "@preact/signals";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

const NODE = Date.parse("2026-03-01T12:00:00Z");
let pulse: typeof import("../src/core/pulse");
let stop: () => void;
const visible = signal(true);
/** Milliseconds that an answer takes; undefined: there is none. */
let way: number | undefined;

beforeEach(async () => {
  vi.useFakeTimers({ now: NODE });
  vi.resetModules();
  vi.spyOn(AbortSignal, "timeout").mockImplementation((wait) => {
    const limit = new AbortController();
    setTimeout(() => limit.abort(new DOMException("", "TimeoutError")), wait);
    return limit.signal;
  });
  vi.stubGlobal("fetch", (_: string, { signal }: RequestInit) => {
    return new Promise((answer, fail) => {
      if (way !== undefined) setTimeout(() => answer(new Response("{}")), way);
      signal?.addEventListener("abort", () => fail(signal.reason as Error));
    });
  });
  [way, visible.value] = [10, true];
  pulse = await import("../src/core/pulse");
  stop = pulse.watch(visible);
});
afterEach(() => {
  stop();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** Whether the page said at any time that the node is silent. */
async function saidWithin(ms: number): Promise<boolean> {
  let said = false;
  for (let passed = 0; passed < ms; passed += 100) {
    await vi.advanceTimersByTimeAsync(100);
    said ||= pulse.silent.value !== null;
  }
  return said;
}

test("a node that hangs is noticed after five seconds, and heard again soon", async () => {
  await vi.advanceTimersByTimeAsync(60_000);
  const heard = NODE / 1000 + 60;
  way = undefined;
  expect(await saidWithin(4000)).toBe(false);
  expect(await saidWithin(3000)).toBe(true);
  expect(Math.abs((pulse.silent.value ?? 0) - heard)).toBeLessThan(1.5);
  await vi.advanceTimersByTimeAsync(100_000);
  const before = pulse.returns.value;
  // Not before the questions that are on their way are given up.
  way = 10;
  await vi.advanceTimersByTimeAsync(5000);
  expect([pulse.silent.value, pulse.returns.value]).toEqual([null, before + 1]);
});

test("a slow network does not make it flicker", async () => {
  for (const slow of [200, 1500, 3000]) {
    way = slow;
    expect(await saidWithin(60_000), `${slow} ms`).toBe(false);
  }
});

test("an answer to any question is a sign", async () => {
  way = undefined;
  for (let second = 0; second < 20; second++) {
    pulse.heard();
    expect(await saidWithin(1000)).toBe(false);
  }
});

test("a page that nobody saw, or that was held up, does not cry wolf", async () => {
  visible.value = false;
  await vi.advanceTimersByTimeAsync(3_600_000);
  way = undefined;
  visible.value = true;
  expect(await saidWithin(4000)).toBe(false);
  pulse.heard();
  // No timer has run for a minute: whatever came meanwhile waits behind this one.
  const late = performance.now() + 60_000;
  vi.spyOn(performance, "now").mockReturnValue(late);
  await vi.advanceTimersByTimeAsync(1000);
  expect(pulse.silent.value).toBeNull();
});

test("a question that is not answered ends, and says so", async () => {
  const { api } = await import("../src/core/api");
  way = undefined;
  const codes: string[] = [];
  const kept = (error: { code: string }) => codes.push(error.code);
  void api.get("status").catch(kept);
  void api.post("bans", {}).catch(kept);
  await vi.advanceTimersByTimeAsync(31_000);
  expect(codes).toEqual(["unreachable"]);
  await vi.advanceTimersByTimeAsync(120_000);
  expect(codes).toEqual(["unreachable", "unanswered"]);
});

test("what was asked before is asked at once when the node is heard again", async () => {
  vi.stubGlobal("document", { hidden: false, addEventListener: () => {} });
  const { Poll } = await import("../src/core/live");
  let asked = 0;
  const ask = async () => {
    asked += 1;
    if (way === undefined) throw new Error();
  };
  const poll = new Poll<void>(ask, 2000, () => {});
  expect(asked).toBe(1);
  way = undefined;
  await vi.advanceTimersByTimeAsync(120_000);
  const before = asked;
  way = 10;
  pulse.heard();
  expect(asked).toBe(before + 1);
  poll.stop();
});
