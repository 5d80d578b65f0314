// A vendor's plugin: taken in, checked, enabled, its frames watched, another version, and back.
//
// `ui` has `codec`, `wheels: [{path, sha256, version}, …]`, and on several nodes `at`: the one that is looked at.
import assert from "node:assert/strict";
import { dialog, press, submit } from "./rights.mjs";

/** The page of the plugin, at the node that is looked at. */
export async function openPlugin({ open, codec, at }) {
  await open(`#/plugins/${codec}${at ? `?node=${encodeURIComponent(at)}` : ""}`, ".facts");
}

export async function takenIn(ui, { path, sha256 }) {
  const { page, open, codec } = ui;
  await open("#/plugins", ".wide-table tbody tr");
  await press(page, "Take in a wheel");
  await dialog(page).locator("[name=wheel]").setInputFiles(path);
  await dialog(page).locator("[name=sha256]").fill(sha256);
  await dialog(page).getByText(sha256, { exact: true }).waitFor();
  await submit(page);
  await page.locator("h1 .of", { hasText: codec }).waitFor();
  if (ui.at) await openPlugin(ui);
}

/** A wheel with another hash than the vendor's is not taken; with it, it is there, and nothing of it runs. */
export async function wheelIsTakenIn(ui) {
  const { page, open, wheels } = ui;
  await open("#/plugins", ".wide-table tbody tr");
  await press(page, "Take in a wheel");
  await dialog(page).locator("[name=wheel]").setInputFiles(wheels[0].path);
  await dialog(page).locator("[name=sha256]").fill("0".repeat(64));
  await dialog(page).locator("button[type=submit]").click();
  await dialog(page).getByRole("alert").getByText(`has the hash ${wheels[0].sha256}`).first().waitFor();
  // Chromium tells its console of every call that is refused; this one is.
  ui.faults.splice(0, ui.faults.length, ...ui.faults.filter((one) => !one.includes("409")));
  await page.locator("dialog[open]").getByRole("button", { name: "Cancel", exact: true }).click();
  await takenIn(ui, wheels[0]);
  await page.locator(".standing", { hasText: "has arrived" }).waitFor();
}

/** A codec whose name is markup is not taken in, and why is said in words. */
export async function nameOfMarkupIsRefused(ui) {
  const { page, open, misnamed } = ui;
  await open("#/plugins", ".wide-table tbody tr");
  await press(page, "Take in a wheel");
  await dialog(page).locator("[name=wheel]").setInputFiles(misnamed.path);
  await dialog(page).locator("[name=sha256]").fill(misnamed.sha256);
  await dialog(page).locator("button[type=submit]").click();
  await dialog(page).getByRole("alert").getByText(misnamed.name).waitFor();
  await dialog(page).getByRole("alert").getByText("letters, digits").waitFor();
  assert.equal(await page.locator("img, main script, dialog script").count(), 0);
  ui.faults.splice(0, ui.faults.length, ...ui.faults.filter((one) => !one.includes("409")));
  await page.locator("dialog[open]").getByRole("button", { name: "Cancel", exact: true }).click();
}

/** The codec kit's card, line by line. */
export async function reportIsSeen({ page }) {
  await press(page, "Check the version that came last");
  await page.locator(".report tbody tr").first().waitFor({ timeout: 120_000 });
  await page.locator(".standing", { hasText: "1.0.0" }).getByText("passes").waitFor();
  assert.ok((await page.locator(".report tbody tr").count()) > 10);
}

export async function enabled({ page }) {
  await press(page, "Enable");
  await submit(page);
  await page.locator(".standing", { hasText: "ready" }).waitFor();
}

/** Bytes in hex beside the reading that the codec made of them. */
export async function framesAreWatched({ page }) {
  await press(page, "Watch");
  const rows = page.locator(".frames tbody tr");
  const weight = Buffer.from("S 01 +0012.345 kg ST").toString("hex").replace(/../g, "$& ").trim();
  await rows.filter({ hasText: weight }).first().waitFor();
  await rows.filter({ hasText: '"weight":12.345' }).first().waitFor();
  await press(page, "Stop");
  await page.getByRole("button", { name: "Watch", exact: true }).waitFor();
}

/** Another version takes the new connections, and the one before takes them again. */
export async function reloadedAndRolledBack(ui) {
  const { page, wheels } = ui;
  await takenIn(ui, wheels[1]);
  await press(page, "Reload");
  await submit(page);
  const current = (version) =>
    page.locator(".plain-list li", { hasText: version }).getByText("current", { exact: true }).waitFor();
  await current("1.1.0");
  await press(page, "Roll back");
  await submit(page);
  await current("1.0.0");
}
