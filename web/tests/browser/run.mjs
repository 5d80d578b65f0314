// One run of a browser: journeys, then photographs of pages. Ends with 1 and words where something is not as it should be.
import assert from "node:assert/strict";
import { opened } from "./kit.mjs";
import { photographed } from "./photographs.mjs";

/** `after`: journeys for when the pages were photographed. */
export async function run(settings, journeys, pages, after = []) {
  const ui = await opened(settings);
  let at = "";
  let status = 0;
  try {
    for (const journey of journeys) {
      at = journey.name;
      await journey(ui);
    }
    at = "photographed";
    await photographed(ui, pages);
    for (const journey of after) {
      at = journey.name;
      await journey(ui);
    }
    assert.deepEqual(ui.faults, []);
    console.log("ok");
  } catch (error) {
    await ui.shot("failed").catch(() => {});
    console.error(at, error, ui.faults);
    status = 1;
  } finally {
    await ui.close();
  }
  process.exit(status);
}
