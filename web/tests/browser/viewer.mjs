// What a role may not do is not offered.
import assert from "node:assert/strict";
import { press } from "./rights.mjs";

const HIDDEN = ["Users", "Rules", "Limits", "Bans", "Admins", "Tokens", "Listeners", "Configuration", "Audit"];

/** Who only looks sees the cluster and alarms, no button that changes anything, and none of the pages that he may not ask. */
export async function viewerIsOfferedNothing({ page, open, viewer }) {
  await press(page, "Log out");
  await page.locator("input[name=name]").fill(viewer.name);
  await page.locator("input[name=password]").fill(viewer.password);
  await page.click("button[type=submit]");
  await page.locator("nav a", { hasText: "Overview" }).waitFor();
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
    await page.getByRole("heading", { name: "There is no such page" }).waitFor();
  }
}
