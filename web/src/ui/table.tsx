/** A list of any length: pages by cursor as one scrolls, only the rows in view in the document, those kept up to date. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, type Missing, type Paged, type Problem, type Query } from "../core/api";
import { number } from "../core/format";
import { t } from "../core/i18n";
import { Poll } from "../core/live";
import { CHUNK, Chunks } from "./chunks";
import { Empty, MissingNote, ProblemNote } from "./notes";

export interface Column<Row> {
  key: string;
  title: string;
  /** A track of CSS grid, such as `minmax(8rem, 2fr)` or `6rem`. */
  width: string;
  cell: (row: Row) => ComponentChildren;
  /** Numbers stand at the end. */
  end?: boolean;
  /** Left out where there is little room. */
  wide?: boolean;
}

interface Props<Row> {
  label: string;
  path: string;
  query?: Query;
  columns: Column<Row>[];
  id: (row: Row) => string;
  empty: string;
  every?: number;
  /** Grows when something was changed: it is asked for again at once. */
  turn?: number;
  /** Filters and the like, above the list. */
  children?: ComponentChildren;
}

const ROW = 34;
const OVER = 12;
const PHONE = "(max-width: 46rem)";

export function DataTable<Row>(props: Props<Row>) {
  const { label, path, query = {}, columns, id, empty, every = 5000, turn = 0, children } = props;
  const key = JSON.stringify([path, query]);
  const [chunks, setChunks] = useState(() => new Chunks<Row>());
  const [, show] = useState(0);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [problem, setProblem] = useState<Problem>();
  const [missing, setMissing] = useState<Missing[]>();
  const box = useRef<HTMLDivElement>(null);
  const small = useNarrow();

  // Of another query nothing stays.
  useEffect(() => {
    const fresh = new Chunks<Row>();
    setChunks(fresh);
    setProblem(undefined);
    setMissing(undefined);
    box.current?.scrollTo({ top: 0 });
    const poll = new Poll<void>(
      async (signal) => {
        const top = box.current?.scrollTop ?? 0;
        const height = box.current?.clientHeight ?? 600;
        for (const chunk of fresh.needed(Math.floor(top / ROW), Math.ceil((top + height) / ROW) + OVER)) {
          const page = await api.get<Paged<Row>>(path, { ...query, after: chunk.after, limit: CHUNK }, signal);
          fresh.put(chunk.index, page.items, page.after ?? null);
          setMissing(page.missing);
          show((count) => count + 1);
        }
      },
      every,
      (_, failed) => setProblem(failed),
    );
    refill.current = () => poll.refresh();
    return () => poll.stop();
  }, [key, every]);
  const refill = useRef(() => {});
  useEffect(() => {
    if (turn > 0) refill.current();
  }, [turn]);

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setView({ top: element.scrollTop, height: element.clientHeight }));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);

  const scrolled = () => {
    const element = box.current;
    if (!element) return;
    setView({ top: element.scrollTop, height: element.clientHeight });
    if (!chunks.complete && (element.scrollTop + element.clientHeight) / ROW > chunks.count - 2 * OVER)
      refill.current();
  };

  const shown = small ? columns.filter((one) => !one.wide) : columns;
  const tracks = { gridTemplateColumns: shown.map((one) => one.width).join(" ") };
  const first = Math.max(0, Math.floor(view.top / ROW) - OVER);
  const rows = chunks.slice(first, Math.ceil((view.top + view.height) / ROW) + OVER);
  const count = `${number(chunks.count)}${chunks.complete ? "" : "+"}`;
  return (
    <section class="list" aria-label={label}>
      <div class="filters">
        {children}
        <span class="count" role="status">
          {chunks.loaded ? t("table.rows", { count }) : t("table.loading")}
        </span>
      </div>
      <ProblemNote problem={problem} />
      <MissingNote missing={missing} />
      <div class="scroll" ref={box} onScroll={scrolled} tabIndex={0} role="region" aria-label={label}>
        <div role="table" aria-label={label} aria-rowcount={chunks.complete ? chunks.count + 1 : -1}>
          <div role="rowgroup" class="head">
            <div role="row" class="row" style={tracks} aria-rowindex={1}>
              {shown.map((one) => (
                <div role="columnheader" key={one.key} class={one.end ? "end" : ""}>
                  {one.title}
                </div>
              ))}
            </div>
          </div>
          <div role="rowgroup" class="body" style={{ height: `${chunks.count * ROW}px` }}>
            {rows.map((row, at) => (
              <div
                role="row"
                class="row"
                key={id(row)}
                aria-rowindex={first + at + 2}
                style={{ ...tracks, transform: `translateY(${(first + at) * ROW}px)` }}
              >
                {shown.map((one) => (
                  <div role="cell" key={one.key} class={one.end ? "end" : ""}>
                    {one.cell(row)}
                  </div>
                ))}
              </div>
            ))}
          </div>
        </div>
        {chunks.loaded && chunks.count === 0 && <Empty text={empty} />}
      </div>
    </section>
  );
}

function useNarrow(): boolean {
  const [narrow, setNarrow] = useState(() => matchMedia(PHONE).matches);
  useEffect(() => {
    const query = matchMedia(PHONE);
    const changed = () => setNarrow(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return narrow;
}
