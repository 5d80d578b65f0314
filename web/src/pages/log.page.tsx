/** The log that messages of sessions that stay are kept in: room, generations, streams, where a session is, and replays. */
import { useState } from "preact/hooks";
import { type Paged, path } from "../core/api";
import { ago, bytes, number, time } from "../core/format";
import { t, tOr } from "../core/i18n";
import { useLive } from "../core/live";
import { place, refine } from "../core/router";
import { may } from "../core/session";
import type { Backlog, Generation, LogFigures, Stream } from "../core/types";
import { type Level, Mark } from "../ui/icons";
import { Empty, MissingNote, ProblemNote } from "../ui/notes";
import { ClientLink, Facts, Head, Panel } from "../ui/parts";
import { DataTable } from "../ui/table";
import type { Page } from ".";
import { Messages, Replay } from "./log/replay";
import "./log.css";

function Log() {
  const { generation, client = "", replay, since } = place.value.query;
  return (
    <>
      <Head title={t("log.title")} />
      <Rooms />
      <div class="panels">
        <Position client={client} />
        {may("operator") && <Replay />}
      </div>
      {replay !== undefined && may("operator") && <Messages filter={replay} since={since ?? "1h"} />}
      <Generations chosen={generation} />
      <h2 class="log-head">
        {t(generation === undefined ? "log.streams" : "log.streams_of", { generation: generation ?? "" })}
      </h2>
      <Streams generation={generation} />
    </>
  );
}

const LEVELS: Record<string, Level> = { none: "ok", alarm: "warn", full: "bad" };

/** Of each node: how much there is, and how much room. */
function Rooms() {
  const live = useLive<Paged<LogFigures>>("log", { node: "*" }, 3000);
  return (
    <>
      <ProblemNote problem={live.problem} />
      <MissingNote missing={live.data?.missing} />
      <div class="panels">
        {live.data?.items.map((one) => (
          <Panel key={one.node} title={one.node ?? ""}>
            <p>
              <Mark level={LEVELS[one.disk_level] ?? "warn"} /> {t(`log.disk_${one.disk_level}`)}
            </p>
            {one.trouble && <p class="note bad">{one.trouble}</p>}
            <Facts
              of={[
                [t("log.messages"), `${number(one.messages)} · ${bytes(one.bytes)}`],
                [
                  t("log.used"),
                  one.disk_limit ? `${bytes(one.disk_used)} / ${bytes(one.disk_limit)}` : bytes(one.disk_used),
                ],
                [t("log.free"), bytes(one.disk_free)],
                [t("log.generations"), number(one.generations)],
                [t("log.streams"), number(one.streams)],
                [t("log.uncommitted"), bytes(one.uncommitted_bytes)],
                [t("log.damaged"), number(one.damaged_pages)],
              ]}
            />
          </Panel>
        ))}
      </div>
    </>
  );
}

/** How far a session has read, filter by filter. */
function Position({ client }: { client: string }) {
  const [text, setText] = useState(client);
  const live = useLive<Backlog>(client ? path("sessions", client, "backlog") : null, {}, 3000);
  const submit = (event: Event) => {
    event.preventDefault();
    refine({ client: text });
  };
  return (
    <Panel title={t("log.position")}>
      <form class="inline" onSubmit={submit}>
        <label>
          <span>{t("clients.id")}</span>
          <input name="client" class="mono" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <button type="submit">{t("log.show")}</button>
      </form>
      <ProblemNote problem={live.problem} />
      {live.data && (
        <>
          <p>
            <ClientLink id={client} />{" "}
            {t(live.data.complete ? "log.waits" : "log.waits_least", {
              count: number(live.data.messages),
              bytes: bytes(live.data.bytes),
            })}
          </p>
          {live.data.claims.length === 0 && <Empty text={t("log.no_claims")} />}
          <ul class="plain-list">
            {live.data.claims.map((one) => (
              <li key={`${one.kind} ${one.filter}`}>
                <span class="mono">{one.filter}</span>{" "}
                <small>
                  {tOr(`log.kind_${one.kind}`, one.kind)} ·{" "}
                  {t("log.at", { position: number(one.position), count: number(one.messages) })}
                </small>
              </li>
            ))}
          </ul>
        </>
      )}
    </Panel>
  );
}

function Generations({ chosen }: { chosen: string | undefined }) {
  const live = useLive<Paged<Generation>>("log/generations", { limit: 200 }, 5000);
  return (
    <Panel title={t("log.generations")} wide>
      <ProblemNote problem={live.problem} />
      {live.data?.items.length === 0 && <Empty text={t("log.no_generations")} />}
      <div role="group" class="generations" tabIndex={0} aria-label={t("log.generations")}>
        <table class="small">
          <thead>
            <tr>
              <th>{t("log.generation")}</th>
              <th>{t("log.began")}</th>
              <th class="end">{t("log.messages")}</th>
              <th class="end">{t("log.bytes")}</th>
              <th class="end">{t("log.streams")}</th>
              <th>{t("clients.node")}</th>
            </tr>
          </thead>
          <tbody>
            {live.data?.items.map((one) => (
              <tr key={`${one.node} ${one.generation}`}>
                <td>
                  <button
                    type="button"
                    class="plain"
                    aria-pressed={chosen === String(one.generation)}
                    onClick={() =>
                      refine({ generation: chosen === String(one.generation) ? undefined : String(one.generation) })
                    }
                  >
                    {one.generation} {one.closed ? t("log.closed") : t("log.open")}
                  </button>
                </td>
                <td title={time(one.began_at)}>{ago(one.began_at)}</td>
                <td class="end">{number(one.messages)}</td>
                <td class="end">{bytes(one.bytes)}</td>
                <td class="end">{number(one.streams)}</td>
                <td class="mono">{one.node}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

function Streams({ generation }: { generation: string | undefined }) {
  return (
    <DataTable<Stream>
      label={t("log.streams")}
      path="log/streams"
      query={{ generation }}
      id={(one) => `${one.node} ${one.generation} ${one.stream}`}
      empty={t("log.no_streams")}
      columns={[
        {
          key: "structure",
          title: t("log.structure"),
          width: "minmax(10rem, 3fr)",
          cell: (one) => <span class="mono">{one.structure}</span>,
        },
        {
          key: "generation",
          title: t("log.generation"),
          width: "6rem",
          cell: (one) => number(one.generation),
          end: true,
          wide: true,
        },
        { key: "shard", title: t("log.shard"), width: "5rem", cell: (one) => number(one.shard), end: true, wide: true },
        { key: "pages", title: t("log.pages"), width: "6rem", cell: (one) => number(one.pages), end: true, wide: true },
        { key: "messages", title: t("log.messages"), width: "7rem", cell: (one) => number(one.messages), end: true },
        { key: "bytes", title: t("log.bytes"), width: "6rem", cell: (one) => bytes(one.bytes), end: true },
        { key: "node", title: t("clients.node"), width: "7rem", cell: (one) => one.node ?? "", wide: true },
      ]}
    />
  );
}

export default { path: "log", title: "log.title", menu: { group: "traffic", order: 50 }, view: Log } satisfies Page;
