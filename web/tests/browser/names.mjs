// A name that would be a script is a text, wherever it comes from.
import assert from "node:assert/strict";
import { XSS, XSS_GATEWAY } from "./kit.mjs";

const own = encodeURIComponent(XSS);
const gateway = encodeURIComponent(XSS_GATEWAY);
const device = encodeURIComponent(`${XSS_GATEWAY}/${XSS}`);

/** As what, where, and where the name stands then, as a text and as all of it. */
const places = (command) => [
  ["client", "#/clients?contains=onerror", "[role=table] .body a"],
  ["user", "#/clients?contains=onerror", "[role=table] .body [role=cell]:not(:has(a))"],
  ["one client", `#/clients/${own}`, "h1 .of"],
  ["filter of a client", `#/clients/${own}`, ".plain-list .mono"],
  ["filter", `#/subscriptions?client=${own}`, ".body .mono"],
  ["topic", "#/retained", ".body .mono"],
  ["gateway", "#/devices", ".body a", XSS_GATEWAY],
  ["one gateway", `#/devices/${gateway}`, "h1 .of", XSS_GATEWAY],
  ["device", `#/devices/${gateway}`, ".body .child a"],
  ["tag and value", `#/devices/${device}`, "td .mono, td.mono"],
  ["command", `#/commands/${command}`, ".panels .said"],
  ["answer", `#/commands/${command}`, "[aria-live] .said"],
  ["answer in the list", "#/commands?state=failed", ".body [role=cell]"],
];

/** It is seen as it is written; nothing came of it: no picture, and no dialog (see kit.mjs). */
export async function namesAreText({ page, open, command }) {
  for (const [what, address, where, name = XSS] of places(command)) {
    await open(address);
    const found = page.locator(where, { hasText: name });
    await found
      .first()
      .waitFor()
      .catch((error) => assert.fail(`the name of a ${what} is not at ${address}: ${error.message}`));
    assert.equal(await page.locator("img").count(), 0, what);
  }
}

/** The search shows it, and goes there. */
export async function searchedNameIsText({ page, open }) {
  await open("#/");
  await page.keyboard.press("/");
  await page.locator("dialog.palette input").fill("onerror");
  await page.locator("#found [role=option]", { hasText: XSS }).first().waitFor();
  assert.equal(await page.locator("img").count(), 0);
  await page.keyboard.press("Enter");
  await page.locator("h1 .of", { hasText: "onerror" }).waitFor();
}

/** Clients that look like `press-7` where what nobody sees is not written out, and how they are shown. */
const LOOK_ALIKE = [
  ["\u202e7-sserp", "\\u202e7-sserp"],
  ["press\u200b-7", "press\\u200b-7"],
  ["pre\u00adss-7", "pre\\u00adss-7"],
];

/** In lists, titles and questions; their links go to the one that is meant. */
export async function namesAreLegible({ page, open }) {
  for (const [id, shown] of LOOK_ALIKE) {
    const found = page.locator(`[role=table] .body a[href="#/clients/${encodeURIComponent(id)}"]`);
    await open(`#/clients?contains=${encodeURIComponent(id)}`);
    await found.waitFor();
    assert.equal(await found.textContent(), shown);
    await found.click();
    await page.locator("h1 .of", { hasText: shown }).waitFor();
    assert.ok((await page.title()).startsWith(shown), await page.title());
    await page.getByRole("button", { name: "Ban", exact: true }).first().click();
    const named = page.locator("dialog[open] bdi");
    assert.equal(await named.textContent(), shown);
    assert.equal(await named.evaluate((one) => getComputedStyle(one).unicodeBidi), "isolate");
    await page.keyboard.press("Escape");
    const all = await page.evaluate(() => document.body.textContent);
    assert.doesNotMatch(all, /[\u00ad\u200b\u202e]/);
  }
}
