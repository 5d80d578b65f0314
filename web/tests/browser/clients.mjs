// Who gets nothing, and why: found by a part of its id, looked at, sent away.

import assert from "node:assert/strict";

/** `/`, a part of an id, Enter. */
export async function findByPart({ page, client }) {
  await page.locator("h1").first().waitFor();
  await page.keyboard.press("/");
  await page.locator("dialog.palette input").fill(client.slice(2, -2));
  await page.locator("#found [role=option]", { hasText: client }).waitFor();
  await page.keyboard.press("Enter");
  await page.locator("h1 .of", { hasText: client }).waitFor();
}

/** Why it gets nothing, in words and in the picture; then its connection is closed, and that is seen. */
export async function whyAndDisconnect({ page }) {
  const finding = page.locator(".findings li p").first();
  await finding.waitFor();
  // It may begin with a name, in which case counts.
  assert.equal(await finding.evaluate((one) => getComputedStyle(one, "::first-letter").textTransform), "none");
  await page.locator(".way li.here", { hasText: "Subscription" }).waitFor();
  await page.getByRole("button", { name: "Disconnect" }).click();
  await page.locator("dialog[open] button[type=submit]").click();
  await page.getByText("It is not connected.").waitFor();
}

/** A list's filter is in its address: whichever was chosen last is shown, whether it was typed or followed. */
export async function filterFollowsTheAddress({ page, open }) {
  await open("#/clients", "input[name=contains]");
  const field = page.locator("input[name=contains]");
  const filter = async (text) => {
    // Longer than a field waits for somebody who types: what is shown by mistake is shown by then, and stays.
    await page.waitForTimeout(600);
    await page.waitForFunction((text) => {
      const asked = new URLSearchParams(location.hash.split("?")[1]).get("contains") ?? "";
      return asked === text && document.querySelector("input[name=contains]")?.value === text;
    }, text);
  };
  const follow = (...addresses) =>
    page.evaluate(async (addresses) => {
      for (const address of addresses) {
        location.hash = address;
        await new Promise((done) => setTimeout(done, 50));
      }
    }, addresses);
  await follow("#/bans", "#/clients?contains=first", "#/clients?contains=second");
  await filter("second");
  await field.fill("third");
  await filter("third");
  await follow("#/clients?contains=fourth");
  await filter("fourth");
  await field.fill("never asked for");
  await follow("#/clients?contains=fifth");
  await filter("fifth");
  await page.goBack();
  await filter("fourth");
  await field.pressSequentially(" and on", { delay: 20 });
  await filter("fourth and on");
}
