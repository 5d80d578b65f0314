/** Rules of the uplink: those of all nodes as one list, as they can be written, and what was written read. */
import { asJson, readJson } from "../../core/json";
import type { Rule, Rules } from "./types";

/** What a rule has if nothing is said. */
const DEFAULTS: Record<string, unknown> = { to: "iot.readings", mode: "also", key: "device", qos: 0 };
const KEYS = ["filter", "gateway", "device", "codec", "qos", "when", "to", "mode", "key"] as const;

/** As it can be written: what is not the default. */
export function entryOf(rule: Rule): Record<string, unknown> {
  return Object.fromEntries(KEYS.map((key) => [key, rule[key]]).filter(([key, value]) => !isDefault(key, value)));
}

function isDefault(key: unknown, value: unknown): boolean {
  return value === null || DEFAULTS[String(key)] === value;
}

/** What must hold beside the filter, in words of the configuration. */
export function conditions(rule: Rule): string[] {
  const fields = (["gateway", "device", "codec"] as const).filter((key) => rule[key] !== null);
  return [
    ...fields.map((key) => `${key}: ${rule[key]}`),
    ...(rule.qos > 0 ? [`qos ≥ ${rule.qos}`] : []),
    ...(rule.when !== null ? [rule.when] : []),
  ];
}

export interface Together {
  rules: Rule[];
  /** Whether all nodes go by the same ones. */
  same: boolean;
}

/** Of all nodes, with what they did there added up; where nodes differ, those of the first one alone. */
export function together(nodes: Rules[]): Together {
  const [first, ...others] = nodes;
  if (!first) return { rules: [], same: true };
  const written = (one: Rules) => asJson(one.items.map(entryOf));
  if (others.some((one) => written(one) !== written(first))) return { rules: first.items, same: false };
  const sum = (at: number, of: "matched" | "sent") => nodes.reduce((all, one) => all + (one.items[at]?.[of] ?? 0), 0);
  return {
    rules: first.items.map((rule, at) => ({ ...rule, matched: sum(at, "matched"), sent: sum(at, "sent") })),
    same: true,
  };
}

/** One rule a line: a list as JSON that people can read and change. */
export function written(rules: Rule[]): string {
  if (rules.length === 0) return "[]";
  return `[\n${rules.map((rule) => `  ${asJson(entryOf(rule))}`).join(",\n")}\n]`;
}

/** What was written; an error says where it is no list. */
export function readRules(text: string): Record<string, unknown>[] {
  const value = readJson(text);
  const isObject = (one: unknown) => typeof one === "object" && one !== null && !Array.isArray(one);
  if (!Array.isArray(value) || !value.every(isObject)) throw new Error("[{…}, …]");
  return value as Record<string, unknown>[];
}
