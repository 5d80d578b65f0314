/** Topics: a tree, opened level by level, with rates; the busiest ones; a search by any word; one topic's value and people. */
import { useState } from "preact/hooks";
import { api, type Missing, type Paged, path } from "../core/api";
import { ago, bytes, number } from "../core/format";
import { sentence, t } from "../core/i18n";
import { lines } from "../core/legible";
import { useLive } from "../core/live";
import { place, refine } from "../core/router";
import type { Branch, BusyTopics, TopicValue, TopicWhy } from "../core/types";
import { Filter } from "../ui/filter";
import { Empty, MissingNote, ProblemNote } from "../ui/notes";
import { ClientLink, Facts, Head, Panel } from "../ui/parts";
import type { Hit, Page } from ".";
import { shown } from "./topics/decode";
import "./topics/topics.css";

const STEP = 100;
const MOST = 1000;

function Topics() {
  const { contains = "", topic } = place.value.query;
  return (
    <>
      <Head title={t("topics.title")} />
      <div class="filters">
        <Filter name="contains" label={t("topics.contains")} />
      </div>
      <div class="panels">
        <Panel title={t(contains.trim() ? "topics.found" : "topics.tree")}>
          <Level key={contains} query={contains.trim() ? { contains } : { prefix: "" }} />
        </Panel>
        {topic === undefined ? <Busiest /> : <One topic={topic} />}
      </div>
    </>
  );
}

/** One level, or what a search found; those of what is closed are not asked for. */
function Level({ query }: { query: { prefix: string } | { contains: string } }) {
  const [limit, setLimit] = useState(STEP);
  const live = useLive<Paged<Branch>>("topics", { ...query, limit }, 3000);
  const whole = "contains" in query;
  const start = whole ? "" : query.prefix;
  return (
    <>
      <ProblemNote problem={live.problem} />
      <MissingNote missing={live.data?.missing} />
      {live.data?.items.length === 0 && <Empty text={t("topics.none")} />}
      <ul class="topics">
        {live.data?.items.map((one) => (
          <Row key={one.topic} one={one} name={one.topic.slice(start.length)} open={!whole && one.deeper} />
        ))}
      </ul>
      {live.data?.after && limit < MOST && (
        <button type="button" onClick={() => setLimit(Math.min(MOST, limit * 3))}>
          {t("topics.more")}
        </button>
      )}
      {live.data?.after && limit >= MOST && <p class="dim">{t("topics.too_many", { count: number(MOST) })}</p>}
    </>
  );
}

function Row({ one, name, open: opens }: { one: Branch; name: string; open: boolean }) {
  const [open, setOpen] = useState(false);
  const word = name === "" ? "∅" : name;
  return (
    <li>
      <div class="topic">
        {opens ? (
          <button type="button" class="plain mono" aria-expanded={open} onClick={() => setOpen(!open)}>
            {open ? "▾" : "▸"} {word}
          </button>
        ) : (
          <span class="mono leaf">{word}</span>
        )}
        {one.leaf && (
          <button
            type="button"
            class="plain"
            aria-label={t("topics.look_at", { topic: one.topic })}
            onClick={() => refine({ topic: one.topic })}
          >
            {t(one.retained ? "topics.look_retained" : "topics.look")}
          </button>
        )}
        <span class="dim">{opens ? t("topics.count", { count: number(one.topics) }) : ""}</span>
        <span class="end">
          {one.messages_per_second ? `${number(one.messages_per_second, 1)} ${t("unit.per_second")}` : ""}
        </span>
      </div>
      {open && <Level query={{ prefix: `${one.topic}/` }} />}
    </li>
  );
}

function Busiest() {
  const [by, setBy] = useState("messages");
  const live = useLive<BusyTopics & { missing?: Missing[] }>("topics/top", { by, limit: 20 }, 3000);
  return (
    <Panel title={t("topics.busiest")}>
      <label>
        <span>{t("topics.by")}</span>
        <select value={by} onChange={(event) => setBy(event.currentTarget.value)}>
          <option value="messages">{t("topics.messages")}</option>
          <option value="bytes">{t("topics.bytes")}</option>
        </select>
      </label>
      <ProblemNote problem={live.problem} />
      <MissingNote missing={live.data?.missing} />
      {live.data?.items.length === 0 && <Empty text={t("topics.counting")} />}
      <ul class="topics busiest">
        {live.data?.items.map((one) => (
          <li key={one.topic}>
            <div class="topic">
              <button type="button" class="plain mono" onClick={() => refine({ topic: one.topic })}>
                {one.topic}
              </button>
              <span class="end">
                {number(one.messages_per_second, 1)} {t("unit.per_second")} · {bytes(one.bytes_per_second)}
                {t("unit.per_second")}
              </span>
            </div>
            <div class="dim">
              {sentence("topics.from_to", { from: one.publishers.join(", "), count: number(one.receivers) })}
            </div>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function One({ topic }: { topic: string }) {
  const value = useLive<TopicValue>(path("topics", topic, "last"), {}, 2000);
  const why = useLive<TopicWhy & { missing?: Missing[] }>(path("topics", topic, "why"), {}, 5000);
  const last = value.data;
  return (
    <Panel title={topic}>
      <button type="button" onClick={() => refine({ topic: undefined })}>
        {t("topics.close")}
      </button>
      <ProblemNote problem={value.problem} />
      <ProblemNote problem={why.problem} />
      <MissingNote missing={why.data?.missing} />
      <h3>{t("topics.value")}</h3>
      {last && !last.source && <Empty text={t("topics.no_value")} />}
      {last?.source && (
        <>
          <pre class="said" tabIndex={0}>
            {lines(shown(last))}
          </pre>
          <Facts
            of={[
              [t("topics.source"), t(last.source === "retained" ? "topics.retained" : "topics.watched")],
              [t("topics.came"), ago(last.at)],
              [t("topics.size"), bytes(last.size)],
              ["QoS", number(last.qos)],
              [t("topics.publisher"), last.publisher ? <ClientLink id={last.publisher} /> : "–"],
            ]}
          />
        </>
      )}
      <h3>{t("topics.publishers")}</h3>
      <ul class="plain-list">
        {why.data?.publishers.map((one) => (
          <li key={one.client_id}>
            <ClientLink id={one.client_id} /> <small>{ago(one.at)}</small>
          </li>
        ))}
      </ul>
      {why.data?.publishers.length === 0 && <Empty text={t("topics.no_publishers")} />}
      <h3>{t("topics.subscribers", { count: number(why.data?.subscriptions ?? 0) })}</h3>
      <ul class="plain-list">
        {why.data?.subscribers.map((one) => (
          <li key={`${one.client_id} ${one.filter}`}>
            <ClientLink id={one.client_id} /> <span class="mono">{one.filter}</span> <small>QoS {one.qos}</small>
          </li>
        ))}
      </ul>
      {why.data?.findings.map((one) => (
        <p key={one.text} class="dim">
          {one.text}
        </p>
      ))}
    </Panel>
  );
}

async function search(text: string, signal: AbortSignal): Promise<Hit[]> {
  const found = await api.get<Paged<Branch>>("topics", { contains: text, limit: 5 }, signal);
  return found.items.map((one) => ({ text: one.topic, parts: ["topics"], query: { topic: one.topic } }));
}

export default {
  path: "topics",
  title: "topics.title",
  menu: { group: "traffic", order: 20 },
  role: "operator",
  view: Topics,
  search,
} satisfies Page;
