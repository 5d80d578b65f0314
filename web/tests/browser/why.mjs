// Why clients get nothing, as the page of each says it; tests/system/test_why_faults.py has seeded the faults.
//
//   node why.mjs '{"base": …, "name": …, "password": …, "chromium": …, "shots": …, "faults": [{client, code, words, topic}]}'
import assert from "node:assert/strict";
import { opened } from "./kit.mjs";
import { logIn } from "./login.mjs";

const settings = JSON.parse(process.argv[2]);
const { faults } = settings;
const ui = await opened(settings);

async function said({ client, code, words, topic }) {
  await ui.open(`#/clients/${encodeURIComponent(client)}`, ".findings li");
  if (topic) {
    await ui.page.locator("form.inline input").fill(topic);
    await ui.page.locator("form.inline button[type=submit]").click();
  }
  const finding = ui.page.locator(".findings li", { hasText: code });
  await finding.first().waitFor();
  const text = (await finding.allTextContents()).join("\n");
  for (const word of words) assert.ok(text.includes(word), `${client}: ${word} is not in ${text}`);
  await ui.page.locator(".way li.here").first().waitFor();
}

let status = 0;
let at = "";
try {
  await logIn(ui);
  for (const fault of faults) {
    at = fault.client;
    await said(fault);
  }
  await ui.shot("why");
  assert.deepEqual(ui.faults, []);
  console.log("ok");
} catch (error) {
  await ui.shot("failed-why").catch(() => {});
  console.error(at, error, ui.faults);
  status = 1;
} finally {
  await ui.close();
}
process.exit(status);
