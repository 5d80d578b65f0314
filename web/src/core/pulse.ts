/**
 * Whether the node is heard. One that hangs, and a network that is cut, say nothing, and a browser waits for minutes: a page
 * would show old figures as if they were true. Every answer and every event is a sign; in a second without any the page
 * asks for one.
 */
import { type ReadonlySignal, signal } from "@preact/signals";
import { now } from "./clock";

/** When the last sign came, by the node's clock, if that is too long ago; null while the node is heard. */
export const silent = signal<number | null>(null);
/** Grows when a node that was silent is heard. */
export const returns = signal(0);

const TICK = 1000;
/** Milliseconds without a sign: more than a slow network takes for a question that was asked after one of them. */
const SILENT = 5000;
/** Questions on their way: with one alone, signs would come no closer together than the network is slow. */
const MOST = 2;

/** By the page's own clock, which nobody sets. */
let last = 0;
let lastAt = 0;
let ticked = 0;
let asking = 0;

export function heard(): void {
  last = performance.now();
  lastAt = now();
  if (silent.value === null) return;
  silent.value = null;
  returns.value += 1;
}

/** Looks for signs while the page is seen, until what it gives is called. */
export function watch(visible: ReadonlySignal<boolean>): () => void {
  let timer: ReturnType<typeof setInterval> | undefined;
  const unwatch = visible.subscribe((seen) => {
    clearInterval(timer);
    if (!seen) return;
    ticked = last = performance.now();
    timer = setInterval(tick, TICK);
  });
  return () => {
    unwatch();
    clearInterval(timer);
  };
}

function tick(): void {
  const time = performance.now();
  // The page was held up, and what came meanwhile waits behind this: the node has its time once more.
  if (time - ticked > 2 * TICK) last = time;
  ticked = time;
  if (time - last >= SILENT && silent.value === null) silent.value = lastAt;
  if (time - last >= TICK && asking < MOST) void ask();
}

async function ask(): Promise<void> {
  asking += 1;
  try {
    const answer = await fetch("/health", {
      cache: "no-store",
      credentials: "omit",
      signal: AbortSignal.timeout(SILENT),
    });
    await answer.text();
    if (answer.ok) heard();
  } catch {
    // That is what is looked for.
  } finally {
    asking -= 1;
  }
}
