/** A client of the broker in the page: one connection over WebSocket, its subscriptions, and the last messages. */
import { signal } from "@preact/signals";
import type { MqttClient, Packet } from "mqtt";
import { now } from "../../core/clock";
import { t } from "../../core/i18n";
import { laidOut } from "../../core/json";
import { codeText } from "../../core/reasons";
import { atLogout } from "../../core/session";
import { filterFault, textFault, topicFault } from "./checks";

/** Messages that are kept, and bytes of one payload. */
export const KEPT = 500;
export const LONGEST = 16_384;

export interface Settings {
  address: string;
  clientId: string;
  user: string;
  password: string;
  version: 4 | 5;
  clean: boolean;
  keepAlive: number;
}

export interface Received {
  number: number;
  at: number;
  topic: string;
  payload: Uint8Array;
  size: number;
  qos: number;
  retain: boolean;
  /** Of version 5, as they are shown. */
  properties: [string, string][];
}

export interface Outgoing {
  topic: string;
  payload: string;
  qos: 0 | 1 | 2;
  retain: boolean;
  contentType: string;
  responseTopic: string;
  expiry: string;
  /** Lines such as `name: value`. */
  userProperties: string;
}

export type State = "closed" | "connecting" | "open" | "lost";

export const state = signal<State>("closed");
/** Why the connection or the last request failed. */
export const trouble = signal("");
export const filters = signal<{ filter: string; qos: number }[]>([]);
/** The newest first. */
export const messages = signal<Received[]>([]);
export const paused = signal(false);

/** Milliseconds between two looks at what has come: a page of many messages is not drawn for each. */
const DRAWN_EVERY = 100;

let client: MqttClient | undefined;
let count = 0;
/** Came since the last look, the newest last. */
let waiting: Received[] = [];
let drawing: ReturnType<typeof setTimeout> | undefined;

/** mqtt.js comes when somebody connects: the dashboard is smaller without it. */
export async function connect(settings: Settings, wanted: { filter: string; qos: 0 | 1 | 2 }[]): Promise<void> {
  close();
  if (!sound([settings.clientId, settings.user, settings.password].map(textFault))) return;
  state.value = "connecting";
  const { default: mqtt } = await import("mqtt");
  const made = mqtt.connect(settings.address, {
    clientId: settings.clientId,
    protocolVersion: settings.version,
    clean: settings.clean,
    keepalive: settings.keepAlive,
    // Whoever is refused is told so, and tries again himself.
    reconnectPeriod: 0,
    connectTimeout: 10_000,
    // A worker would be a script that the policy does not know.
    timerVariant: "native",
    ...(settings.user && { username: settings.user, password: settings.password }),
  });
  client = made;
  const mine = (run: () => void) => () => client === made && run();
  made.on("connect", () => {
    if (client !== made) return;
    state.value = "open";
    for (const one of wanted) void subscribe(one.filter, one.qos);
  });
  made.on("error", (error) => mine(() => fail(error))());
  made.on(
    "close",
    mine(() => {
      state.value = state.value === "open" ? "lost" : "closed";
      filters.value = [];
    }),
  );
  made.on("disconnect", (packet) =>
    mine(() => {
      trouble.value = t("mqtt.closed_by_node", { why: codeText(packet.reasonCode ?? 0) });
    })(),
  );
  made.on("message", (topic, payload, packet) => mine(() => take(topic, payload, packet))());
}

export function close(): void {
  const before = client;
  client = undefined;
  before?.end(true);
  state.value = "closed";
  filters.value = [];
}

/** Nothing of one login is there for the next one. */
function forget(): void {
  close();
  waiting = [];
  messages.value = [];
  trouble.value = "";
  paused.value = false;
}
atLogout(forget);

/** Whether nothing is to be said against what is to be sent; else it is said. */
function sound(faults: (string | undefined)[]): boolean {
  const fault = faults.find(Boolean);
  trouble.value = fault ? t(fault) : "";
  return !fault;
}

function fail(error: unknown): void {
  const code = codeOf(error);
  trouble.value =
    code !== undefined
      ? t("mqtt.refused", { why: codeText(code) })
      : error instanceof Error
        ? error.message
        : String(error);
}

/** As mqtt.js has it: of a connection or an acknowledgement, or of the first subscription that was asked for. */
export function codeOf(error: unknown): number | undefined {
  const { code, packet } = error as { code?: unknown; packet?: { granted?: number[] } };
  if (typeof code === "number") return code;
  return packet?.granted?.find((one) => one >= 0x80);
}

export async function subscribe(filter: string, qos: 0 | 1 | 2): Promise<void> {
  if (!sound([filterFault(filter)])) return;
  try {
    const granted = await client?.subscribeAsync(filter, { qos });
    const given = granted?.[0]?.qos ?? 128;
    if (given >= 128) throw Object.assign(new Error("SUBACK"), { code: given });
    filters.value = [...filters.value.filter((one) => one.filter !== filter), { filter, qos: given }];
  } catch (error) {
    fail(error);
  }
}

export async function unsubscribe(filter: string): Promise<void> {
  try {
    await client?.unsubscribeAsync(filter);
    filters.value = filters.value.filter((one) => one.filter !== filter);
  } catch (error) {
    fail(error);
  }
}

/** Resolves when the broker has acknowledged it; whether it did. */
export async function publish(one: Outgoing, version: 4 | 5): Promise<boolean> {
  if (!client || !sound(faultsOf(one, version))) return false;
  try {
    const properties = version === 5 ? propertiesOf(one) : {};
    await client.publishAsync(one.topic, one.payload, {
      qos: one.qos,
      retain: one.retain,
      ...(Object.keys(properties).length > 0 && { properties }),
    });
    return true;
  } catch (error) {
    fail(error);
    return false;
  }
}

export function faultsOf(one: Outgoing, version: 4 | 5): (string | undefined)[] {
  const topic = topicFault(one.topic);
  if (version === 4) return [topic];
  const named = Object.entries(pairs(one.userProperties)).flatMap(([name, values]) => [name, ...values]);
  const answer = one.responseTopic && topicFault(one.responseTopic);
  return [topic, answer || undefined, ...[one.contentType, ...named].map(textFault)];
}

/** What was filled in, as mqtt.js takes it. */
export function propertiesOf(one: Outgoing) {
  const userProperties = pairs(one.userProperties);
  return {
    ...(one.contentType && { contentType: one.contentType }),
    ...(one.responseTopic && { responseTopic: one.responseTopic }),
    ...(one.expiry && { messageExpiryInterval: Number(one.expiry) }),
    ...(Object.keys(userProperties).length > 0 && { userProperties }),
  };
}

/** `name: value` in each line; a name that stands twice has both values. */
export function pairs(text: string): Record<string, string[]> {
  const found: Record<string, string[]> = {};
  for (const line of text.split("\n")) {
    const at = line.indexOf(":");
    if (at <= 0) continue;
    const name = line.slice(0, at).trim();
    found[name] = [...(found[name] ?? []), line.slice(at + 1).trim()];
  }
  return found;
}

function take(topic: string, payload: Uint8Array, packet: Packet): void {
  if (paused.value || packet.cmd !== "publish") return;
  count += 1;
  const one = {
    number: count,
    at: now(),
    topic,
    payload: payload.slice(0, LONGEST),
    size: payload.length,
    qos: packet.qos,
    retain: packet.retain,
    properties: shownProperties(packet.properties ?? {}),
  };
  waiting.push(one);
  if (waiting.length > KEPT) waiting = waiting.slice(-KEPT);
  if (drawing === undefined) drawing = setTimeout(draw, DRAWN_EVERY);
}

function draw(): void {
  drawing = undefined;
  messages.value = [...waiting.reverse(), ...messages.value].slice(0, KEPT);
  waiting = [];
}

function shownProperties(properties: object): [string, string][] {
  return Object.entries(properties).flatMap(([name, value]): [string, string][] => {
    if (value === undefined || value === null) return [];
    if (name === "userProperties") {
      const pairs = Object.entries(value as Record<string, string | string[]>);
      return pairs.flatMap(([key, said]): [string, string][] => [said].flat().map((each) => [key, each]));
    }
    return [[name, value instanceof Uint8Array ? hex(value, 32) : String(value)]];
  });
}

/** As text where it is some, else in hex; JSON with its structure. */
export function shown(payload: Uint8Array, as: "text" | "json" | "hex"): string {
  if (as === "hex") return hex(payload, LONGEST);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(payload);
  } catch {
    return hex(payload, LONGEST);
  }
  if (as === "text") return text;
  try {
    return laidOut(text);
  } catch {
    return text;
  }
}

function hex(payload: Uint8Array, most: number): string {
  return Array.from(payload.slice(0, most), (one) => one.toString(16).padStart(2, "0")).join(" ");
}
