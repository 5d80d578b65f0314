// A device behind a gateway: found, looked at, told what to do, and what became of it.
import assert from "node:assert/strict";
import { XSS } from "./kit.mjs";

const at = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

/** From the list of gateways to one, its connection and devices, and on to a device with its values. */
export async function gatewayAndDevice({ page, open, gateway }) {
  // There may be so many that its row is out of sight.
  await open(`${at("devices")}?gateway=${encodeURIComponent(gateway)}`, "[role=table] .body [role=row]");
  await page.locator("[role=table] .body a", { hasText: gateway }).first().click();
  await page.locator("h1 .of", { hasText: gateway }).waitFor();
  await page.getByRole("heading", { name: "Connection" }).first().waitFor();
  await page.locator("[role=table] .body a", { hasText: /^plc-3$/ }).click();
  await page.locator("h1 .of", { hasText: `${gateway}/plc-3` }).waitFor();
  await page.locator("td.mono", { hasText: "running" }).waitFor();
  await page.locator(".charts.values canvas").first().waitFor();
}

/** A command is sent and ends well; one that the device does not know ends badly, with its words; what it did is seen. */
export async function commandsEnd({ page, open, gateway }) {
  await open(at("devices", `${gateway}/plc-3`), "textarea[name=body]");
  const send = async (body) => {
    await page.fill("textarea[name=body]", body);
    await page.getByRole("button", { name: "Send", exact: false }).last().click();
  };
  const steps = page.locator("ol.steps");
  await send('{"running": false}');
  await steps.getByText("done", { exact: true }).waitFor();
  await page.locator("tr", { hasText: "running" }).getByText("false").waitFor();
  await send("dance");
  await page.locator(".said", { hasText: "not understood" }).waitFor();
  await steps.getByText("failed", { exact: true }).waitFor();
  // The list has both, and one of them by its address.
  await open(`${at("commands")}?state=failed&target=${encodeURIComponent(`${gateway}/plc-3`)}`, ".body [role=row]");
  assert.equal(await page.locator(".body [role=row]").count(), 1);
  await page.locator(".body [role=row] a").nth(1).click();
  await page.locator(".said", { hasText: "dance" }).waitFor();
}

/** Numbers of 64 bits: what is typed is sent, and what came is shown, to the digit. */
export async function numbersKeepTheirDigits({ page, open, gateway }) {
  await open(at("devices", `${gateway}/plc-4`), "textarea[name=body]");
  const order = '{"setpoint": 9007199254740993, "ratio": 1.0}';
  await page.fill("textarea[name=body]", order);
  const asked = page.waitForRequest((one) => one.method() === "POST" && one.url().endsWith("/commands"));
  await page.getByRole("button", { name: "Send", exact: false }).last().click();
  assert.equal((await asked).postDataJSON().body, order);
  await page.getByRole("button", { name: "Set desired values" }).click();
  await page.fill("textarea[name=desired]", '{"total": -1152921504606846977}');
  await page.locator("dialog[open] button[type=submit]").click();
  await page.locator("tr", { hasText: "total" }).getByText("-1152921504606846977", { exact: true }).waitFor();
}

/** Retained messages by a filter, subscriptions by client. */
export async function retainedAndSubscriptions({ page, open }) {
  await open(at("retained"), ".list .count");
  await page.locator(".filters input").fill("hall/+/state");
  await page.locator(".body [role=row]", { hasText: "hall/9/state" }).waitFor();
  await page.getByText(XSS, { exact: true }).waitFor({ state: "detached" });
  await open(`#/subscriptions?client=${encodeURIComponent(XSS)}`, ".body [role=row]");
  assert.equal(await page.locator(".body [role=row]").count(), 1);
}
