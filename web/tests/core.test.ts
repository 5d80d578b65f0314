import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { path } from "../src/core/api";
import { figuresOf, quantile, ratesOf, retainedOf } from "../src/core/rates";
import { linesOf } from "../src/core/series";
import type { Finding, Status, Why } from "../src/core/types";
import { placeOf, repeated, standing } from "../src/core/way";
import { Chunks } from "../src/ui/chunks";

const SRC = join(import.meta.dirname, "../src");

describe("addresses", () => {
  test("have every name in them as one part, dots included", () => {
    expect(path("clients", "a/b ü", "why")).toBe("clients/a%2Fb%20%C3%BC/why");
    for (const [name, part] of [
      [".", "~."],
      ["..", "~.."],
      ["~..", "~~.."],
      ["...", "..."],
      ["~a", "~a"],
    ] as const) {
      expect(path("clients", name, "why")).toBe(`clients/${part}/why`);
      expect(new URL(`http://node/${path("clients", name, "why")}`).pathname).toBe(`/clients/${part}/why`);
    }
  });
});

describe("words", () => {
  const languages = ["en", "de", "zh"];
  const words = (language: string) => {
    const folder = join(SRC, "i18n", language);
    const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
    const pairs = files.flatMap((name) =>
      Object.entries(JSON.parse(readFileSync(join(folder, name), "utf-8")) as object),
    );
    expect(new Set(pairs.map(([key]) => key)).size, `${language}: a key stands twice`).toBe(pairs.length);
    return Object.fromEntries(pairs) as Record<string, string>;
  };

  test("are there in every language, with the same values in them", () => {
    const [en, ...others] = languages.map(words) as [Record<string, string>, ...Record<string, string>[]];
    const values = (text: string) => (text.match(/\{\w+\}/g) ?? []).sort().join();
    for (const other of others) {
      expect(Object.keys(other).sort()).toEqual(Object.keys(en).sort());
      for (const [key, text] of Object.entries(en)) expect(values(other[key] ?? ""), key).toBe(values(text));
    }
  });

  test("are there for every key that a page asks for", () => {
    const en = words("en");
    const sources = readdirSync(SRC, { recursive: true, encoding: "utf-8" }).filter((name) => /\.tsx?$/.test(name));
    const asked = sources.flatMap((name) =>
      [...readFileSync(join(SRC, name), "utf-8").matchAll(/\b(?:t\(|title: )"([a-z]+\.[\w.]+)"/g)].map((one) => one[1]),
    );
    expect(asked.length).toBeGreaterThan(50);
    expect(asked.filter((key) => !((key as string) in en))).toEqual([]);
  });
});

describe("places", () => {
  let router: typeof import("../src/core/router");
  beforeAll(async () => {
    vi.stubGlobal("location", { hash: "" });
    vi.stubGlobal("window", { addEventListener: () => {} });
    router = await import("../src/core/router");
  });

  test("of any name are read as they were written", () => {
    for (const id of ["press-7", "a/b", "?x=1&y#z", "<img src=x onerror=alert(1)>", "100%", "", "日本"]) {
      const found = router.read(router.href(["clients", id], { filter: id }));
      expect(found.parts[0]).toBe("clients");
      expect(found.parts[1] ?? "").toBe(id);
      expect(found.query.filter ?? "").toBe(id);
    }
    expect(router.read("#/clients/%zz").parts).toEqual(["clients", "%zz"]);
  });

  test("fit patterns", () => {
    expect(router.match("clients/:id", ["clients", "a/b"])).toEqual({ id: "a/b" });
    expect(router.match("clients", ["clients", "x"])).toBeNull();
    expect(router.match("", [])).toEqual({});
  });
});

describe("a list that comes in pages", () => {
  test("asks for what is looked at, and for more as one goes on", () => {
    const list = new Chunks<number>();
    const fill = (first: number, end: number) => {
      const asked: (string | undefined)[] = [];
      for (const { index, after } of list.needed(first, end)) {
        asked.push(after);
        const start = after === undefined ? 0 : Number(after);
        list.put(index, [start, start + 1, start + 2, start + 3], start + 4 < 12 ? String(start + 4) : null);
      }
      return asked;
    };
    expect(fill(0, 3)).toEqual([undefined]);
    expect(list.complete).toBe(false);
    expect(fill(2, 7)).toEqual([undefined, "4"]);
    expect(fill(5, 100)).toEqual(["4", "8"]);
    expect(list.complete).toBe(true);
    expect([list.count, list.slice(3, 9)]).toEqual([12, [3, 4, 5, 6, 7, 8]]);
    // Nothing but what is in view is asked for again.
    expect(fill(9, 11)).toEqual(["8"]);
  });

  test("asks for what is further down, and for no page twice, while somebody goes on", () => {
    const list = new Chunks<number>();
    const asked: (string | undefined)[] = [];
    let end = 3;
    const fill = () => {
      for (const { index, after } of list.further(() => end)) {
        asked.push(after);
        list.put(index, [0, 0, 0, 0], list.count < 16 ? String(list.count + 4) : null);
        end = 14;
      }
    };
    fill();
    // The first page is not further down.
    expect(asked).toEqual([]);
    list.put(0, [0, 0, 0, 0], "4");
    fill();
    expect(asked).toEqual([]);
    end = 6;
    fill();
    expect(asked).toEqual(["4", "8", "12"]);
    end = 1000;
    fill();
    expect([asked.length, list.complete, list.count]).toEqual([4, true, 20]);
  });

  test("forgets what came behind a page that ends elsewhere now", () => {
    const list = new Chunks<string>();
    list.put(0, ["a", "b"], "b");
    list.put(1, ["c"], null);
    list.put(0, ["a", "aa"], "aa");
    expect([list.count, list.complete]).toEqual([2, false]);
    expect([...list.needed(0, 2)].length).toBe(1);
  });
});

test("a way to write numbers and times is made once, not for each of them", async () => {
  vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => {} });
  vi.stubGlobal("navigator", { languages: ["en"] });
  const { ago, bytes, number, short, time } = await import("../src/core/format");
  const { language, speak } = await import("../src/core/i18n");
  const before = language.value;
  const { NumberFormat, DateTimeFormat } = Intl;
  let made = 0;
  const counted = <Format extends typeof NumberFormat | typeof DateTimeFormat>(real: Format): Format =>
    new Proxy(real, {
      construct: (target, values) => {
        made += 1;
        return Reflect.construct(target, values);
      },
    });
  Object.assign(Intl, { NumberFormat: counted(NumberFormat), DateTimeFormat: counted(DateTimeFormat) });
  speak("en");
  for (let value = 0; value < 500; value++) {
    number(value);
    short(value * 100);
    bytes(value * 1000);
    ago(value);
    time(value);
  }
  expect(number(1234567.5, 1)).toBe("1,234,567.5");
  // Whole numbers, those of one digit, short ones below a thousand and above, times with their date.
  expect(made).toBe(5);
  // Another language is written in its own way at once.
  speak("de");
  expect(number(1234567.5, 1)).toBe("1.234.567,5");
  speak(before);
  Object.assign(Intl, { NumberFormat, DateTimeFormat });
});

test("an answer that is on its way is not given up for those who cannot wait", async () => {
  vi.stubGlobal("document", { hidden: false, addEventListener: () => {} });
  const { Poll } = await import("../src/core/live");
  const answers: ((value: string) => void)[] = [];
  const signals: AbortSignal[] = [];
  const ask = (signal: AbortSignal) => {
    signals.push(signal);
    return new Promise<string>((done) => answers.push(done));
  };
  const found: (string | undefined)[] = [];
  const poll = new Poll<string>(ask, 0, (data) => found.push(data));
  for (let hurry = 0; hurry < 50; hurry++) poll.hurry(ask);
  expect([signals.length, signals[0]?.aborted]).toEqual([1, false]);
  answers[0]?.("first");
  await vi.waitFor(() => expect(found).toEqual(["first"]));
  poll.hurry(ask);
  answers[1]?.("further");
  await vi.waitFor(() => expect(found).toEqual(["first", "further"]));
  poll.stop();
});

test("shares of how long acknowledgements waited", () => {
  expect(quantile(0.5, {})).toBeUndefined();
  expect(quantile(0.5, { "0.5": 0, "+Inf": 0 })).toBeUndefined();
  // Not in the order of their texts, and as the node counts them.
  expect(quantile(0.5, { "10.0": 0, "2.5": 4, "+Inf": 0 })).toBe(1.25);
  expect(quantile(0.99, { "1.0": 1, "2.5": 0, "+Inf": 9 })).toBe(2.5);
});

test("figures of another life of a node give no rates", () => {
  const at = (time: number, received: number, of = "n1 1") => ({
    ...{
      at: time,
      of,
      received,
      delivered: 0,
      dropped: 0,
      bytesIn: 0,
      bytesOut: 0,
      waits: {},
    },
    lost: { dropped: {}, refused: {}, denied: {}, connect: {} },
  });
  expect(ratesOf(at(10, 100), at(12, 160))?.received).toBe(30);
  expect(ratesOf(at(10, 100), at(12, 160, "n1 2"))).toBeUndefined();
  expect(ratesOf(at(10, 100), at(10, 160))).toBeUndefined();
});

test("the past of nodes is added up, or the largest, at its times", () => {
  const node = (begin: number, ...values: (number | null)[]) => ({
    ...{ begin, step: 10 },
    series: [
      { name: "clients", unit: "clients", over_nodes: "sum" as const, values },
      { name: "loop_lag", unit: "seconds", over_nodes: "max" as const, values },
    ],
  });
  const lines = linesOf([node(100, 1, 2, null), node(110, 5, null, 7)], 3600);
  expect(lines.times).toEqual([100, 110, 120, 130]);
  expect(lines.of("clients")).toEqual([1, 7, null, 7]);
  expect(lines.of("loop_lag")).toEqual([1, 5, null, 7]);
  expect(linesOf([], 3600).times).toEqual([]);
});

describe("the way of a message", () => {
  const finding = (code: string, weight: number): Finding => ({
    code,
    weight,
    text: "",
    since: null,
    node: "n1",
    helps: null,
  });

  test("is held up where the weightiest finding is", () => {
    const why = { findings: [finding("window_full", 100), finding("near_miss", 40)] } as unknown as Why;
    const found = standing(why).filter((one) => one.finding);
    expect(found.map((one) => one.name)).toEqual(["window"]);
  });

  test("readings that are dropped are told of their device and its gateway", () => {
    const dropped = (topic: string) => ({
      ...finding("repeated_readings", 80),
      text: `not published: 7 times ('${topic}')`,
    });
    const findings = [dropped("up/line-1/press"), dropped("up/line-1/press-2"), finding("well", 21)];
    const why = { findings } as unknown as Why;
    expect(repeated(why, "line-1")).toHaveLength(2);
    expect(repeated(why, "line-1/press")).toEqual(["not published: 7 times ('up/line-1/press')"]);
    expect(repeated(why, "line-1/pump")).toEqual([]);
  });

  test("has a place for what the broker finds", () => {
    const places = {
      ...{
        window_full: "window",
        slow_reader: "connection",
        outbox_full: "connection",
        no_subscription: "subscription",
      },
      ...{
        denied_publish: "publisher",
        banned: "client",
        never_seen: "client",
        disk_full: "node",
        node_drained: "node",
      },
      ...{ retained_not_sent: "subscription", retained_limit: "client" },
      ...{ repeated_readings: "publisher", acknowledgements_held: "publisher", uplink_only: "node" },
      ...{ published_before: "publisher", publisher_limited: "publisher" },
      ...{ reading: "session", session_expired: "session", denied_subscribe: "subscription", grid_trouble: "node" },
    };
    for (const [code, place] of Object.entries(places)) expect(placeOf(code), code).toBe(place);
  });
});

test("a figure beyond 2^53 is written with all of its digits", async () => {
  const { number, short } = await import("../src/core/format");
  const { readJson } = await import("../src/core/json");
  const figure = readJson("9007199254740993") as number;
  expect([number(figure), short(figure)]).toEqual(["9,007,199,254,740,993", "9010T"]);
});

test("what was refused counts beside what was dropped, and nothing twice", () => {
  const node = (counters: object) =>
    ({
      node_id: "n1",
      started_at: 1,
      uptime: 2,
      counters: {
        dropped: {},
        forwards_dropped: {},
        messages_refused: {},
        limited: {},
        denied: {},
        connects_refused: {},
        ...counters,
      },
    }) as unknown as Status;
  const refused = node({ connects_refused: { QUOTA_EXCEEDED: 2, BANNED: 11 }, denied: { publish: 4 } });
  // A client beyond a limit is one that was not let in; a publisher beyond its rate only waits.
  const limited = node({ limited: { connections: 2, messages: 9, subscriptions: 3 }, forwards_dropped: { full: 1 } });
  const figures = figuresOf([refused, limited, node({ dropped: { full: 5 } })]);
  expect(figures?.lost).toEqual({
    dropped: { full: 6 },
    refused: { subscriptions: 3 },
    denied: { publish: 4 },
    connect: { QUOTA_EXCEEDED: 2, BANNED: 11 },
  });
  expect(figures?.dropped).toBe(26);
});

test("what is retained is one set of the cluster: shown once, as a node has it that has loaded all", () => {
  const has = (ready: boolean, retained: number) => ({ ready, retained }) as unknown as Status;
  expect(retainedOf([has(true, 150), has(true, 150), has(true, 150)])).toBe(150);
  expect(retainedOf([has(false, 20), has(true, 150)])).toBe(150);
  expect(retainedOf([has(true, 3), has(false, 20)])).toBe(3);
  expect(retainedOf([has(false, 20)])).toBe(20);
  expect(retainedOf([])).toBeUndefined();
});
