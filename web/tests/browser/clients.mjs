// Who gets nothing, and why: found by a part of its id, looked at, sent away.

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
  await page.locator(".findings li").first().waitFor();
  await page.locator(".way li.here", { hasText: "Subscription" }).waitFor();
  await page.getByRole("button", { name: "Disconnect" }).click();
  await page.locator("dialog[open] button[type=submit]").click();
  await page.getByText("It is not connected.").waitFor();
}
