// The cluster's page, and alarms.
import assert from "node:assert/strict";
import { copyFileSync } from "node:fs";
import { press, submit } from "./rights.mjs";

/** A node is found by `/`, sends its clients away, and lets them in again; nothing is unexplained. */
export async function drainAndResume({ page, open, node }) {
  await open("#/cluster", "table.nodes tbody tr");
  await page.getByText("Unexplained").first().waitFor();
  await page.locator("h1").first().click();
  await page.keyboard.press("/");
  await page.locator("dialog.palette input").fill(node);
  await page.locator("#found [role=option]", { has: page.getByText(node, { exact: true }) }).click();
  await page.locator("h1 .of", { hasText: node }).waitFor();
  await page.locator(".facts").first().waitFor();
  await press(page, "Drain");
  await submit(page);
  const moving = page.getByRole("region", { name: "Clients on their way" });
  await moving.locator("progress").waitFor();
  await moving.getByText("Newcomers are refused").waitFor();
  await press(page, "Let in again");
  await submit(page);
  await moving.waitFor({ state: "detached" });
  await page.getByText("serving", { exact: true }).first().waitFor();
  await open("#/cluster", "table.nodes tbody tr");
  await page.locator(".facts .badge.ok", { hasText: /^0$/ }).waitFor();
}

/** A certificate that ends soon is an alarm with what helps; with new files it is over, and stays with its times. */
export async function alarmBeginsAndEnds({ page, open, shot, accessible, renewal }) {
  await open("#/alarms", ".findings li");
  const alarm = page.locator(".findings li");
  assert.equal(await alarm.count(), 1);
  await alarm.getByText("Helps: put new files in place of the old ones").waitFor();
  await shot("alarm");
  await accessible("alarm");
  for (const [fresh, old] of renewal) copyFileSync(fresh, old);
  await page.locator(".calm").waitFor();
  await page.locator("table.past tbody tr", { hasText: "certificate" }).waitFor();
}
