// Users, rules, limits, bans and tokens: made on their pages, and seen to count.
import assert from "node:assert/strict";
import mqtt from "mqtt";
import { XSS } from "./kit.mjs";

const BANNED = 0x8a;
export const dialog = (page) => page.locator("dialog[open]");
export const press = (page, name) => page.getByRole("button", { name, exact: true }).first().click();
/** What it asked for has been done. */
export async function submit(page) {
  await dialog(page).locator("button[type=submit]").click();
  await dialog(page).waitFor({ state: "detached" });
}
const row = (page, text) => page.locator("[role=table] .body [role=row]", { hasText: text });

/** A user of a group, rules for the group, and the question which of them decides; found by `/`, locked out, let in. */
export async function userRuleAndQuestion({ page, open }) {
  await open("#/users", "h1");
  await press(page, "Add a user");
  await dialog(page).locator("[name=name]").fill("ann");
  await dialog(page).locator("[name=password]").fill("of-ann-1234");
  await dialog(page).locator("[name=groups]").fill("crew");
  await dialog(page).locator("[name=client_ids]").fill("ann-*, tablet-?");
  await dialog(page).locator("[name=message_rate]").fill("50");
  await submit(page);
  await row(page, "ann").getByText("crew").waitFor();

  await open("#/rules", "h1");
  await press(page, "Add rules");
  await dialog(page).locator("[name=name]").fill("crew");
  await dialog(page).locator("[name=text]").fill("[group crew]\ndeny all hall/+/secret\nallow all hall/#\n");
  await submit(page);
  await page.locator(".rules-text li").nth(2).waitFor();
  const may = page.getByRole("region", { name: "May somebody do something?" });
  const ask = async (topic) => {
    await may.locator("[name=asked]").fill(topic);
    await may.locator("button[type=submit]").click();
    await may.locator(".verdict .mono", { hasText: topic }).waitFor();
  };
  await may.locator("[name=user]").fill("ann");
  await ask("hall/9/state");
  await may.locator(".verdict .badge.ok").waitFor();
  await ask("hall/9/secret");
  await may.locator(".verdict .badge.bad").waitFor();
  await page.locator(".rules-text li.decided", { hasText: "deny all hall/+/secret" }).waitFor();
  assert.equal(await page.locator(".rules-text li.decided").count(), 1);

  await page.locator("h1").first().click();
  await page.keyboard.press("/");
  await page.locator("dialog.palette input").fill("ann");
  await page.locator("#found [role=option]", { has: page.getByText("ann", { exact: true }) }).click();
  await page.locator("h1 .of", { hasText: "ann" }).waitFor();
  await press(page, "Disable");
  await submit(page);
  await page.getByText("disabled", { exact: true }).waitFor();
  await press(page, "Enable");
  await submit(page);
  await page.getByText("enabled", { exact: true }).waitFor();
  const login = page.getByRole("region", { name: "Who would be let in?" });
  await login.locator("[name=password]").fill("of-ann-1234");
  await login.locator("[name=client_id]").fill("ann-1");
  await login.locator("button[type=submit]").click();
  await login.getByText("is let in").waitFor();
  await login.getByRole("cell", { name: "Messages a second", exact: true }).waitFor();
}

/** Written for a group, and what holds for a user of it. */
export async function limitsHold({ page, open }) {
  await open("#/limits", "h1");
  await press(page, "Add limits");
  await dialog(page).locator("[name=name]").fill("crews");
  await dialog(page).locator("[name=group]").fill("crew");
  await dialog(page).locator("[name=connections]").fill("7");
  await submit(page);
  const holds = page.getByRole("region", { name: "What holds for a client?" });
  await page.getByRole("region", { name: "crews" }).waitFor();
  await holds.locator("[name=user]").fill("ann");
  await holds.locator("button[type=submit]").click();
  await holds.getByRole("cell", { name: "Connections", exact: true }).waitFor();
}

/** The reason code that a client is let in, or refused, with. */
function connected(port, clientId) {
  return new Promise((found, failed) => {
    const client = mqtt.connect({ host: "127.0.0.1", port, protocolVersion: 5, clientId, reconnectPeriod: 0 });
    client.on("connect", () => found({ client, code: 0 }));
    client.on("error", (error) => {
      client.end(true);
      if (error.code === undefined) failed(error);
      else found({ client, code: error.code });
    });
  });
}

/** A client is sent away and refused while the ban lasts, and let in when it is lifted. */
export async function banAndLift({ page, open, mqtt: port }) {
  const { client, code } = await connected(port, "press-7");
  assert.equal(code, 0);
  const closed = new Promise((done) => client.on("close", done));
  await open("#/bans", "h1");
  await press(page, "Ban");
  await dialog(page).locator("[name=client]").fill("press-*");
  await dialog(page).locator("[name=reason]").fill("it floods");
  await submit(page);
  await row(page, "press-*").getByText("it floods").waitFor();
  await closed;
  assert.equal((await connected(port, "press-7")).code, BANNED);
  await row(page, "press-*").getByRole("button", { name: "Lift" }).click();
  await submit(page);
  await row(page, "press-*").waitFor({ state: "detached" });
  const again = await connected(port, "press-7");
  assert.equal(again.code, 0);
  await again.client.endAsync();
}

/** A list shows what was changed on its page at once: the timers that would ask for it again do not run here. */
export async function changesAreShownAtOnce({ page, open }) {
  await open("#/bans", "[role=table] .body [role=row]");
  await page.evaluate(() => {
    const real = globalThis.setTimeout;
    globalThis.setTimeout = (call, wait, ...rest) => (wait > 2000 ? 0 : real(call, wait, ...rest));
  });
  // The one that had begun.
  await page.waitForResponse((response) => response.url().includes("/api/v1/bans?"));
  await press(page, "Ban");
  await dialog(page).locator("[name=client]").fill("crane-*");
  await submit(page);
  await row(page, "crane-*").waitFor();
  await row(page, "crane-*").getByRole("button", { name: "Lift" }).click();
  await submit(page);
  await row(page, "crane-*").waitFor({ state: "detached" });
  await page.reload();
}

/** It is shown once, opens what is in its scope and nothing else, and is worth nothing once it is taken back. */
export async function tokenForTheApi({ page, open, base }) {
  await open("#/tokens", "h1");
  await press(page, "Make a token");
  await dialog(page).locator("[name=name]").fill("reports");
  await dialog(page).locator("[name=scope]").fill("clients");
  await submit(page);
  const token = await page.locator(".secret output").textContent();
  const status = async (path) =>
    (await fetch(`${base}/api/v1/${path}`, { headers: { Authorization: `Bearer ${token}` } })).status;
  assert.equal(await status("clients"), 200);
  assert.equal(await status("nodes"), 403);
  await page.reload();
  await row(page, "reports").waitFor();
  assert.equal(await page.getByText(token).count(), 0, "a token is shown again");
  await row(page, "reports").getByRole("button", { name: "Take back" }).click();
  await submit(page);
  await row(page, "reports").waitFor({ state: "detached" });
  assert.equal(await status("clients"), 401);
  await row(page, XSS).waitFor();
}
