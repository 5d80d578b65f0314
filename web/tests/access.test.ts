import { beforeAll, expect, test, vi } from "vitest";

let limits: typeof import("../src/pages/access/limits");
let fields: typeof import("../src/ui/fields");

beforeAll(async () => {
  vi.stubGlobal("localStorage", { getItem: () => null });
  vi.stubGlobal("navigator", { languages: ["en"] });
  limits = await import("../src/pages/access/limits");
  fields = await import("../src/ui/fields");
});

test("limits come back from their fields as they were", () => {
  const said = { message_rate: 2.5, connections: 0, rate_action: "pause", class: "application" };
  expect(limits.limitsOf(limits.textsOf(said))).toEqual(said);
  expect(limits.limitsOf(limits.NO_LIMITS)).toEqual({});
});

test("words stand between commas and lines", () => {
  expect(fields.wordsOf(" crew, press-* \n\n , a b")).toEqual(["crew", "press-*", "a b"]);
  expect(fields.wordsOf("")).toEqual([]);
});
