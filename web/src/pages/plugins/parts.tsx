/** What the list of plugins and the page of one share. */
import type { Plugin } from "../../core/types";
import type { Level } from "../../ui/icons";

const LEVELS: Record<string, Level> = { ready: "ok", disabled: "none", starting: "warn", restarting: "warn" };

export function levelOf(one: Plugin): Level {
  return LEVELS[one.state] ?? "bad";
}

export function faultsOf(one: Plugin): number {
  return Object.values(one.faults).reduce((all, count) => all + count, 0);
}
