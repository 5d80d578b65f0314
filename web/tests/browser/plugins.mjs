// A vendor's plugin, from its wheel to the way back; test_dashboard_plugins.py.
//
//   node plugins.mjs '{"base": …, "name": …, "password": …, "codec": …, "wheels": [{path, sha256, version}, …],
//                    "misnamed": {path, sha256, name}, …}'
import { logIn } from "./login.mjs";
import { run } from "./run.mjs";
import {
  enabled,
  framesAreWatched,
  nameOfMarkupIsRefused,
  reloadedAndRolledBack,
  reportIsSeen,
  wheelIsTakenIn,
} from "./vendor.mjs";

const settings = JSON.parse(process.argv[2]);
const PAGES = [
  ["plugins", "#/plugins", ".wide-table tbody tr"],
  ["plugin", `#/plugins/${settings.codec}`, ".facts"],
];

await run(
  settings,
  [logIn, nameOfMarkupIsRefused, wheelIsTakenIn, reportIsSeen, enabled, framesAreWatched, reloadedAndRolledBack],
  PAGES,
);
