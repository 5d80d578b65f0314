import assert from "node:assert/strict";

/** Milliseconds: a machine that does other things stalls for seconds; what it takes is printed. */
const LONGEST = 20_000;

/** Somebody logs in. */
export async function logIn({ page, base, name, password, shot, accessible }) {
  await page.goto(base);
  await page.locator("input[name=name]").waitFor();
  await shot("login");
  await accessible("login");
  await page.fill("input[name=name]", name);
  await page.fill("input[name=password]", password);
  await page.click("button[type=submit]");
  await page.locator(".tiles .tile").first().waitFor();
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
  console.log(`first paint after ${paint} ms`);
  assert.ok(paint < LONGEST, `first paint after ${paint} ms`);
}
