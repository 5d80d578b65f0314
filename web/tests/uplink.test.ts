import { expect, test } from "vitest";
import { conditions, entryOf, readRules, together, written } from "../src/pages/uplink/rules";
import type { Rule, Rules } from "../src/pages/uplink/types";

const rule = (more: Partial<Rule> = {}): Rule => ({
  number: 1,
  filter: "up/#",
  gateway: null,
  device: null,
  codec: null,
  when: null,
  qos: 0,
  to: "iot.readings",
  mode: "also",
  key: "device",
  matched: 3,
  sent: 2,
  ...more,
});
const of = (node: string, ...items: Rule[]): Rules => ({ node, items, earlier: 0, names: 0, turned_away: 0 });

test("a rule is written as one would write it, and read again", () => {
  const hot = rule({ gateway: "line-*", when: "values.t > 80", qos: 1, to: "iot.hot", mode: "only" });
  expect(entryOf(rule())).toEqual({ filter: "up/#" });
  expect(readRules(written([rule(), hot]))).toEqual([entryOf(rule()), entryOf(hot)]);
  expect(readRules(written([]))).toEqual([]);
  expect(conditions(hot)).toEqual(["gateway: line-*", "qos ≥ 1", "values.t > 80"]);
});

test("what is no list of rules is said", () => {
  for (const text of ["", "{}", "[1]", "[[]]", "[null]", "- filter: up/#"]) expect(() => readRules(text)).toThrow();
});

test("figures of nodes with the same rules are added up", () => {
  const { rules, same } = together([of("a", rule()), of("b", rule({ matched: 4, sent: 4 }))]);
  expect([same, rules[0]?.matched, rules[0]?.sent]).toEqual([true, 7, 6]);
});

test("of nodes that differ those of the first are shown, and that they differ", () => {
  const { rules, same } = together([of("a", rule()), of("b", rule({ filter: "x" }))]);
  expect([same, rules[0]?.filter, rules[0]?.matched]).toEqual([false, "up/#", 3]);
  expect(together([])).toEqual({ rules: [], same: true });
});
