// Each page in light, dark and on a phone: held against axe, no wider than the phone, photographed.
import assert from "node:assert/strict";

/** Where, and what is there when it has been drawn: `pages` is the list in pages.mjs. */
export async function photographed(ui, pages) {
  for (const [title, address, there] of pages) {
    await ui.open(address, there);
    // What lies behind a dialog is not held against axe.
    assert.equal(await ui.page.locator("dialog[open]").count(), 0, `${title}: a dialog is open`);
    assert.equal(await ui.page.locator("img").count(), 0, `${title}: a name is not text`);
    for (const colorScheme of ["light", "dark"]) {
      await ui.page.emulateMedia({ colorScheme });
      await ui.accessible(`${title}, ${colorScheme}`);
      await ui.shot(`${title}-${colorScheme}`);
    }
    await ui.page.emulateMedia({ colorScheme: "light" });
    await ui.page.setViewportSize({ width: 390, height: 844 });
    const wider = await ui.page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    assert.equal(wider, false, `${title} is wider than a phone`);
    await ui.shot(`${title}-phone`);
    await ui.page.setViewportSize({ width: 1280, height: 800 });
  }
}
