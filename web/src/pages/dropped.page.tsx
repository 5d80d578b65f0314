/** What did not arrive: dropped messages, refused requests, clients that were not let in; the last of each, and the sums. */
import { api, type Missing } from "../core/api";
import { ago, number, time } from "../core/format";
import { t } from "../core/i18n";
import { useLive } from "../core/live";
import { LOST } from "../core/rates";
import { reasonText } from "../core/reasons";
import { place, refine } from "../core/router";
import type { Dropped, DroppedItem } from "../core/types";
import { Filter } from "../ui/filter";
import { Empty, MissingNote, ProblemNote } from "../ui/notes";
import { ClientLink, Counts, claimed, Head, Panel } from "../ui/parts";
import type { Page } from ".";
import "./dropped.css";

const MOST = 200;

function DroppedMessages() {
  const { kind = "", reason: code = "", topic = "", client = "", publisher = "" } = place.value.query;
  const query = { kind, reason: code, topic, client, publisher, limit: MOST };
  const live = useLive<Dropped & { missing?: Missing[] }>("dropped", query, 3000);
  const totals = live.data?.totals;
  return (
    <>
      <Head title={t("dropped.title")} />
      <ProblemNote problem={live.problem} />
      <MissingNote missing={live.data?.missing} />
      <div class="filters">
        <label>
          <span>{t("dropped.kind")}</span>
          <select
            name="kind"
            value={kind}
            onChange={(event) => refine({ kind: event.currentTarget.value, reason: "" })}
          >
            <option value="">{t("dropped.all")}</option>
            {LOST.map((one) => (
              <option key={one} value={one}>
                {t(`dropped.kind_${one}`)}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span>{t("dropped.reason")}</span>
          <select name="reason" value={code} onChange={(event) => refine({ reason: event.currentTarget.value })}>
            <option value="">{t("dropped.all")}</option>
            {codes(totals, kind, code).map((one) => (
              <option key={one} value={one}>
                {reasonText(one)}
              </option>
            ))}
          </select>
        </label>
        <Filter name="topic" label={t("dropped.topic")} />
        <Filter name="client" label={t("dropped.client")} />
        <Filter name="publisher" label={t("dropped.publisher")} />
      </div>
      <section class="dropped panel" aria-label={t("dropped.last")} tabIndex={0}>
        {live.data?.items.length === 0 && <Empty text={t("dropped.none")} />}
        {live.data && live.data.items.length > 0 && <Last items={live.data.items} />}
      </section>
      <div class="panels">
        {LOST.map((one) => (
          <Panel key={one} title={t(`dropped.kind_${one}`)}>
            <Counts of={totals?.[one] ?? {}} names={reasonText} empty={t("dropped.nothing")} />
          </Panel>
        ))}
      </div>
    </>
  );
}

/** The reasons that there were, and the one that is looked for. */
function codes(totals: Dropped["totals"] | undefined, kind: string, chosen: string): string[] {
  const those = LOST.filter((one) => kind === "" || one === kind).flatMap((one) => Object.keys(totals?.[one] ?? {}));
  return [...new Set(chosen === "" ? those : [...those, chosen])].sort();
}

function Last({ items }: { items: DroppedItem[] }) {
  return (
    <table class="small">
      <thead>
        <tr>
          <th>{t("dropped.when")}</th>
          <th>{t("dropped.reason")}</th>
          <th>{t("dropped.topic_head")}</th>
          <th>{t("dropped.from")}</th>
          <th>{t("dropped.to")}</th>
          <th class="end">{t("dropped.count")}</th>
          <th>{t("clients.node")}</th>
        </tr>
      </thead>
      <tbody>
        {items.map((one) => (
          <tr key={JSON.stringify([one.node, one.kind, one.code, one.client_id, one.topic, one.peer, one.first])}>
            <td title={time(one.last)}>
              {ago(one.last)}
              {one.count > 1 && <small> {t("dropped.since", { time: time(one.first) })}</small>}
            </td>
            <td>
              <small>{t(`dropped.kind_${one.kind}`)}</small>
              <br />
              {reasonText(one.code)}
              {one.detail && <small> {one.detail}</small>}
            </td>
            <td class="mono">{one.topic || "–"}</td>
            <td>{one.publisher ? <ClientLink id={one.publisher} /> : "–"}</td>
            <td>
              {one.client_id ? <ClientLink id={one.client_id} /> : "–"}
              {one.peer && <small> {[who(one), one.peer].filter(Boolean).join(", ")}</small>}
            </td>
            <td class="end">{number(one.count)}</td>
            <td class="mono">{one.node}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

async function search(text: string, signal: AbortSignal) {
  const found = await api.get<Dropped>("dropped", { topic: text, limit: 5 }, signal);
  return found.items.map((one) => ({
    text: one.topic,
    more: reasonText(one.code),
    parts: ["dropped"],
    query: { topic: one.topic },
  }));
}

export default {
  path: "dropped",
  title: "dropped.title",
  menu: { group: "now", order: 10 },
  role: "operator",
  view: DroppedMessages,
  search,
} satisfies Page;

/** Of a client that was not let in: the verified user, or what it calls itself. */
function who({ user, claimed_user }: DroppedItem): string | null {
  return user ?? claimed(claimed_user);
}
