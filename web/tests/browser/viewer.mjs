// What a role may not do is not offered; names of others are text.
import assert from "node:assert/strict";
import { XSS } from "./kit.mjs";
import { press } from "./rights.mjs";

const HIDDEN = ["Users", "Rules", "Limits", "Bans", "Admins", "Tokens", "Listeners", "Configuration", "Audit"];

/** Where a name that would be a script stands as a text. */
const NAMED = [
  ["#/users", ".body a"],
  [`#/users/${encodeURIComponent(XSS)}`, "h1 .of"],
  ["#/rules", ".rules-text li"],
  ["#/limits", ".facts .mono"],
  ["#/bans", ".body [role=cell]"],
  ["#/tokens", ".body [role=cell]"],
  ["#/audit", ".body [role=cell]"],
];

export async function namesOfRightsAreText({ page, open }) {
  for (const [address, where] of NAMED) {
    await open(address);
    await page.locator(where, { hasText: XSS }).first().waitFor();
    assert.equal(await page.locator("img").count(), 0, address);
  }
}

export async function logInAs(page, { name, password }) {
  await press(page, "Log out");
  await page.locator("input[name=name]").fill(name);
  await page.locator("input[name=password]").fill(password);
  await page.click("button[type=submit]");
  await page.locator("nav a", { hasText: "Overview" }).waitFor();
}

/** Who acts on clients bans and asks, sees limits and the configuration, and is not offered to change these. */
export async function operatorIsOfferedHis({ page, open, operator }) {
  await logInAs(page, operator);
  const menu = await page.locator("nav a").allTextContents();
  for (const there of ["Rules", "Limits", "Bans", "Listeners", "Configuration"]) assert.ok(menu.includes(there), there);
  for (const hidden of ["Users", "Admins", "Tokens", "Audit"]) assert.ok(!menu.includes(hidden), hidden);
  await open("#/bans", "[role=table] .body [role=row]");
  await page.locator("main").getByRole("button", { name: "Lift" }).waitFor();
  await open("#/limits", ".panel:nth-child(2) .facts");
  const buttons = async () => (await page.locator("main button").allTextContents()).filter((one) => one !== "Ask");
  assert.deepEqual(await buttons(), []);
  await open("#/rules", ".panel");
  assert.deepEqual(await buttons(), []);
  await open("#/listeners", "[role=table] .body [role=row]");
  assert.deepEqual(await buttons(), []);
  await open("#/configuration/log.level", ".facts");
  assert.deepEqual(await buttons(), []);
}

/** Who only looks sees the cluster and alarms, no button that changes anything, and none of the pages that he may not ask. */
export async function viewerIsOfferedNothing({ page, open, viewer, faults }) {
  await logInAs(page, viewer);
  const menu = await page.locator("nav a").allTextContents();
  assert.ok(menu.includes("Cluster") && menu.includes("Alarms"), menu.join());
  assert.deepEqual(
    menu.filter((one) => HIDDEN.includes(one)),
    [],
  );
  await open("#/cluster", "table.nodes tbody tr");
  assert.equal(await page.locator("main button").count(), 0);
  await page.locator("table.nodes a").first().click();
  await page.locator(".facts").first().waitFor();
  assert.equal(await page.locator("main button").count(), 0);
  for (const hidden of HIDDEN) {
    await open(`#/${hidden.toLowerCase()}`);
    await page
      .getByText(/^This page is for the role “(operator|admin)” and those above it\. Yours is “viewer”\.$/)
      .waitFor();
  }
  await open("#/devices/press%2F1");
  await page.getByText("Values are for operators.").waitFor();
  await page.locator("td", { hasText: "mode" }).waitFor();
  // Nothing but what is desired of it is known, and the browser says so, too.
  assert.ok(
    faults.every((one) => one.includes("404")),
    faults.join(),
  );
  faults.length = 0;
  await open("#/nowhere");
  await page.getByRole("heading", { name: "There is no such page" }).waitFor();
}
