// A list of some thousand rows, as somebody scrolls to its end over a line that is not the fastest, and filters it:
//
//   node scrolling.mjs '{"base": …, "name": …, "password": …, "rows": …, "typed": …, "found": …, "chromium": …, "shots": …}'
//
// Each page is asked for once, none is given up, and what is in the document are the rows in view.
import assert from "node:assert/strict";
import { opened } from "./kit.mjs";
import { felt } from "./lists.mjs";
import { logIn } from "./login.mjs";

/** Milliseconds that an answer takes longer: some frames, in each of which somebody scrolls on. */
const LATE = 60;
/** A screen of rows, and those kept ready above and below it. */
const DRAWN = 80;

const settings = JSON.parse(process.argv[2]);
const ui = await opened(settings);
let status = 0;
try {
  await logIn(ui);
  await ui.page.route("**/api/v1/retained*", async (route) => {
    await new Promise((done) => setTimeout(done, LATE));
    await route.continue();
  });
  const { down, over, drawn, filtered } = await felt(
    ui,
    "#/retained",
    settings.rows,
    ["filter", settings.typed, settings.found],
    120,
  );
  console.log(JSON.stringify({ down, over, drawn, filtered }));
  assert.equal(down.given_up, 0, `${down.given_up} pages were given up`);
  // Beside these: what is in view is asked for again now and then.
  assert.ok(down.calls <= down.pages + 2 + down.seconds, `${down.calls} calls for ${down.pages} pages`);
  assert.ok(drawn <= DRAWN, `${drawn} rows are in the document`);
  assert.deepEqual(ui.faults, []);
} catch (error) {
  console.error(error);
  status = 1;
} finally {
  await ui.close();
}
process.exit(status);
