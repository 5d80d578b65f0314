import { expect, test } from "vitest";
import { charted, growth, Trail } from "../src/pages/devices/trail";

test("counts that begin anew give no rate, nor do those that were not there", () => {
  const before = { at: 10, counts: { readings: 100, bytes: 500 } };
  const rates = growth(before, { at: 12, counts: { readings: 110, bytes: 4, other: 7 } });
  expect(rates).toEqual({ readings: 5, bytes: null, other: null });
  expect(growth(undefined, before)).toEqual({ readings: null, bytes: null });
  expect(growth(before, { ...before, counts: { readings: 101 } })).toEqual({ readings: null });
});

test("a trail keeps its lines as long as its times, and no more than it may", () => {
  const trail = new Trail(3);
  for (const [at, figures] of [{ t: 1 }, { t: 2, p: 9 }, { p: 8 }, { t: 4, p: 7 }].entries()) {
    trail.add(at, figures as Record<string, number>);
  }
  expect(trail.times).toEqual([1, 2, 3]);
  expect(trail.lines.get("t")).toEqual([2, null, 4]);
  expect(trail.lines.get("p")).toEqual([9, 8, 7]);
});

test("what is no number is not drawn", () => {
  expect([21.5, true, false, "21", null, Number.NaN, {}].map(charted)).toEqual([21.5, 1, 0, null, null, null, null]);
});
