// A shift at a cluster of three with Kafka behind it, looked at from one of its nodes while things happen at the others;
// tests/cluster/test_nodes_dashboard.py starts it.
//
//   node shift.mjs '{"base": …, "name": …, "password": …, "nodes": [names], "at": the node that things happen at,
//                  "gateway": …, "codec": …, "wheels": …, "kept": {client, filter, payloads}, "trial": {topic},
//                  "load": {prefix, topics, rate}, "chromium": …, "shots": …}'
import assert from "node:assert/strict";
import { commandsEnd, gatewayAndDevice } from "./devices.mjs";
import { logIn } from "./login.mjs";
import { acknowledgedIsMeasured } from "./overview.mjs";
import { press } from "./rights.mjs";
import { run } from "./run.mjs";
import { lastHourIsReplayed } from "./traffic.mjs";
import { enabled, framesAreWatched, openPlugin, reloadedAndRolledBack, wheelIsTakenIn } from "./vendor.mjs";

const settings = JSON.parse(process.argv[2]);

/** MQTT replays the log of one node, and the page says so; messages are shown of all nodes, with the node of each. */
async function replayTellsWhoseLogItIs({ page, open, nodes, elsewhere }) {
  await open(`#/log?replay=${encodeURIComponent(elsewhere.topic)}&since=1h`, ".generations tbody tr");
  const rows = page.getByRole("region", { name: "Messages", exact: true }).locator(".body [role=row]");
  await rows.filter({ hasText: elsewhere.payload }).filter({ hasText: elsewhere.node }).first().waitFor();
  const note = page.getByRole("region", { name: "Replay" }).locator(".note.warn");
  await note.waitFor();
  const text = await note.textContent();
  for (const node of nodes) assert.ok(text.includes(node), text);
}

/** One plugin at all nodes: its page at one of them shows how it is at the others. */
const atAll = (page, nodes, words) =>
  Promise.all(
    nodes.map((node) =>
      page
        .getByRole("region", { name: "At the nodes", exact: true })
        .locator("tbody tr", { hasText: node })
        .filter({ hasText: words })
        .waitFor(),
    ),
  );

/** One dialog takes the wheel to all nodes, and enables it there. */
async function pluginComesToAllNodes(ui) {
  await wheelIsTakenIn(ui);
  await atAll(ui.page, ui.nodes, "has arrived");
  await enabled(ui);
  await atAll(ui.page, ui.nodes, "ready");
}

/** Frames of a terminal at another node than the one that is asked. */
async function framesOfAnotherNode(ui) {
  await openPlugin(ui);
  await framesAreWatched(ui);
}

/** On all nodes, too. */
async function pluginGoesBackAtAllNodes(ui) {
  await reloadedAndRolledBack(ui);
  await atAll(ui.page, ui.nodes, "1.0.0");
}

/** Other rules on what has just come to another node. */
async function ruleIsTriedThere({ page, open, at, trial }) {
  await open("#/uplink", ".tiles .tile");
  const rules = page.locator("textarea[name=rules]");
  await rules.waitFor();
  // No node's rules differ, so there is one list of them, and what they did at all three.
  await page.locator("form.form select").nth(1).selectOption(at);
  await rules.fill(`[{"filter": "${trial.topic}", "to": "shift.other"}, {"filter": "up/#", "mode": "only"}]`);
  await press(page, "Try");
  const outcome = page.locator(".trial");
  await outcome.locator("tr", { hasText: "shift.other" }).getByText(trial.topic).first().waitFor();
  // Of all nodes at once: what came to that one is in their sum.
  await page.locator("form.form select").nth(1).selectOption("");
  await press(page, "Try");
  await outcome.locator(".sum").waitFor();
  await outcome.locator("tr", { hasText: "shift.other" }).getByText(trial.topic).first().waitFor();
  assert.equal(await page.locator(".note.bad").count(), 0);
}

/** What waits, and what Kafka has: of each node. */
async function uplinkOfEachNode({ page, open, nodes }) {
  await open("#/uplink", ".tiles .tile");
  for (const node of nodes) await page.locator("tr", { hasText: node }).first().waitFor();
  assert.equal(await page.getByText("Not all nodes have answered.").count(), 0);
}

/**
 * The tree while messages come to all three nodes: opened level by level, its rates are those of all nodes together, and
 * the page draws on.
 */
async function treeUnderLoad({ page, open, shot, load }) {
  await open("#/topics", "ul.topics");
  await page.getByRole("button", { name: `▸ ${load.prefix}` }).click();
  await page.getByRole("button", { name: "▸ line-1", exact: true }).click();
  const topic = `${load.prefix}/line-1/press-1`;
  const look = page.getByRole("button", { name: `Look at ${topic}`, exact: true });
  await look.waitFor();
  // Counting begins with the question, and a rate is that of some seconds.
  const rate = await page.waitForFunction(
    ([name, least, most]) => {
      const button = document.querySelector(`[aria-label="Look at ${name}"]`);
      const shown = Number.parseFloat(button?.closest("li").querySelector(".end").textContent);
      return shown > least && shown < most && shown;
    },
    [topic, load.rate * 0.6, load.rate * 1.4],
  );
  console.log(`${await rate.jsonValue()} of ${load.rate} messages a second`);
  await look.click();
  const value = page.locator("pre.said");
  await value.waitFor();
  const first = await value.textContent();
  await page.waitForFunction((before) => document.querySelector("pre.said").textContent !== before, first);
  await shot("topics-under-load");
  const frames = await page.evaluate(drawn);
  console.log(`longest time between two frames ${Math.round(frames.longest)} ms in ${frames.count}`);
  await page.locator("input[name=contains]").fill("PRESS-2 line-3");
  await page
    .locator("ul.topics .leaf", { hasText: `${load.prefix}/line-3/press-2` })
    .first()
    .waitFor();
}

/** In the page: two seconds of frames. */
async function drawn() {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const began = performance.now();
  let [last, longest, count] = [await frame(), 0, 0];
  while (performance.now() - began < 2000) {
    const now = await frame();
    longest = Math.max(longest, now - last);
    last = now;
    count += 1;
  }
  return { longest, count };
}

const JOURNEYS = [
  logIn, // the first
  acknowledgedIsMeasured,
  replayTellsWhoseLogItIs,
  lastHourIsReplayed,
  gatewayAndDevice,
  commandsEnd, // after gatewayAndDevice
  pluginComesToAllNodes,
  framesOfAnotherNode, // after pluginComesToAllNodes
  pluginGoesBackAtAllNodes, // after pluginComesToAllNodes
  uplinkOfEachNode,
  ruleIsTriedThere,
  treeUnderLoad,
];
const PAGES = [
  ["uplink-three", "#/uplink", "textarea[name=rules]"],
  ["plugins-three", "#/plugins", ".wide-table tbody tr"],
  ["plugin-three", `#/plugins/${settings.codec}?node=${encodeURIComponent(settings.at)}`, ".facts"],
];

await run(settings, JOURNEYS, PAGES);
