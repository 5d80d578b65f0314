// A cluster of three, looked at from one of its nodes; tests/cluster/test_nodes_dashboard.py starts it.
//
//   node nodes.mjs '{"base": …, "name": …, "password": …, "client": …, "at": its node, "nodes": [names],
//                  "stopped": {"node": …, "pid": …}, "chromium": …, "shots": …}'
import assert from "node:assert/strict";
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

/** A node is killed while somebody looks: it is named as the one that did not answer, and the page goes on. */
async function stoppedNodeIsNamed({ page, open, shot, accessible, stopped }) {
  await open("#/", ".tiles .tile");
  process.kill(stopped.pid, "SIGKILL");
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
];
const PAGES = [
  ["overview-three", "#/", ".tiles .tile"],
  ["cluster-three", "#/cluster", "table.nodes tbody tr"],
];

await run(settings, JOURNEYS, PAGES, [stoppedNodeIsNamed]);
