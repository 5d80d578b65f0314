import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, beforeEach, expect, test, vi } from "vitest";

type Heard = (...values: unknown[]) => void;
const made = { on: (name: string, heard: Heard) => heards.set(name, heard), end: vi.fn() };
const heards = new Map<string, Heard>();
vi.mock("mqtt", () => ({ default: { connect: () => made } }));

let link: typeof import("../src/pages/mqtt/link");
let session: typeof import("../src/core/session");

function answer(status: number, body = "{}"): void {
  vi.stubGlobal("fetch", () => Promise.resolve(new Response(status === 204 ? null : body, { status })));
}

beforeAll(async () => {
  vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => {}, removeItem: () => {} });
  link = await import("../src/pages/mqtt/link");
  session = await import("../src/core/session");
});

beforeEach(async () => {
  vi.useFakeTimers();
  answer(200, '{"name": "ann", "role": "operator", "csrf": "c"}');
  await session.login("ann", "secret");
  const settings = {
    address: "ws://node",
    clientId: "c",
    user: "",
    password: "",
    version: 5,
    clean: true,
    keepAlive: 60,
  };
  await link.connect(settings as import("../src/pages/mqtt/link").Settings, []);
  heards.get("message")?.("a", new Uint8Array(1), { cmd: "publish", qos: 0, retain: false });
  vi.advanceTimersByTime(1000);
  heards.get("message")?.("b", new Uint8Array(1), { cmd: "publish", qos: 0, retain: false });
  heards.get("error")?.(new Error("no such host"));
  link.filters.value = [{ filter: "#", qos: 1 }];
  link.paused.value = true;
});

function nothingIsLeft(): void {
  vi.advanceTimersByTime(1000);
  expect(session.me.value).toBe(null);
  expect(made.end).toHaveBeenCalled();
  expect(link.state.value).toBe("closed");
  expect([link.messages, link.filters].map((one) => one.value)).toEqual([[], []]);
  expect([link.trouble.value, link.paused.value]).toEqual(["", false]);
}

test("whoever logs out leaves none of his messages in the page", async () => {
  expect([link.messages.value.length, link.trouble.value]).toEqual([1, "no such host"]);
  answer(204);
  await session.logout();
  nothingIsLeft();
});

test("nor does he whose login has ended", async () => {
  answer(401);
  await expect(session.changePassword("a", "b")).rejects.toThrow();
  nothingIsLeft();
});

test("a module that keeps something says what is to be forgotten", () => {
  const folder = join(import.meta.dirname, "../src/pages");
  const names = readdirSync(folder, { recursive: true, encoding: "utf-8" }).filter((name) => /\.tsx?$/.test(name));
  const sources = names.map((name) => [name, readFileSync(join(folder, name), "utf-8")] as const);
  const keeping = sources.filter(([, text]) => /^(export )?(let |const .*= (signal|new (Map|Set))\b)/m.test(text));
  expect(keeping.map(([name]) => name)).toEqual(["mqtt/link.ts"]);
  for (const [name, text] of keeping) expect(text, name).toContain("atLogout(");
});
