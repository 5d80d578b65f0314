import { expect, test } from "vitest";
import type { TopicValue } from "../src/core/types";
import { shown as shownPayload } from "../src/pages/mqtt/link";
import { shown } from "../src/pages/topics/decode";

const of = (more: Partial<TopicValue>): TopicValue => ({
  topic: "t",
  source: "watched",
  at: 1,
  qos: 0,
  publisher: "c",
  size: 1,
  ...more,
});

test("JSON has lines, other text is as it is, bytes are hex", () => {
  expect(shown(of({ payload: '{"a":1}' }))).toBe('{\n  "a": 1\n}');
  expect(shown(of({ payload: "21.5" }))).toBe("21.5");
  expect(shown(of({ payload: '{"cut": "o' }))).toBe('{"cut": "o');
  expect(shown(of({ payload: null, payload_base64: "AP8=" }))).toBe("00 ff");
});

test("numbers of a payload have all of their digits", () => {
  const text = '{"n":9007199254740993,"f":1.0,"e":1e400}';
  const lines = '{\n  "n": 9007199254740993,\n  "f": 1.0,\n  "e": 1e400\n}';
  expect(shown(of({ payload: text }))).toBe(lines);
  expect(shownPayload(new TextEncoder().encode(text), "json")).toBe(lines);
});
