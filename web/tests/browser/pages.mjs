// Drives a real Chromium over the pages of a running node; tests/system/test_dashboard.py starts both.
//
//   node pages.mjs '{"base": …, "name": …, "password": …, "client": …, "chromium": …, "shots": …}'
//
// Waits for conditions, never for times. Ends with 1 and words where something is not as it should be.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

const { base, name, password, client, chromium: program, shots } = JSON.parse(process.argv[2]);
const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const XSS = "<img src=x onerror=alert(1)>";
/** Each is opened, held against axe, and photographed: where, and what is there when it has been drawn. */
const PAGES = [
  ["overview", "#/", ".tiles .tile"],
  ["clients", "#/clients", "[role=table] .body [role=row]"],
  ["subscriptions", "#/subscriptions", ".list .count"],
  ["retained", "#/retained", ".list .count"],
  ["client", `#/clients/${encodeURIComponent(client)}`, ".findings li"],
];
const PATIENCE = 30_000;
mkdirSync(shots, { recursive: true });

const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-gpu"] });
const context = await browser.newContext({ locale: "en-GB", colorScheme: "light", bypassCSP: false });
context.setDefaultTimeout(PATIENCE);
const page = await context.newPage();
const faults = [];
page.on("console", (line) => line.type() === "error" && faults.push(`console: ${line.text()}`));
page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
page.on("dialog", (dialog) => {
  faults.push(`dialog: ${dialog.message()}`);
  return dialog.dismiss();
});
page.on("request", (one) => one.url().startsWith(base) || faults.push(`asked elsewhere: ${one.url()}`));

async function shot(title) {
  await page.screenshot({ path: join(shots, `${title}.png`) });
}

async function accessible(title) {
  // By the debugger, not by the page: its policy lets in no script of others.
  const { readFileSync } = await import("node:fs");
  await page.evaluate(readFileSync(AXE, "utf-8"));
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const serious = violations.filter((one) => one.impact === "serious" || one.impact === "critical");
  const words = serious.map((one) => `${title}: ${one.id}: ${one.nodes.map((node) => node.html).join(" | ")}`);
  assert.deepEqual(words, []);
}

async function logIn() {
  await page.goto(base);
  await page.locator("input[name=name]").waitFor();
  await shot("login");
  await accessible("login");
  await page.fill("input[name=name]", name);
  await page.fill("input[name=password]", password);
  await page.click("button[type=submit]");
  await page.locator(".tiles .tile").first().waitFor();
}

/** `/`, a part of an id, Enter. */
async function findByPart(part) {
  await page.locator("h1").first().waitFor();
  await page.keyboard.press("/");
  await page.locator("dialog.palette input").fill(part);
  await page.locator("#found [role=option]", { hasText: client }).waitFor();
  await page.keyboard.press("Enter");
  await page.locator("h1 .of", { hasText: client }).waitFor();
}

/** Why it gets nothing, in words and in the picture; then its connection is closed, and that is seen. */
async function whyAndDisconnect() {
  await page.locator(".findings li").first().waitFor();
  await page.locator(".way li.here", { hasText: "Subscription" }).waitFor();
  await page.getByRole("button", { name: "Disconnect" }).click();
  await page.locator("dialog[open] button[type=submit]").click();
  await page.getByText("It is not connected.").waitFor();
}

async function namesAreText() {
  await page.goto(`${base}/#/clients?contains=onerror`);
  const link = page.locator("[role=table] .body a", { hasText: XSS });
  await link.click();
  await page.locator("h1 .of", { hasText: XSS }).waitFor();
  assert.equal(await page.locator("img").count(), 0);
}

async function photographed() {
  for (const [title, address, there] of PAGES) {
    await page.goto(`${base}/${address}`);
    await page.locator(there).first().waitFor();
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await accessible(`${title}, ${colorScheme}`);
      await shot(`${title}-${colorScheme}`);
    }
    await page.emulateMedia({ colorScheme: "light" });
    await page.setViewportSize({ width: 390, height: 844 });
    const wider = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    assert.equal(wider, false, `${title} is wider than a phone`);
    await shot(`${title}-phone`);
    await page.setViewportSize({ width: 1280, height: 800 });
  }
}

let status = 0;
try {
  await logIn();
  await findByPart(client.slice(2, -2));
  await whyAndDisconnect();
  await namesAreText();
  await photographed();
  assert.deepEqual(faults, []);
  console.log("ok");
} catch (error) {
  await shot("failed").catch(() => {});
  console.error(error, faults);
  status = 1;
} finally {
  await browser.close();
}
process.exit(status);
