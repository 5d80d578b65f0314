// The jobs behind the uplink; tests/system/test_pipeline.py has run Spark before.
//
//   node pipeline.mjs '{"base": …, "name": …, "password": …, "chromium": …, "shots": …, "reasons": {reason: count}, "device": …}'
import assert from "node:assert/strict";
import { logIn } from "./login.mjs";
import { run } from "./run.mjs";

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
}

await run(settings, [logIn, jobHasItsFigures, viewerOnlyLooks], [["pipeline", "#/pipeline", ".jobs .counts li"]]);
