// The configuration and the ports of a running node, changed on their pages; and the log that says who did it.
import assert from "node:assert/strict";
import { dialog, press, submit } from "./rights.mjs";

const KEY = "mqtt.max_queued_messages";

/** Changed at once, with the hint that belongs to it; it differs from its default, and the audit log has it. */
export async function settingInDiffAndAudit({ page, open, name }) {
  await open(`#/configuration/${KEY}`, ".facts");
  await press(page, "Change");
  await dialog(page).locator("[name=value]").fill("777");
  await submit(page);
  await page.locator(".note", { hasText: "777" }).getByText("log.retention").waitFor();
  await open("#/configuration?contains=max_queued_m", "table.configuration tbody tr");
  const line = page.locator("table.configuration tbody tr", { hasText: KEY });
  await line.getByText("777", { exact: true }).waitFor();
  await line.getByText("changed here").waitFor();

  await open(`#/audit?contains=${KEY}`, "[role=table] .body [role=row]");
  const record = page.locator("[role=table] .body [role=row]").first();
  await record.getByText(name, { exact: true }).waitFor();
  await record.getByText("777").waitFor();
  await press(page, "Verify the chain");
  await page.getByText("whole", { exact: true }).waitFor();
  const head = await page.locator(".plain-list .dim").first().textContent();
  await page.locator("form.inline input").fill("00");
  await press(page, "Verify the chain");
  await page.getByText("no record has the hash 00").waitFor();
  await page.locator("form.inline input").fill(head);
  await press(page, "Verify the chain");
  await page.getByText("whole", { exact: true }).waitFor();

  await open(`#/configuration/${KEY}`, ".facts");
  await press(page, "Take back");
  await submit(page);
  await page.locator(".note", { hasText: "777 →" }).waitFor();
}

/** It takes connections at once; closed, it is gone. */
export async function listenerOpenedAndClosed({ page, open }) {
  await open("#/listeners", "[role=table] .body [role=row]");
  await press(page, "Open a listener");
  await dialog(page).locator("[name=name]").fill("extra");
  await dialog(page).locator("[name=port]").fill("0");
  await submit(page);
  const row = page.locator("[role=table] .body [role=row]", { hasText: "extra" });
  await row.getByText("open", { exact: true }).waitFor();
  const where = await row.locator(".mono", { hasText: "127.0.0.1:" }).textContent();
  const { connect } = await import("node:net");
  const reached = () =>
    new Promise((found) => {
      const socket = connect(Number(where.split(":")[1]), "127.0.0.1");
      socket.on("connect", () => found(true)).on("error", () => found(false));
      socket.on("connect", () => socket.destroy());
    });
  assert.ok(await reached(), where);
  await row.getByRole("button", { name: "Close" }).click();
  await submit(page);
  await row.getByText("open", { exact: true }).waitFor({ state: "detached" });
  assert.ok(!(await reached()), where);
}
