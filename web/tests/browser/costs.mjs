// What an open page asks, and how it feels: for `python -m benchmarks dashboard`, which replays the first many times.
//
//   node costs.mjs '{"base": …, "name": …, "password": …, "chromium": …, "shots": …, "seconds": …}'
//
// Prints one line of JSON: ms to the first paint of the overview, what it asked for within so many seconds as [seconds, path],
// and of a list that is scrolled to its end of the moment: rows, frames, those over 50 ms, and the longest.
import { opened } from "./kit.mjs";
import { logIn } from "./login.mjs";

const settings = JSON.parse(process.argv[2]);
const ui = await opened(settings);
const { page, base } = ui;
try {
  await logIn(ui);
  // As somebody who comes again: the first one of all has the same, and the login before it.
  const asked = [];
  let began = performance.now();
  page.on("request", (one) => asked.push([(performance.now() - began) / 1000, one.url().slice(base.length)]));
  began = performance.now();
  await page.reload();
  await page.locator(".tiles .tile").first().waitFor();
  const paint = await page.evaluate(
    () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Number.NaN,
  );
  const shown = await page.evaluate(() => performance.now());
  await page.waitForTimeout(settings.seconds * 1000);
  const calls = asked.filter(([at, path]) => at < settings.seconds && path.startsWith("/api/"));
  await ui.open("#/clients", "[role=table] .body [role=row]");
  const scrolled = await page.evaluate(scroll, settings.screens ?? 300);
  console.log(JSON.stringify({ paint, shown, asked: calls, scrolled }));
} finally {
  await ui.close();
}

/** In the page: half a screen further with each frame. */
async function scroll(screens) {
  const box = document.querySelector(".scroll");
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  let last = await frame();
  const took = [];
  for (let step = 0; step < screens * 2; step += 1) {
    box.scrollTop += box.clientHeight / 2;
    const now = await frame();
    took.push(now - last);
    last = now;
  }
  const rows = Math.round(box.scrollHeight / 34);
  return { rows, frames: took.length, slow: took.filter((one) => one > 50).length, longest: Math.max(...took) };
}
