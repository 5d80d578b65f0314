// What an open page asks, and how it feels: for `python -m benchmarks dashboard`, which replays the first many times.
//
//   node costs.mjs '{"base": …, "name": …, "password": …, "chromium": …, "shots": …, "seconds": …, "lists": …}'
//
// Prints as its last line JSON: ms to the first paint of the overview, what it asked for within so many seconds as
// [seconds, path, how old the answer may be], and of lists with so many rows (`lists`, see lists.mjs) how they feel.
import { opened } from "./kit.mjs";
import { felt } from "./lists.mjs";
import { logIn, painted } from "./login.mjs";

const settings = JSON.parse(process.argv[2]);
const ui = await opened(settings);
const { page, base } = ui;
try {
  await logIn(ui);
  // As somebody who comes again: the first one of all has the same, and the login before it.
  const asked = [];
  let began = performance.now();
  page.on("request", (one) =>
    asked.push([
      (performance.now() - began) / 1000,
      one.url().slice(base.length),
      one.headers()["cache-control"] ?? "",
    ]),
  );
  began = performance.now();
  await page.reload();
  await page.locator(".tiles .tile").first().waitFor();
  const shown = await page.evaluate(() => performance.now());
  const paint = await painted(page);
  await page.waitForTimeout(settings.seconds * 1000);
  const calls = asked.filter(([at, path]) => at < settings.seconds && path.startsWith("/api/"));
  const lists = {};
  for (const [address, rows, filter] of settings.lists) lists[address] = await felt(ui, address, rows, filter);
  console.log(JSON.stringify({ paint, shown, asked: calls, lists }));
} finally {
  await ui.close();
}
