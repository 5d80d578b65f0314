/** A list of any length: pages by cursor as one scrolls, only the rows in view in the document, those kept up to date. */
import { Component, type ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, type Missing, type Paged, type Problem, type Query } from "../core/api";
import { number } from "../core/format";
import { language, t } from "../core/i18n";
import { Poll } from "../core/live";
import { CHUNK, Chunks, type Wanted } from "./chunks";
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
  /** Told of each page that has come. */
  loaded?: (page: Paged<Row>) => void;
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
    const load = async ({ index, after }: Wanted, signal: AbortSignal) => {
      const page = await api.get<Paged<Row>>(path, { ...query, after, limit: CHUNK }, signal);
      fresh.put(index, page.items, page.after ?? null);
      setMissing(page.missing);
      props.loaded?.(page);
      show((count) => count + 1);
    };
    // What comes into view while other pages are on their way.
    const more = async (signal: AbortSignal) => {
      for (const one of fresh.further(() => seen(box.current).end + 2 * OVER)) await load(one, signal);
    };
    const poll = new Poll<void>(
      async (signal) => {
        const { first, end } = seen(box.current);
        for (const one of fresh.needed(first, end + OVER)) await load(one, signal);
        await more(signal);
      },
      every,
      (_, failed) => setProblem(failed),
    );
    refill.current = () => poll.hurry(more);
    refresh.current = () => poll.refresh();
    return () => poll.stop();
  }, [key, every]);
  const refill = useRef(() => {});
  const refresh = useRef(() => {});
  useEffect(() => {
    if (turn > 0) refresh.current();
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
    if (!chunks.complete && seen(element).end > chunks.count - 2 * OVER) refill.current();
  };

  const shown = useMemo(() => (small ? columns.filter((one) => !one.wide) : columns), [small, columns]);
  const tracks = shown.map((one) => one.width).join(" ");
  const first = Math.max(0, Math.floor(view.top / ROW) - OVER);
  const rows = chunks.slice(first, Math.ceil((view.top + view.height) / ROW) + OVER);
  const count = `${number(chunks.count)}${chunks.complete ? "" : "+"}`;
  return (
    <div class="list">
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
            <div role="row" class="row" style={{ gridTemplateColumns: tracks }} aria-rowindex={1}>
              {shown.map((one) => (
                <div role="columnheader" key={one.key} class={one.end ? "end" : ""}>
                  {one.title}
                </div>
              ))}
            </div>
          </div>
          <div role="rowgroup" class="body" style={{ height: `${chunks.count * ROW}px` }}>
            {rows.map((row, at) => (
              <TableRow
                key={id(row)}
                row={row}
                at={first + at}
                columns={shown}
                tracks={tracks}
                language={language.value}
              />
            ))}
          </div>
        </div>
        {chunks.loaded && chunks.count === 0 && <Empty text={empty} />}
      </div>
    </div>
  );
}

interface RowProps<Row> {
  row: Row;
  at: number;
  columns: Column<Row>[];
  tracks: string;
  language: string;
}

/** One row, drawn again when it is another one, and not with each step of those who scroll past it. */
class TableRow<Row> extends Component<RowProps<Row>> {
  override shouldComponentUpdate(next: RowProps<Row>): boolean {
    const { row, at, columns, tracks, language } = this.props;
    return (
      next.row !== row ||
      next.at !== at ||
      next.columns !== columns ||
      next.tracks !== tracks ||
      next.language !== language
    );
  }

  override render({ row, at, columns, tracks }: RowProps<Row>) {
    return (
      <div
        role="row"
        class="row"
        aria-rowindex={at + 2}
        style={{ gridTemplateColumns: tracks, transform: `translateY(${at * ROW}px)` }}
      >
        {columns.map((one) => (
          <div role="cell" key={one.key} class={one.end ? "end" : ""}>
            {one.cell(row)}
          </div>
        ))}
      </div>
    );
  }
}

/** Rows in view, from the first to before `end`. */
function seen(box: HTMLElement | null): { first: number; end: number } {
  const top = box?.scrollTop ?? 0;
  return { first: Math.floor(top / ROW), end: Math.ceil((top + (box?.clientHeight ?? 600)) / ROW) };
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
