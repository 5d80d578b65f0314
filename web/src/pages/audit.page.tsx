/** What was changed, by whom; and whether the records are whole, and from when on they are there. */
import { useState } from "preact/hooks";
import { api, type Missing, type Problem } from "../core/api";
import { number, time } from "../core/format";
import { t } from "../core/i18n";
import { lines } from "../core/legible";
import { problemOf } from "../core/live";
import { place, refine } from "../core/router";
import { Tick } from "../ui/fields";
import { Filter } from "../ui/filter";
import { Badge } from "../ui/icons";
import { MissingNote, ProblemNote } from "../ui/notes";
import { Head, Panel } from "../ui/parts";
import { type Column, DataTable } from "../ui/table";
import type { Page } from ".";
import type { AuditPage, AuditRecord, Kept, Verified } from "./settings/types";

type Answer = Verified & { missing?: Missing[] };

const moment = (text: string) => time(Date.parse(text) / 1000);
const at = (one: AuditRecord) => moment(one.time);

/** A user and a token may have the same name. */
const whoOf = (one: AuditRecord) => (one.token ? t("audit.token", { name: one.who, id: one.token }) : one.who);

const keptOf = ({ chain, since, complete }: Kept) =>
  t(complete ? "audit.complete" : "audit.removed", { chain: t(`audit.chain.${chain}`), since: moment(since) });

function columns(show: (one: AuditRecord) => void): Column<AuditRecord>[] {
  return [
    { key: "time", title: t("audit.time"), width: "minmax(7rem, 10.5rem)", cell: at },
    { key: "who", title: t("audit.who"), width: "minmax(5rem, 9rem)", cell: whoOf },
    {
      key: "what",
      title: t("audit.what"),
      width: "minmax(9rem, 2fr)",
      cell: (one) => (
        <button type="button" class="plain mono cell" onClick={() => show(one)}>
          {one.method} {one.path}
        </button>
      ),
    },
    {
      key: "status",
      title: t("audit.status"),
      width: "6.5rem",
      cell: (one) => <Badge level={one.status < 400 ? "ok" : "warn"} text={String(one.status)} />,
    },
    {
      key: "body",
      title: t("audit.body"),
      width: "minmax(8rem, 2.5fr)",
      cell: (one) => <span class="mono">{one.body}</span>,
      wide: true,
    },
    { key: "node", title: t("cluster.node"), width: "7rem", cell: (one) => one.node, wide: true },
    { key: "address", title: t("audit.address"), width: "9rem", cell: (one) => one.address, wide: true },
  ];
}

function Audit() {
  const { who = "", contains = "", refused = "", node = "" } = place.value.query;
  const [open, setOpen] = useState<AuditRecord>();
  const [kept, setKept] = useState<AuditPage["kept"]>([]);
  const removed = kept.filter((one) => !one.complete);
  return (
    <>
      <Head title={t("audit.title")} />
      <Verify />
      {open && (
        <Panel title={`${open.method} ${open.path}`}>
          <p>
            {at(open)} · {whoOf(open)} ({open.role}) · {open.address} · {open.node} · {open.status}
          </p>
          {open.body && <pre class="said">{lines(open.body)}</pre>}
          <p class="mono dim">{open.hash}</p>
          <button type="button" onClick={() => setOpen(undefined)}>
            {t("audit.close")}
          </button>
        </Panel>
      )}
      <DataTable<AuditRecord>
        label={t("audit.title")}
        path="audit"
        query={{ who, contains, node, ...(refused && { refused: true }) }}
        columns={columns(setOpen)}
        id={(one) => `${one.node} ${one.seq}`}
        empty={t("audit.none")}
        every={5000}
        loaded={(page) => setKept((page as AuditPage).kept)}
      >
        <Filter name="contains" label={t("audit.contains")} />
        <Filter name="who" label={t("audit.who")} />
        <Filter name="node" label={t("cluster.node")} />
        <Tick
          label={t("audit.refused")}
          on={refused !== ""}
          set={(on) => refine({ refused: on ? "true" : undefined })}
        />
      </DataTable>
      {removed.length > 0 && (
        <ul class="plain-list dim">
          {removed.map((one) => (
            <li key={`${one.node} ${one.chain}`}>
              <span class="mono">{one.node}</span> {keptOf(one)}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

/** A hash that was noted once has to be in the chain still. */
function Verify() {
  const [hash, setHash] = useState("");
  const [found, setFound] = useState<Answer>();
  const [problem, setProblem] = useState<Problem>();
  const verify = async (event: Event) => {
    event.preventDefault();
    setProblem(undefined);
    try {
      setFound(await api.get<Answer>("audit/verify", { hash }));
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  return (
    <>
      <form class="inline" onSubmit={verify}>
        <label>
          <span>{t("audit.hash")}</span>
          <input class="mono" value={hash} onInput={(event) => setHash(event.currentTarget.value)} />
        </label>
        <button type="submit">{t("audit.verify")}</button>
      </form>
      <ProblemNote problem={problem} />
      {found && (
        <Panel title={t("audit.verified")}>
          <MissingNote missing={found.missing} />
          <p role="status">
            <Badge level={found.whole ? "ok" : "bad"} text={found.whole ? t("audit.whole") : found.fault} />
          </p>
          <ul class="plain-list">
            {found.items.map((one) => (
              <li key={one.node}>
                <span class="mono">{one.node}</span>{" "}
                {t("audit.records", { count: number(one.records), first: number(one.first), last: number(one.last) })}{" "}
                <span class="mono dim">{one.head}</span>
                <ul class="plain-list">
                  {one.kept.map((chain) => (
                    <li key={chain.chain}>{keptOf(chain)}</li>
                  ))}
                </ul>
              </li>
            ))}
          </ul>
        </Panel>
      )}
    </>
  );
}

export default {
  path: "audit",
  title: "audit.title",
  menu: { group: "system", order: 40 },
  role: "admin",
  view: Audit,
} satisfies Page;
