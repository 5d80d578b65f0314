// What goes up: the rules, a dry run of other ones on what has just come, the rules read anew.
import assert from "node:assert/strict";
import { XSS } from "./kit.mjs";

/** A rule that is not in force is tried on live traffic; what would be different is seen, names are text. */
export async function ruleIsTried({ page, open, faults }) {
  await open("#/uplink", ".tiles .tile");
  await page.getByRole("heading", { name: "Rules in force" }).waitFor();
  await page.locator("table td.mono", { hasText: "iot.readings" }).first().waitFor();
  const rules = page.locator("textarea[name=rules]");
  // What is in force is what one begins with.
  assert.ok(JSON.parse(await rules.inputValue()).some((one) => one.filter === "up/#"));
  // Of a gateway more may have come since than is tried by itself.
  await page.locator("form.form select").first().selectOption("50000");
  const attempt = page.getByRole("button", { name: "Try", exact: true });
  await rules.fill("- filter: up/#");
  await attempt.click();
  await page.getByText("This is no list of rules in JSON.").waitFor();
  await rules.fill('[{"filter": "up/#", "when": "values.t >"}]');
  await attempt.click();
  await page.locator(".note.bad", { hasText: "entry 1: when" }).waitFor();
  // The browser writes each refusal to its console, whatever the page makes of it.
  const refusals = faults.splice(0).filter((one) => !one.includes("status of 409"));
  assert.deepEqual(refusals, []);
  await rules.fill('[{"filter": "up/hall-9/#", "to": "iot.hall"}, {"filter": "up/#", "mode": "only"}]');
  await attempt.click();
  const outcome = page.locator(".trial");
  await outcome.locator("tr", { hasText: "iot.readings" }).locator("td", { hasText: "iot.hall" }).first().waitFor();
  await outcome.getByText(XSS).first().waitFor();
  assert.equal(await page.locator("img").count(), 0);
}

/** Rules that are the same change nothing, and that is said. */
export async function rulesAreReloaded({ page }) {
  await page.getByRole("button", { name: "Reload rules" }).click();
  await page.locator("dialog[open] button[type=submit]").click();
  await page.getByText("The rules are the same as before.").waitFor();
}
