// Who may do what, what a node goes by, and how the cluster is: an admin's pages; tests/system/test_dashboard_access.py.
//
//   node access.mjs '{"base": …, "name": …, "password": …, "operator" and "viewer": {"name": …, "password": …}, "mqtt": port,
//                   "node": …, "renewal": [[file, in place of]], "chromium": …, "shots": …}'
import { alarmBeginsAndEnds, drainAndResume } from "./cluster.mjs";
import { logIn } from "./login.mjs";
import { banAndLift, changesAreShownAtOnce, limitsHold, tokenForTheApi, userRuleAndQuestion } from "./rights.mjs";
import { run } from "./run.mjs";
import { listenerOpenedAndClosed, settingInDiffAndAudit } from "./settings.mjs";
import { namesOfRightsAreText, operatorIsOfferedHis, viewerIsOfferedNothing } from "./viewer.mjs";

const settings = JSON.parse(process.argv[2]);
const JOURNEYS = [
  logIn, // the first
  userRuleAndQuestion,
  limitsHold,
  banAndLift,
  changesAreShownAtOnce,
  tokenForTheApi,
  settingInDiffAndAudit,
  listenerOpenedAndClosed,
  drainAndResume,
  alarmBeginsAndEnds,
];
const ROW = "[role=table] .body [role=row]";
const PAGES = [
  ["alarms", "#/alarms", "table.past tbody tr"],
  ["users", "#/users", ROW],
  ["user", "#/users/ann", ".facts"],
  ["rules", "#/rules", ".rules-text li"],
  ["limits", "#/limits", ".facts"],
  ["bans", "#/bans", ROW],
  ["admins", "#/admins", ROW],
  ["tokens", "#/tokens", ROW],
  ["cluster", "#/cluster", "table.nodes tbody tr"],
  ["node", `#/cluster/${settings.node}`, ".facts"],
  ["listeners", "#/listeners", ROW],
  ["configuration", "#/configuration", "table.configuration tbody tr"],
  ["configuration-all", "#/configuration?view=all", "table.configuration tbody tr"],
  ["key", "#/configuration/mqtt.max_queued_messages", ".facts"],
  ["audit", "#/audit", ROW],
];

await run(settings, JOURNEYS, PAGES, [namesOfRightsAreText, operatorIsOfferedHis, viewerIsOfferedNothing]);
