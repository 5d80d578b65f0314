// A node that hangs: an open page says that what it shows is old, and goes on when the node does.
//
//   node silence.mjs '{"base": …, "name": …, "password": …, "chromium": …, "shots": …, "pid": …}'
import assert from "node:assert/strict";
import { logIn } from "./login.mjs";
import { run } from "./run.mjs";

const settings = JSON.parse(process.argv[2]);
const SECOND = 1000;

/** Said within seconds, on pages that ask often and on those that ask once; and nothing is said to be well meanwhile. */
async function hungNodeIsNoticed({ page, open, pid }) {
  const note = page.locator("main > .note.bad", { hasText: "The node does not answer." });
  for (const [address, there] of [
    ["#/", ".calm"],
    ["#/clients", ".list .count"],
    ["#/mqtt", "select"],
  ]) {
    await open(address, there);
    await page.waitForTimeout(3 * SECOND);
    assert.equal(await note.count(), 0);
    process.kill(pid, "SIGSTOP");
    try {
      await note.waitFor({ timeout: 9 * SECOND });
      assert.match(await note.textContent(), /What is shown here is of \d/);
      assert.equal(await page.locator(".calm").count(), 0);
    } finally {
      process.kill(pid, "SIGCONT");
    }
    await note.waitFor({ state: "detached", timeout: 9 * SECOND });
    await page.locator(there).first().waitFor();
  }
}

await run(settings, [logIn, hungNodeIsNoticed], []);
