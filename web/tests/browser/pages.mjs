// Drives a real Chromium over the pages of a running node; tests/system/test_dashboard.py starts both.
//
//   node pages.mjs '{"base": …, "name": …, "password": …, "client": …, "gateway": …, "command": …,
//                  "chromium": …, "shots": …}'
//
// A journey is a function of a module beside this one; it gets `ui` (see kit.mjs) and stands in JOURNEYS. A page stands in
// PAGES. They wait for conditions, not for times. Ends with 1 and words where something is not as it should be.
import { filterFollowsTheAddress, findByPart, whyAndDisconnect } from "./clients.mjs";
import { commandsEnd, gatewayAndDevice, numbersKeepTheirDigits, retainedAndSubscriptions } from "./devices.mjs";
import { logIn, overviewIsPaintedSoon } from "./login.mjs";
import { namesAreLegible, namesAreText, searchedNameIsText } from "./names.mjs";
import { acknowledgedIsMeasured } from "./overview.mjs";
import { run } from "./run.mjs";
import { topicTree } from "./topics.mjs";
import { droppedIsFound, groupShares, lastHourIsReplayed, publishedFromThePage } from "./traffic.mjs";
import { ruleIsTried, rulesAreReloaded } from "./uplink.mjs";

const settings = JSON.parse(process.argv[2]);
const { client, gateway, command, group, kept } = settings;
const of = encodeURIComponent;
/** What a person does, one after the other, with one login. */
const JOURNEYS = [
  logIn, // the first
  overviewIsPaintedSoon,
  acknowledgedIsMeasured,
  findByPart,
  whyAndDisconnect, // after findByPart
  filterFollowsTheAddress,
  gatewayAndDevice,
  commandsEnd,
  numbersKeepTheirDigits,
  retainedAndSubscriptions,
  namesAreText,
  namesAreLegible,
  searchedNameIsText,
  topicTree,
  droppedIsFound,
  groupShares,
  lastHourIsReplayed,
  publishedFromThePage,
  ruleIsTried,
  rulesAreReloaded, // after ruleIsTried
];
/** Each is opened, held against axe, and photographed: where, and what is there when it has been drawn. */
const PAGES = [
  ["overview", "#/", ".tiles .tile:first-child .value:not(:has-text('–'))"],
  ["clients", "#/clients", "[role=table] .body [role=row]"],
  ["subscriptions", "#/subscriptions", ".list .count"],
  ["retained", "#/retained", ".list .count"],
  ["topics", "#/topics?topic=hall-9%2Fpress%2Ftemp", "pre.said"],
  ["dropped", "#/dropped", ".dropped tbody tr"],
  ["groups", "#/groups", ".body [role=row]"],
  ["group", `#/groups/${of(`$share/${group.name}/${group.topics}`)}`, ".members tbody tr"],
  ["log", `#/log?client=${of(kept.client)}&replay=${of(kept.filter)}&since=1h`, ".list .body [role=row]"],
  ["mqtt", "#/mqtt", "select"],
  ["uplink", "#/uplink", "textarea[name=rules]"],
  ["client", `#/clients/${of(client)}`, ".findings li"],
  ["devices", "#/devices", ".body [role=row]"],
  ["gateway", `#/devices/${of(gateway)}`, ".body [role=row]"],
  ["device", `#/devices/${of(`${gateway}/plc-3`)}`, "td.mono"],
  ["commands", "#/commands", ".body [role=row]"],
  ["command", `#/commands/${command}`, ".panels .said"],
];

await run(settings, JOURNEYS, PAGES);
