/** Where on its way from the publisher to the client a message stands, by what `why` has found. */
import type { Finding, Why } from "./types";

/** The places that a message passes. */
export const PLACES = ["publisher", "node", "subscription", "session", "window", "connection", "client"] as const;
export type PlaceName = (typeof PLACES)[number];

const AT: Record<PlaceName, RegExp> = {
  publisher:
    /^(near_miss|denied_publish|rate_limited|publish|no_local|sent_too_large|limited|repeated_readings|acknowledgements_)/,
  node: /^(node_|disk_full|grid_|registry_|link_cut|uplink_|kafka_|committing|refused_|messages_refused|home_)/,
  subscription: /^(no_subscription|no_matching|subscription_|denied_subscribe|qos_lowered|shared_group|retained_not)/,
  session: /^(reading|queue|session_|expired|dropped|denied_delivery|right_gone)/,
  window: /^(window_|receive)/,
  connection: /^(outbox_|slow_reader|cut_off_slow|keep_alive|tls_failed|wrong_port|protocol_version|too_large)/,
  client:
    /^(never_seen|banned|disconnected|refused|taken_over|wanted_by_another|login|closed_by|quarantined|held_off|codec_|no_connect|client_id_|sent_away|at_home_elsewhere|authentication)/,
};
const ORDER: PlaceName[] = ["window", "connection", "session", "subscription", "publisher", "node", "client"];

export function placeOf(code: string): PlaceName {
  return ORDER.find((name) => AT[name].test(code)) ?? "client";
}

export interface Stand {
  name: PlaceName;
  /** The weightiest of what was found there. */
  finding: Finding | undefined;
}

/** From DELAYS on a message is held up; what is lighter was so, or says how things are. */
export const HOLDS = 60;

export function standing(why: Why): Stand[] {
  const held = why.findings.filter((one) => one.weight >= HOLDS);
  return PLACES.map((name) => ({ name, finding: held.find((one) => placeOf(one.code) === name) }));
}

/** What is said of readings that are dropped as repetitions: of a gateway, or of one device behind it. */
export function repeated(why: Why, target: string): string[] {
  const topics = target.includes("/") ? [`'up/${target}'`, `"up/${target}"`] : [""];
  return why.findings
    .filter((one) => one.code === "repeated_readings" && one.weight >= HOLDS)
    .map((one) => one.text)
    .filter((text) => topics.some((topic) => text.includes(topic)));
}
