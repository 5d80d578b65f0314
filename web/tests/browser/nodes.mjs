// A cluster of three, looked at from one of its nodes; tests/cluster/test_nodes_dashboard.py starts it.
//
//   node nodes.mjs '{"base": …, "name": …, "password": …, "client": …, "at": its node, "nodes": [names],
//                  "mqtt": {node: port}, "stopped": {"node": …, "pid": …}, "chromium": …, "shots": …}'
import assert from "node:assert/strict";
import mqtt from "mqtt";
import { findByPart, whyAndDisconnect } from "./clients.mjs";
import { logIn } from "./login.mjs";
import { press, submit } from "./rights.mjs";
import { run } from "./run.mjs";

const settings = JSON.parse(process.argv[2]);
const ROW = "[role=table] .body [role=row]";

/** Every node, and nobody is missing. */
async function nodesOnTheOverview({ page, open, nodes }) {
  await open("#/", ".tiles .tile");
  const table = page.getByRole("region", { name: "Nodes", exact: true });
  for (const node of nodes) await table.locator("tbody tr", { hasText: node }).getByText("serving").waitFor();
  assert.equal(await table.locator("tbody tr").count(), nodes.length);
  assert.equal(await page.getByText("Not all nodes have answered.").count(), 0);
}

/** The list says where each client is. */
async function listNamesNodes({ page, open, client, at }) {
  await open(`#/clients?contains=${encodeURIComponent(client)}`, ROW);
  await page.locator(ROW, { hasText: client }).getByText(at, { exact: true }).waitFor();
}

/** Its node stands in the picture of the way to it. */
async function whyNamesItsNode({ page, at }) {
  await page.locator(".way li", { hasText: at }).waitFor();
}

/** Who was sent away shall not come back, and the list of bans says so. */
async function banned({ page, open, client }) {
  await press(page, "Ban");
  const dialog = page.locator("dialog[open]");
  await dialog.getByLabel("For seconds").fill("600");
  await dialog.getByLabel("Reason").fill("left the line");
  await submit(page);
  await open("#/bans", ROW);
  await page.locator(ROW, { hasText: client }).getByText("left the line").waitFor();
}

/** A client at a node, whose session stays; sent away, it goes to another node, as a client behind a balancer does. */
function staying(clientId, ports) {
  let [at, over, current] = [0, false, undefined];
  const open = () => {
    const options = { host: "127.0.0.1", port: ports[at % ports.length], protocolVersion: 5, clientId, clean: false };
    // A busy node may answer late; who waits for mqtt.js's thirty seconds is not there when somebody looks.
    const session = { connectTimeout: 5000, properties: { sessionExpiryInterval: 300 } };
    const client = mqtt.connect({ ...options, ...session, reconnectPeriod: 0 });
    client.on("error", () => {});
    client.on("close", () => {
      at += 1;
      if (!over) setTimeout(open, 100);
    });
    current = client;
    return client;
  };
  const first = open();
  return {
    first: new Promise((done) => first.on("connect", done)),
    end: () => {
      over = true;
      current.end(true);
    },
  };
}

/** A node is drained from its page: its clients leave, their sessions live elsewhere then, and it takes clients again. */
async function drainedNodeGivesItsSessionsAway({ page, open, client, at, nodes, mqtt: ports }) {
  const names = Array.from({ length: 12 }, (_, number) => `${client}-mover-${number}`);
  const others = nodes.filter((node) => node !== at).map((node) => ports[node]);
  const movers = names.map((name) => staying(name, [ports[at], ...others]));
  try {
    await Promise.all(movers.map((one) => one.first));
    await open(`#/cluster/${encodeURIComponent(at)}`, ".facts");
    await press(page, "Drain");
    await submit(page);
    const moving = page.getByRole("region", { name: "Clients on their way" });
    await moving.locator("progress").waitFor();
    await moving.getByText("drained", { exact: true }).waitFor();
    for (const name of [names[0], names.at(-1)]) {
      await open(`#/clients?contains=${encodeURIComponent(name)}`, ROW);
      const row = page.locator(ROW, { hasText: name });
      await row.first().waitFor();
      assert.ok(!(await row.first().textContent()).includes(at), `${name} is at ${at} still`);
    }
    await open(`#/cluster/${encodeURIComponent(at)}`, ".facts");
    await press(page, "Let in again");
    await submit(page);
    await moving.waitFor({ state: "detached" });
  } finally {
    for (const one of movers) one.end();
  }
}

/** What is published from the page at this node comes to a client of another one; its topic stands in the tree. */
async function publishedHereComesThere({ page, open, client, at, mqtt: ports }) {
  const topic = `${client}/from/the/page`;
  const there = mqtt.connect({ host: "127.0.0.1", port: ports[at], protocolVersion: 5, clientId: `${client}-reader` });
  const come = new Promise((found) => there.on("message", (_, payload) => found(payload.toString())));
  await there.subscribeAsync(topic, { qos: 1 });
  await open("#/topics", "ul.topics, .empty");
  await open("#/mqtt", "select");
  await press(page, "Connect");
  await page.locator("input[name=topic]").fill(topic);
  await page.locator("textarea[name=payload]").fill("over three nodes");
  await page.getByRole("button", { name: "Publish", exact: true }).click();
  await page.getByText("1 acknowledged").waitFor();
  assert.equal(await come, "over three nodes");
  await there.endAsync();
  await open(`#/topics?contains=${encodeURIComponent(topic)}`, "ul.topics .leaf");
  await page.locator("ul.topics .leaf", { hasText: topic }).waitFor();
}

/** A node stands still while somebody looks: it is named as the one that did not answer, and the page goes on. */
async function stoppedNodeIsNamed({ page, open, shot, accessible, stopped }) {
  await open("#/", ".tiles .tile");
  process.kill(stopped.pid, "SIGSTOP");
  await page.locator("[role=status]", { hasText: "Not all nodes have answered." }).getByText(stopped.node).waitFor();
  await shot("overview-missing");
  await accessible("overview-missing");
  const table = page.getByRole("region", { name: "Nodes", exact: true });
  await table.locator("tbody tr", { hasText: stopped.node }).waitFor({ state: "detached" });
}

const JOURNEYS = [
  logIn, // the first
  nodesOnTheOverview,
  listNamesNodes,
  findByPart,
  whyNamesItsNode, // after findByPart
  whyAndDisconnect, // after findByPart
  banned, // after whyAndDisconnect
  publishedHereComesThere,
  drainedNodeGivesItsSessionsAway,
];
const PAGES = [
  ["overview-three", "#/", ".tiles .tile"],
  ["cluster-three", "#/cluster", "table.nodes tbody tr"],
];

await run(settings, JOURNEYS, PAGES, [stoppedNodeIsNamed]);
