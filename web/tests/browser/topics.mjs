// Topics: a live tree, the last value of one, a search by words.
import assert from "node:assert/strict";

/** Opened level by level; names and values are text. */
export async function topicTree({ page, base }) {
  await page.goto(`${base}/#/topics`);
  await page.getByRole("button", { name: "▸ hall-9" }).click();
  await page.getByRole("button", { name: "▸ press" }).click();
  await page.getByRole("button", { name: "Look at hall-9/press/temp" }).click();
  await page.locator("pre.said", { hasText: '"celsius"' }).waitFor();
  await page.locator("input[name=contains]").fill("TEMP hall-9");
  await page.locator("ul.topics .leaf", { hasText: "hall-9/press/temp" }).waitFor();
  assert.equal(await page.locator("img").count(), 0);
}
