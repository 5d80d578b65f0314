// The browser that the journeys share: opened, watched for what must not happen, photographed, held against axe.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf-8");
const PATIENCE = 30_000;
/** A name that would be a script where names are not text. */
export const XSS = "<img src=x onerror=alert(1)>";
/** The same as a gateway's. */
export const XSS_GATEWAY = "<img src=y onerror=alert(2)>";

/** Opens Chromium; what a journey gets: the page, what the test said, and a few steps that all need. */
export async function opened(settings) {
  const { base, shots } = settings;
  mkdirSync(shots, { recursive: true });
  const browser = await chromium.launch({
    executablePath: settings.chromium,
    args: ["--no-sandbox", "--disable-gpu"],
  });
  const context = await browser.newContext({ locale: "en-GB", colorScheme: "light", bypassCSP: false });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const faults = [];
  watch(page, base, faults);
  const ui = {
    ...settings,
    page,
    faults,
    /** Goes to an address, and waits for what is there when it has been drawn. */
    async open(address, there = "h1") {
      await page.goto(`${base}/${address}`);
      await page.locator(there).first().waitFor();
    },
    shot: (title) => page.screenshot({ path: join(shots, `${title}.png`) }),
    accessible: (title, rules) => accessible(page, title, rules),
    close: () => browser.close(),
  };
  return ui;
}

/** Errors, dialogs, and requests to anybody but the node are faults of the whole run. */
function watch(page, base, faults) {
  page.on("console", (line) => line.type() === "error" && faults.push(`console: ${line.text()}`));
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    return dialog.dismiss();
  });
  const own = [base, base.replace(/^http/, "ws"), "blob:", "data:"];
  page.on("request", (one) => own.some((start) => one.url().startsWith(start)) || faults.push(`asked: ${one.url()}`));
}

/** Less than serious for axe, and yet held: whoever goes from landmark to landmark hears which one it is. */
const HELD = ["landmark-unique"];

/** Nothing serious against axe's rules; `rules`: against these alone. */
async function accessible(page, title, rules) {
  // By the debugger, not by the page: its policy lets in no script of others.
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(AXE);
  const options = { resultTypes: ["violations"], ...(rules && { runOnly: rules }) };
  const { violations } = await page.evaluate((options) => globalThis.axe.run(options), options);
  const serious = violations.filter(
    (one) => one.impact === "serious" || one.impact === "critical" || HELD.includes(one.id),
  );
  const words = serious.map((one) => `${title}: ${one.id}: ${one.nodes.map((node) => node.html).join(" | ")}`);
  assert.deepEqual(words, []);
}
