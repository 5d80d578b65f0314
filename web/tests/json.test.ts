import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { api } from "../src/core/api";
import { asJson, laidOut, type NotJson, Raw, readJson, typedJson } from "../src/core/json";
import { charted } from "../src/pages/devices/trail";

const SRC = join(import.meta.dirname, "../src");
/** Beyond 2^53, and what else a double would change. */
const CHANGED = ["9007199254740993", "-1152921504606846977", "1152921504606846976", "1e400", "0.12345678901234567891"];
const KEPT = ["0", "-1", "21.5", "1.0", "0.50", "1E3", "1e+16", "9007199254740992", "1764459513.123456", "5e-324"];

test("a number that a double would change is kept as its text, and every other is a number", () => {
  for (const text of CHANGED) {
    const { value } = readJson(`{"value": ${text}, "other": [1]}`) as { value: unknown };
    expect(value).toBeInstanceOf(Raw);
    expect([String(value), asJson(value), Number(value)]).toEqual([text, text, Number(text)]);
  }
  for (const text of KEPT) expect(readJson(`[${text}]`), text).toEqual([Number(text)]);
});

test("what is read is what JSON.parse reads, but for those numbers", () => {
  const text = '{"a": [1, {"b": null, "": [], "{": {}}, true], "__proto__": {"x": false}, "s": "q\\"\\\\ \\u00e4, [1"}';
  expect(readJson(text)).toEqual(JSON.parse(text));
  const big = readJson(text.replace("null", "9007199254740993"));
  expect(JSON.parse(asJson(big).replace("9007199254740993", "null"))).toEqual(JSON.parse(text));
  for (const wrong of ["", "{", "[1,]", "01", "nul", '{"a":1}}']) expect(() => readJson(wrong), wrong).toThrow();
});

test("JSON is laid out to the digit, whatever stands twice in it", () => {
  const text = '{"n":9007199254740993,"f":1.0,"e":1e400,"dup":1,"dup":2,"__proto__":{"x":[]}, "t": "a\\u00e4 \\n"}';
  const lines = ['"n": 9007199254740993,', '"f": 1.0,', '"e": 1e400,', '"dup": 1,', '"dup": 2,'];
  expect(laidOut(text)).toBe(`{\n  ${lines.join("\n  ")}\n  "__proto__": {\n    "x": []\n  },\n  "t": "aä \\n"\n}`);
  const plain = '{"a": [1, {"b": null, "c": {}, "d": []}, "x"], "e": -0.5}';
  expect(laidOut(plain)).toBe(JSON.stringify(JSON.parse(plain), null, 2));
  expect(() => laidOut('{"cut": "o')).toThrow();
});

test("what is deep or long is laid out in a moment", () => {
  const deep = laidOut("[".repeat(8000) + "]".repeat(8000));
  expect(deep.length).toBeLessThan(2_000_000);
  expect(laidOut(`["${"x".repeat(5_000_000)}"]`).length).toBeGreaterThan(5_000_000);
});

test("what was typed is sent as it was typed", async () => {
  const sent: string[] = [];
  vi.stubGlobal("fetch", async (_: string, options: { body: string }) => {
    sent.push(options.body);
    return new Response('{"end": 9007199254740993}');
  });
  const values = '{"neg": -1152921504606846977, "f": 1.0, "twice": 1, "twice": 2}';
  const answer = await api.post<{ end: number }>("shadows/x", {
    desired: typedJson(values),
    version: 3,
    left: undefined,
  });
  expect(sent).toEqual([`{"desired":${values},"version":3}`]);
  expect(String(answer.end)).toBe("9007199254740993");
  expect(() => typedJson("{'a': 1}")).toThrow(SyntaxError);
});

test("a number with all of its digits is drawn where a double is nearest", () => {
  expect(charted(readJson("-1152921504606846977"))).toBe(Number("-1152921504606846977"));
  expect(charted(readJson("1e400"))).toBeNull();
});

test("nothing but core/json.ts reads JSON", () => {
  const sources = readdirSync(SRC, { recursive: true, encoding: "utf-8" }).filter((name) => /\.tsx?$/.test(name));
  const reading = sources.filter((name) => readFileSync(join(SRC, name), "utf-8").includes("JSON.parse("));
  expect(reading).toEqual(["core/json.ts"]);
});

test("of what is no JSON it is said where that begins", () => {
  const places = {
    "": "1, column 1",
    "{temperature: 21}": "1, column 2",
    "{'a': 1}": "1, column 2",
    hello: "1, column 1",
    '{"a": 1,\n "b": 2,}': "2, column 9",
    '{"a": 1': "1, column 8",
    '{"a" 1}': "1, column 6",
    "[1 2]": "1, column 4",
    "[1,]": "1, column 4",
    "[1}": "1, column 3",
    "1]": "1, column 2",
    '{\n  "a": nul\n}': "2, column 8",
    '["x': "1, column 2",
    "[01]": "1, column 2",
    '{"a": 1} {': "1, column 10",
    "{:1}": "1, column 2",
  };
  for (const [text, place] of Object.entries(places)) {
    let found: unknown;
    try {
      typedJson(text);
    } catch (error) {
      found = error;
    }
    const { line, column } = (found as NotJson).place;
    expect(`${line}, column ${column}`, text).toBe(place);
  }
});
