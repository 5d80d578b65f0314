/** One client: why it does or does not get its messages, and what can be done. */
import { useState } from "preact/hooks";
import { api, type Missing, path } from "../core/api";
import { ago, bytes, duration, number, time } from "../core/format";
import { sentence, t, tOr } from "../core/i18n";
import { type Live, useLive } from "../core/live";
import { reasonText } from "../core/reasons";
import { go } from "../core/router";
import { may } from "../core/session";
import type { Finding, Why } from "../core/types";
import { Action } from "../ui/action";
import { type Level, Mark } from "../ui/icons";
import { Empty, MissingNote, ProblemNote } from "../ui/notes";
import { Packets } from "../ui/packets";
import { Counts, Facts, Head, Panel } from "../ui/parts";
import { Way } from "../ui/way";
import type { Page } from ".";

type Answer = Why & { missing?: Missing[] };

function Client({ id = "" }: Record<string, string>) {
  const [topic, setTopic] = useState("");
  const live = useLive<Answer>(path("clients", id, "why"), { topic }, 3000);
  const why = live.data;
  return (
    <>
      <Head title={t("client.title")} of={id}>
        <Actions id={id} live={live} />
      </Head>
      <ProblemNote problem={live.problem} />
      <MissingNote missing={why?.missing} />
      {why && (
        <>
          <Way why={why} />
          <Findings why={why} />
          <TopicField ask={setTopic} />
          <div class="panels">
            <Connection why={why} />
            <Kept why={why} />
            <Subscriptions why={why} />
          </div>
        </>
      )}
      {may("operator") && (
        <Packets id={id} words="client" title={t("client.packets")} none={t("client.no_packets")} most={200} wide />
      )}
    </>
  );
}

function Actions({ id, live }: { id: string; live: Live<Answer> }) {
  const [seconds, setSeconds] = useState("3600");
  const [reason, setReason] = useState("");
  const ban = () =>
    api.post("bans", {
      client: id,
      ...(seconds && { seconds: Number(seconds) }),
      ...(reason && { reason }),
    });
  return (
    <>
      {live.data?.client && (
        <Action
          role="operator"
          label={t("client.disconnect")}
          question={sentence("client.disconnect_question", { id })}
          run={() => api.delete(path("clients", id))}
          done={live.refresh}
        />
      )}
      <Action
        role="operator"
        danger
        label={t("client.ban")}
        question={sentence("client.ban_question", { id })}
        run={ban}
        done={live.refresh}
      >
        <label>
          <span>{t("client.ban_seconds")}</span>
          <input type="number" min="1" value={seconds} onInput={(event) => setSeconds(event.currentTarget.value)} />
        </label>
        <label>
          <span>{t("client.ban_reason")}</span>
          <input type="text" value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
        </label>
      </Action>
      {live.data?.session && (
        <Action
          role="operator"
          danger
          label={t("client.purge")}
          question={sentence("client.purge_question", { id })}
          run={() => api.delete(path("sessions", id))}
          done={() => go(["clients"])}
        />
      )}
    </>
  );
}

export function levelOf(weight: number): Level {
  return weight >= 80 ? "bad" : weight >= 60 ? "warn" : weight > 20 && weight < 40 ? "ok" : "none";
}

function Findings({ why }: { why: Why }) {
  return (
    <ol class="findings" aria-label={t("client.findings")}>
      {why.findings.map((one) => (
        <li key={`${one.code} ${one.text}`} class={levelOf(one.weight)}>
          <Mark level={levelOf(one.weight)} label={t(`level.${levelOf(one.weight)}`)} />
          <div>
            <p>{one.text}</p>
            <p class="dim">{detail(one)}</p>
          </div>
        </li>
      ))}
    </ol>
  );
}

function detail(one: Finding): string {
  const parts = [one.code, one.node];
  if (one.since !== null) parts.push(t("client.since", { time: time(one.since), ago: ago(one.since) }));
  if (one.helps) parts.push(t("client.helps", { what: one.helps }));
  return parts.join(" · ");
}

function TopicField({ ask }: { ask: (topic: string) => void }) {
  const [text, setText] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    ask(text);
  };
  return (
    <form class="inline" onSubmit={submit}>
      <label>
        <span>{t("client.why_topic")}</span>
        <input type="text" class="mono" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <button type="submit">{t("client.ask")}</button>
    </form>
  );
}

function Connection({ why: { client, node } }: { why: Why }) {
  return (
    <Panel title={t("client.connection")}>
      {!client && <Empty text={t("client.away")} />}
      {client && (
        <Facts
          of={[
            [t("clients.node"), node],
            [t("clients.peer"), client.peer],
            [t("clients.user"), client.username ?? "–"],
            ...(client.claimed_user ? [[t("clients.claimed"), client.claimed_user] as [string, string]] : []),
            [t("clients.listener"), `${client.listener}, MQTT ${client.protocol}`],
            [t("clients.since"), `${time(client.connected_at)} (${ago(client.connected_at)})`],
            [t("client.keep_alive"), client.keep_alive ? duration(client.keep_alive) : "–"],
            [t("clients.in"), bytes(client.bytes_received)],
            [t("clients.out"), bytes(client.bytes_sent)],
            [t("client.outbox"), bytes(client.outbox_bytes)],
          ]}
        />
      )}
    </Panel>
  );
}

function Kept({ why: { session } }: { why: Why }) {
  return (
    <Panel title={t("client.session")}>
      {!session && <Empty text={t("client.no_session")} />}
      {session && (
        <>
          <Facts
            of={[
              [t("client.state"), tOr(`session.${session.state}`, session.state)],
              [t("client.durable"), t(session.durable ? "action.yes" : "action.no")],
              [
                t("client.expiry"),
                session.expiry_interval ? duration(session.expiry_interval) : t("client.with_connection"),
              ],
              [t("client.inflight"), number(session.inflight)],
              [t("client.queued"), number(session.queued)],
              [t("client.backlog"), number(session.backlog)],
              [t("client.delivered"), number(session.delivered)],
            ]}
          />
          <h3>{t("client.dropped")}</h3>
          <Counts of={{ ...session.dropped, ...session.denied }} names={reasonText} empty={t("client.no_drops")} />
        </>
      )}
    </Panel>
  );
}

function Subscriptions({ why: { subscriptions } }: { why: Why }) {
  return (
    <Panel title={t("client.subscriptions")}>
      {subscriptions.length === 0 && <Empty text={t("client.no_subscriptions")} />}
      <ul class="plain-list">
        {subscriptions.map((one) => (
          <li key={one.filter}>
            <span class="mono">{one.filter}</span> <small>QoS {one.qos}</small>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

export default { path: "clients/:id", title: "client.title", view: Client } satisfies Page;
