// What did not arrive, who shares, what the log has, and a client of one's own.
import assert from "node:assert/strict";
import { XSS } from "./kit.mjs";

/** A dropped message is found by its reason, topic, receiver and publisher; a right that was missing by its kind. */
export async function droppedIsFound({ page, open, client, dropped }) {
  await open("#/dropped", ".dropped tbody tr");
  await page.locator("select[name=kind]").selectOption("dropped");
  await page.locator("select[name=reason]").selectOption("too_large");
  await page.locator("input[name=topic]").fill(dropped.topic.slice(2).toUpperCase());
  await page.locator("input[name=client]").fill(dropped.client);
  await page.locator("input[name=publisher]").fill(client.slice(3));
  const row = page.locator(".dropped tbody tr");
  await page.waitForFunction(() => document.querySelectorAll(".dropped tbody tr").length === 1);
  for (const word of [dropped.topic, dropped.client, client, "larger than the client takes"])
    assert.ok((await row.textContent()).includes(word), word);
  await page.locator("input[name=publisher]").fill("nobody-of-that-name");
  await page.getByText("Nothing of that kind is remembered.").waitFor();
  // Deep links keep the filters.
  await open("#/dropped?kind=dropped&reason=too_large", ".dropped tbody tr");
}

/** From the list to one group: two members share what came. */
export async function groupShares({ page, open, group }) {
  await open("#/groups", ".body [role=row]");
  await page.locator(".body a", { hasText: group.name }).click();
  await page.locator("h1 .of", { hasText: `$share/${group.name}/` }).waitFor();
  for (const member of group.members) await page.locator(".members tbody tr", { hasText: member }).waitFor();
  await page.waitForFunction(() => document.querySelectorAll(".members tbody tr").length === 2);
  assert.match(await page.locator(".members tbody tr").first().textContent(), /%/);
}

/** Where a session that is away stands; and the last hour again: as a list of all nodes, and in the client of the page. */
export async function lastHourIsReplayed({ page, open, kept }) {
  await open(`#/log?client=${encodeURIComponent(kept.client)}`, ".generations tbody tr");
  await page.getByText(/waits for .*3 messages/).waitFor();
  await page.locator("input[name=replayed]").fill(kept.filter);
  await page.getByRole("button", { name: "Show messages", exact: true }).click();
  const rows = page.getByRole("region", { name: "Messages", exact: true }).locator(".body [role=row]");
  for (const payload of kept.payloads) await rows.filter({ hasText: payload }).first().waitFor();
  await page.getByRole("button", { name: "Replay", exact: true }).click();
  await page.locator("h1", { hasText: "MQTT client" }).waitFor();
  await page.getByRole("button", { name: "Connect", exact: true }).click();
  await page.locator(".filters-of-mine .mono", { hasText: `$replay/1h/${kept.filter}` }).waitFor();
  for (const payload of kept.payloads) await page.locator(".messages pre", { hasText: payload }).waitFor();
  await page.getByRole("button", { name: "Close", exact: true }).click();
  await page.locator("header", { hasText: "not connected" }).first().waitFor();
}

/** Publishes with properties, and gets it itself; a name that would be a script is a text. */
export async function publishedFromThePage({ page, open }) {
  await open("#/mqtt", "select");
  await page.getByRole("button", { name: "Connect", exact: true }).click();
  await page
    .locator("header .badge, header", { hasText: /^.*connected$/ })
    .first()
    .waitFor();
  await page.locator("input[name=filter]").fill("from/the/page/+");
  await page.getByRole("button", { name: "Subscribe", exact: true }).click();
  await page.locator(".filters-of-mine .mono", { hasText: "from/the/page/+" }).waitFor();
  await page.locator("input[name=topic]").fill("from/the/page/1");
  await page.locator("textarea[name=payload]").fill(`{"said": "${XSS}"}`);
  await page.getByText("Properties of version 5").click();
  await page.getByLabel("User properties").fill(`line: ${XSS}`);
  await page.getByRole("button", { name: "Publish", exact: true }).click();
  await page.getByText("1 acknowledged").waitFor();
  const come = page.locator(".messages li", { hasText: "from/the/page/1" });
  await come.locator("pre", { hasText: XSS }).waitFor();
  assert.ok((await come.locator(".line").textContent()).includes(`line: ${XSS}`));
  assert.equal(await page.locator("img").count(), 0);
}
