/** Keys of several nodes beside each other. */
import { asJson, readJson } from "../../core/json";
import type { Key } from "./types";

/** What stands where a secret is. */
export const MASK = "******";

export interface Row {
  key: string;
  live: boolean;
  /** Of each node, in the order of their names. */
  of: Key[];
  /** Some node goes by something else than the default, or another than the others. */
  changed: boolean;
  differs: boolean;
  restart: boolean;
}

const same = (one: unknown, other: unknown) => asJson(one) === asJson(other);

export function rowsOf(keys: Key[]): Row[] {
  const found = new Map<string, Key[]>();
  for (const key of keys) found.set(key.key, [...(found.get(key.key) ?? []), key]);
  const nodes = new Set(keys.map((one) => one.node)).size;
  return [...found].map(([key, of]) => ({
    key,
    of,
    live: of.every((one) => one.live),
    changed: of.some((one) => !same(one.value, one.default)),
    differs: of.length < nodes || of.some((one) => !same(one.value, of[0]?.value)),
    restart: of.some((one) => one.restart),
  }));
}

export const VIEWS = ["changed", "differs", "restart", "live", "all"] as const;
export type View = (typeof VIEWS)[number];

export function shownRows(rows: Row[], view: View, contains: string): Row[] {
  const part = contains.toLocaleLowerCase();
  return rows.filter(
    (row) =>
      (view === "all" || row[view]) &&
      (row.key.includes(part) || row.of.some((one) => text(one.value).toLocaleLowerCase().includes(part))),
  );
}

/** A value as a file of the configuration would have it. */
export function text(value: unknown): string {
  return typeof value === "string" ? value : value === undefined ? "" : asJson(value);
}

/** What was typed: JSON where it is, else a text. */
export function typed(input: string): unknown {
  try {
    return readJson(input);
  } catch {
    return input;
  }
}
