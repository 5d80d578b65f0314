/** The node's time. A browser's clock may be an hour fast: what pages count from is what answers say in `Date`. */

/** What `Date` leaves out: it has whole seconds. */
const SECOND = 1000;
/** Milliseconds by which the node's clock is before the browser's. */
let ahead = 0;

/** Seconds since 1970, as the node has it. */
export function now(): number {
  return (Date.now() + ahead) / 1000;
}

/** The browser's time, to measure how long an answer takes. */
export function asked(): number {
  return Date.now();
}

/**
 * What an answer says: its `Date` was made after it was asked for, at `since`, and before now. The offset is changed by
 * no more than these two ask for, so that times do not tremble with each answer, and a clock that is right stays so.
 */
export function compare(date: string | null, since: number): void {
  const at = Date.parse(date ?? "");
  if (Number.isNaN(at)) return;
  ahead = Math.max(at - Date.now(), Math.min(at + SECOND - since, ahead));
}
