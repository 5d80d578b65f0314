// How a long list feels: scrolled as far as it goes, scrolled over again once all of it is there, and filtered.
//
// Figures of a machine that does other things are noisy: frames and long tasks are what somebody sees, `work` is the
// milliseconds of the page's thread for a frame, which depends least on what else runs. Pages asked for and given up do not
// depend on it at all.
import assert from "node:assert/strict";

/** Milliseconds between two frames that somebody sees as a stutter; a task that long is one to the browser, too. */
const STUTTER = 50;
/** Within which all rows must have come. */
const MOST_FRAMES = 10_000;

/**
 * Measures the list at an address. `rows`: how many there are at least; it is scrolled until they are there.
 * Then it is scrolled for so many `frames`, and filtered: [name of the field, what is typed, what a row then has].
 */
export async function felt(ui, address, rows, [field, typed, found], frames = 600) {
  const { page, open } = ui;
  const asked = { pages: new Set(), calls: 0, given_up: 0 };
  const list = (request) => request.url().includes("limit=") && request.url().includes("/api/v1/");
  const begun = (request) => {
    if (!list(request)) return;
    asked.calls += 1;
    asked.pages.add(request.url());
  };
  const failed = (request) => {
    if (list(request)) asked.given_up += 1;
  };
  page.on("request", begun);
  page.on("requestfailed", failed);
  const debug = await page.context().newCDPSession(page);
  await debug.send("Performance.enable");
  const busy = async () =>
    (await debug.send("Performance.getMetrics")).metrics.find((one) => one.name === "TaskDuration").value;
  const measured = async (script, settings) => {
    const before = await busy();
    const figures = await page.evaluate(script, { ...settings, stutter: STUTTER });
    return { ...figures, work: (1000 * ((await busy()) - before)) / figures.frames };
  };
  await open(address, "[role=table] .body [role=row]");
  const down = await measured(scrolled, { rows, most: MOST_FRAMES });
  Object.assign(down, { pages: asked.pages.size, calls: asked.calls, given_up: asked.given_up });
  assert.ok(down.rows >= rows, `${down.rows} of ${rows} rows came`);
  const over = await measured(scrolled, { rows: null, most: frames });
  const drawn = await page.locator(".body [role=row]").count();
  await page.evaluate(watchTasks);
  await page.locator(`.filters input[name=${field}]`).pressSequentially(typed);
  const began = performance.now();
  await page.locator(".body [role=row]", { hasText: found }).first().waitFor();
  const filtered = { after: performance.now() - began, ...(await page.evaluate(longTasks)) };
  page.off("request", begun);
  page.off("requestfailed", failed);
  await debug.detach();
  return { down, over, drawn, filtered };
}

/**
 * In the page: down to the end of what is known, again and again until so many rows are; where there is no end to wait
 * for, half a screen further with each frame, and from the end back to the top.
 */
async function scrolled({ rows, most, stutter }) {
  const box = document.querySelector(".scroll");
  const known = () => Math.round(document.querySelector(".scroll .body").clientHeight / 34);
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const began = performance.now();
  const took = [];
  box.scrollTop = 0;
  let last = await frame();
  while (took.length < most && known() < (rows ?? Number.POSITIVE_INFINITY)) {
    const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 1;
    if (rows !== null) box.scrollTop = box.scrollHeight;
    else box.scrollTop = atEnd ? 0 : box.scrollTop + box.clientHeight / 2;
    const now = await frame();
    took.push(now - last);
    last = now;
  }
  took.sort((one, other) => one - other);
  const at = (share) => took[Math.min(took.length - 1, Math.floor(took.length * share))];
  const seconds = (performance.now() - began) / 1000;
  const slow = took.filter((one) => one > stutter).length;
  return { rows: known(), seconds, frames: took.length, p50: at(0.5), p99: at(0.99), longest: at(1), slow };
}

function watchTasks() {
  globalThis.longTasks = [];
  globalThis.taskWatch = new PerformanceObserver((list) => globalThis.longTasks.push(...list.getEntries()));
  globalThis.taskWatch.observe({ type: "longtask" });
}

function longTasks() {
  const found = [...globalThis.longTasks, ...globalThis.taskWatch.takeRecords()].map((one) => one.duration);
  globalThis.taskWatch.disconnect();
  return { long_tasks: found.length, longest: Math.max(0, ...found) };
}
