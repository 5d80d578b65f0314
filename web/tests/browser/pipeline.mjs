// The jobs behind the uplink; tests/system/test_pipeline.py has run Spark before.
//
//   node pipeline.mjs '{"base": …, "name": …, "password": …, "chromium": …, "shots": …, "reasons": {reason: count}, "device": …,
//                       "operator": {name, password}, "evil": a name that would be a script, "alarms": how many}'
import assert from "node:assert/strict";
import { logIn } from "./login.mjs";
import { run } from "./run.mjs";
import { logInAs } from "./viewer.mjs";

const settings = JSON.parse(process.argv[2]);

/** The job has ended well; its dead letters are there by reason, its duplicates by device. */
async function jobHasItsFigures({ page, open, reasons, device }) {
  await open("#/pipeline", ".jobs .panel");
  const job = page.locator(".jobs .panel", { hasText: "clean" });
  await job.getByText("stopped", { exact: true }).waitFor();
  for (const [reason, count] of Object.entries(reasons)) {
    const line = job.locator(".counts li", { hasText: reason });
    await line.waitFor();
    assert.equal(await line.locator(".end").textContent(), String(count));
  }
  await job.locator(".counts li", { hasText: device }).waitFor();
}

/** Whoever may look only is offered neither a dry run nor a reload. */
async function viewerOnlyLooks({ page, open }) {
  await open("#/uplink", "table td.mono");
  await page.getByRole("heading", { name: "Rules in force" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Reload rules" }).count(), 0);
  assert.equal(await page.locator("textarea").count(), 0);
  await open("#/pipeline", ".jobs .panel");
  assert.equal(await page.getByRole("region", { name: "Rows of the tables" }).count(), 0);
}

const ROW = "[role=table] .body [role=row]";

/** Single alarms: when, of which device, by which rule; narrowed, and those that go on. */
async function alarmsAreRows({ page, open, shot, operator, evil, alarms }) {
  await logInAs(page, operator);
  await open("#/pipeline", ROW);
  assert.equal(await page.locator(ROW).count(), alarms);
  const newest = page.locator(ROW).first();
  for (const words of [evil, "too hot", "critical", "91"])
    await newest.getByText(words, { exact: false }).first().waitFor();
  await newest.scrollIntoViewIfNeeded();
  await shot("pipeline-alarms");
  await page.getByLabel("State").selectOption("false");
  await page.locator(ROW).first().getByText("after 30 s").waitFor();
  await page.getByLabel("State").selectOption("");
  await page.locator(".filters input[name=contains]").fill("PRESS-2/");
  await page.getByText("No alarm is in the tables").waitFor();
}

/** Single dead letters with the beginning of what was published, as a text. */
async function deadLettersAreRows({ page, shot, reasons, evil }) {
  await page.getByRole("button", { name: "Dead letters", exact: true }).click();
  for (const reason of Object.keys(reasons)) await page.locator(ROW, { hasText: reason }).first().waitFor();
  await page.locator(ROW, { hasText: evil }).first().waitFor();
  assert.equal(await page.locator("img").count(), 0);
  await shot("pipeline-rows");
  await page.locator(".filters input[name=contains]").fill("TIME zone");
  await page.waitForFunction((row) => document.querySelectorAll(row).length === 1, ROW);
  await page.locator(ROW, { hasText: "ts has no time zone" }).getByText("press-9").waitFor();
}

const PAGES = [
  ["uplink-jobs", "#/uplink", "table td.mono"],
  ["pipeline-letters", "#/pipeline?show=letters", ROW],
  // Another query of the same page stays where one has scrolled to.
  ["overview-jobs", "#/", ".tiles .tile"],
  ["pipeline", "#/pipeline", ROW],
];

await run(settings, [logIn, jobHasItsFigures, viewerOnlyLooks, alarmsAreRows, deadLettersAreRows], PAGES);
