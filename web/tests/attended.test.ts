import { beforeEach, expect, test, vi } from "vitest";

let core: typeof import("../src/core/api");
/** What each call said of itself: whether somebody attends the page. */
let said: boolean[];
let answer: () => Promise<Response>;

beforeEach(async () => {
  vi.resetModules();
  said = [];
  answer = () => Promise.resolve(new Response("{}"));
  vi.stubGlobal("fetch", (_: string, { headers }: { headers: Record<string, string> }) => {
    said.push(!("X-Unattended" in headers));
    return answer();
  });
  core = await import("../src/core/api");
});

test("calls say whether somebody has done something since the one before", async () => {
  for (let calls = 0; calls < 3; calls += 1) await core.api.get("status");
  core.attend();
  core.attend();
  await core.api.get("status");
  await core.api.post("publish", {});
  expect(said).toEqual([true, false, false, true, false]);
});

test("what no answer came to is said again", async () => {
  answer = () => Promise.reject(new DOMException("", "AbortError"));
  for (let calls = 0; calls < 2; calls += 1) await expect(core.api.get("status")).rejects.toThrow();
  answer = () => Promise.resolve(new Response("{}"));
  for (let calls = 0; calls < 2; calls += 1) await core.api.get("status");
  expect(said).toEqual([true, true, true, false]);
});
