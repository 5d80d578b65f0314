import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { speak, tOr } from "../src/core/i18n";
import { codeText, NAMES, reasonText } from "../src/core/reasons";
import { filterFault, textFault, topicFault } from "../src/pages/mqtt/checks";
import { codeOf, faultsOf, type Outgoing } from "../src/pages/mqtt/link";

const LONG = "ä".repeat(32_768);

test("a topic that would cost the connection is not sent, and a sentence says why", () => {
  for (const good of ["a", "/", "a//b", " ", "$SYS/x", LONG.slice(1)])
    expect(topicFault(good), good.slice(0, 9)).toBe(undefined);
  expect(["", "a/+/b", "#", "a#", "a\0b", "a\ud800", LONG, "L".repeat(70_000)].map(topicFault)).toEqual([
    "mqtt.bad_empty",
    "mqtt.bad_topic",
    "mqtt.bad_topic",
    "mqtt.bad_topic",
    "mqtt.bad_character",
    "mqtt.bad_character",
    "mqtt.bad_length",
    "mqtt.bad_length",
  ]);
});

test("so is a filter whose wildcards are not whole levels", () => {
  for (const good of [
    "#",
    "+",
    "a/+/b",
    "a/#",
    "+/#",
    "$share/g/#",
    "$share/g/a/+",
    "$replay/1h/#",
    "$replay/x+01:00/a",
    "$SYS/#",
  ])
    expect(filterFault(good), good).toBe(undefined);
  for (const bad of [
    "a+",
    "a/b#",
    "#/a",
    "a/#/b",
    "+a/b",
    "$share/g",
    "$share/g/",
    "$share//a",
    "$share/+/a",
    "$replay/1h",
  ])
    expect(filterFault(bad), bad).toBe("mqtt.bad_filter");
  expect([filterFault(""), filterFault("a\0"), filterFault("F".repeat(70_000))]).toEqual([
    "mqtt.bad_empty",
    "mqtt.bad_character",
    "mqtt.bad_length",
  ]);
});

test("of a message all that has a length of two bytes is looked at", () => {
  const one = { topic: "a", contentType: "", responseTopic: "", userProperties: "" } as Outgoing;
  const fault = (more: Partial<Outgoing>, version: 4 | 5 = 5) => faultsOf({ ...one, ...more }, version).find(Boolean);
  expect(fault({})).toBe(undefined);
  expect(fault({ responseTopic: "a/#" })).toBe("mqtt.bad_topic");
  expect(fault({ contentType: LONG })).toBe("mqtt.bad_length");
  expect(fault({ userProperties: `a: ${LONG}` })).toBe("mqtt.bad_length");
  expect(fault({ contentType: LONG }, 4)).toBe(undefined);
  expect(textFault("")).toBe(undefined);
});

test("codes are said in words, also those of MQTT 3.1.1", () => {
  speak("en");
  expect([144, 135, 5, 77].map(codeText)).toEqual([
    "topic not valid (144)",
    "not authorized (135)",
    "not authorized (5)",
    "77",
  ]);
  expect(reasonText("TLS_FAILED")).toContain("certificates");
  expect(codeOf(Object.assign(new Error(""), { code: 135 }))).toBe(135);
  expect(codeOf({ packet: { granted: [1, 143] } })).toBe(143);
  expect(codeOf(new Error("no code"))).toBe(undefined);
});

test("every code of the broker has words in every language", () => {
  const errors = readFileSync(join(import.meta.dirname, "../../iot_mqtt/errors.py"), "utf-8");
  const codes = [...errors.matchAll(/^ {4}([A-Z_]+) = 0x([89A]\w)$/gm)].map(([, name = "", code = ""]) => [
    name.toLowerCase(),
    Number(`0x${code}`),
  ]);
  expect(codes.map(([name]) => name)).toEqual(NAMES);
  expect(codes.map(([, code]) => code)).toEqual(NAMES.map((_, at) => 0x80 + at));
  for (const language of ["en", "de", "zh"] as const) {
    speak(language);
    for (const name of NAMES) expect(tOr(`reason.${name}`, ""), `${language}: ${name}`).not.toBe("");
  }
});
