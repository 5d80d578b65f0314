// Each page in light, dark and on a phone: held against axe, no wider than the phone and the smallest window, photographed.
import assert from "node:assert/strict";

/** Of WCAG's reflow: a window of 1280 at 400 %. */
const SMALLEST = { width: 320, height: 640 };
/** English is the last: the pages that follow are looked for in it. */
const LANGUAGES = ["de", "zh", "en"];

/** Where, and what is there when it has been drawn: `pages` is the list in pages.mjs. */
export async function photographed(ui, pages) {
  for (const [title, address, there] of pages) {
    await ui.open(address, there);
    assert.equal(
      await ui.page.evaluate(() => document.querySelector("main").scrollTop),
      0,
      `${title} does not begin at its top`,
    );
    // What lies behind a dialog is not held against axe.
    assert.equal(await ui.page.locator("dialog[open]").count(), 0, `${title}: a dialog is open`);
    assert.equal(await ui.page.locator("img").count(), 0, `${title}: a name is not text`);
    for (const [colorScheme, rules] of [["light"], ["dark", ["color-contrast"]]]) {
      await ui.page.emulateMedia({ colorScheme });
      await ui.accessible(`${title}, ${colorScheme}`, rules);
      await ui.shot(`${title}-${colorScheme}`);
    }
    await ui.page.emulateMedia({ colorScheme: "light" });
    await ui.page.setViewportSize({ width: 390, height: 844 });
    assert.deepEqual(await ui.page.evaluate(wider), [], `${title} is wider than a phone`);
    await ui.shot(`${title}-phone`);
    await ui.page.setViewportSize(SMALLEST);
    for (const language of LANGUAGES) {
      await ui.page.locator(".who select").selectOption(language);
      assert.deepEqual(await ui.page.evaluate(wider), [], `${title} is wider than 320 in ${language}`);
    }
    await ui.shot(`${title}-smallest`);
    await ui.page.setViewportSize({ width: 1280, height: 800 });
    await ui.page.evaluate(() => document.querySelector("main").scrollTo(0, 100_000));
  }
}

/** In the page: what stands out at its end, though not inside of what scrolls by itself. */
function wider() {
  const main = document.querySelector("main");
  if (main.scrollWidth <= main.clientWidth && document.documentElement.scrollWidth <= innerWidth) return [];
  const page = [main, document.body, document.documentElement];
  const scrolls = (one) =>
    !page.includes(one) && (getComputedStyle(one).overflowX !== "visible" || scrolls(one.parentElement));
  const out = [...document.body.querySelectorAll("*")].filter((one) => one.getBoundingClientRect().right > innerWidth);
  return out.filter((one) => !scrolls(one.parentElement)).map((one) => `${one.tagName} ${one.className}`);
}
