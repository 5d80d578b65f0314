import { expect, test } from "vitest";
import { degradedOf, knownOf, lackingOf, linksOf, loadOf, progressOf } from "../src/pages/cluster/moving";
import type { Cluster, Drain, Member } from "../src/pages/cluster/types";
import { rowsOf, shownRows, text, typed } from "../src/pages/settings/keys";
import type { Key } from "../src/pages/settings/types";

const drain = (state: string, clients: number, sent: number, remaining: number, leaving = 0) =>
  ({ state, clients, sent_away: sent, remaining, leaving }) as unknown as Drain;

test("a drained node has sent all away, a rebalancing one what it had too many", () => {
  expect(progressOf(drain("draining", 30, 10, 30))).toEqual({ gone: 10, all: 40, share: 0.25 });
  expect(progressOf(drain("rebalancing", 60, 15, 4, 1))).toEqual({ gone: 15, all: 20, share: 0.75 });
  expect(progressOf(drain("drained", 0, 0, 0)).share).toBe(1);
});

const member = (node_id: string, state: string, load: number | null = null) =>
  ({ node_id, state, load }) as unknown as Member;
const cluster = (node_id: string, members: Member[], degraded: string[] = []) =>
  ({ node_id, members, degraded }) as unknown as Cluster;

test("links are seen from both ends; who has left has none", () => {
  const seen = [
    cluster("a", [member("a", "self"), member("b", "up", 0.5), member("c", "left")], ["x"]),
    cluster("b", [member("a", "deaf", 0.25), member("b", "self")], ["x", "y"]),
  ];
  expect(linksOf(seen).map((one) => [one.from, one.member.node_id, one.member.state])).toEqual([
    ["a", "b", "up"],
    ["b", "a", "deaf"],
  ]);
  expect([loadOf(seen, "a"), loadOf(seen, "b"), loadOf(seen, "c"), loadOf(seen, "d")]).toEqual([0.25, 0.5, null, null]);
  expect(degradedOf(seen)).toEqual([
    { text: "x", nodes: ["a", "b"] },
    { text: "y", nodes: ["b"] },
  ]);
});

test("who is lacking is named once, unless it has answered meanwhile", () => {
  const numbered = (number: number, one: Member): Member => ({ ...one, number });
  const gone = numbered(3, member("c", "gone"));
  const seen = [
    cluster("a", [numbered(1, member("a", "self")), numbered(2, member("b", "stopped")), gone]),
    cluster("b", [numbered(1, member("a", "up")), numbered(2, member("b", "self")), gone]),
  ];
  expect(lackingOf(seen)).toEqual([gone]);
  expect(knownOf(seen)).toBe(3);
});

const key = (name: string, node: string, value: unknown, more: Partial<Key> = {}): Key => ({
  ...{ key: name, node, value, written: value, default: 1, layer: "default", where: "default" },
  ...{ live: false, restart: false },
  ...more,
});

test("keys differ from the default, between nodes, or from what is written", () => {
  const rows = rowsOf([
    ...[key("a", "n1", 1), key("a", "n2", 1)],
    ...[key("b", "n1", 2, { live: true }), key("b", "n2", 3, { live: true })],
    ...[key("c", "n1", 1, { restart: true, written: 5 }), key("c", "n2", 1)],
    // A listener that one of them has.
    key("d", "n2", [1]),
  ]);
  const names = (view: Parameters<typeof shownRows>[1], contains = "") =>
    shownRows(rows, view, contains).map((one) => one.key);
  expect(names("all")).toEqual(["a", "b", "c", "d"]);
  expect(names("changed")).toEqual(["b", "d"]);
  expect(names("differs")).toEqual(["b", "d"]);
  expect(names("restart")).toEqual(["c"]);
  expect(names("live")).toEqual(["b"]);
  expect(names("all", "3")).toEqual(["b"]);
});

test("values are typed as they are written in a file", () => {
  for (const value of [1, true, null, ["a"], { a: 1 }, "debug"]) expect(typed(text(value))).toEqual(value);
  expect(typed("a: b")).toBe("a: b");
});
