/** A chart over time (uPlot), in the page's colours and the browser's formats. */
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { short, time } from "../core/format";
import { language } from "../core/i18n";
import { painted } from "../core/theme";

export interface Line {
  label: string;
  values: (number | null)[];
  /** What is shown beside it when no time is pointed at; the last value, if nothing is said. */
  now?: string;
}

interface Props {
  title: string;
  /** Seconds since 1970, one for each value. */
  times: number[];
  lines: Line[];
  format?: (value: number | null | undefined) => string;
  height?: number;
}

/** Seconds that are shown before a single value. */
const ALONE = 60;
const COLOURS = ["--line-1", "--line-2", "--line-3", "--line-4"] as const;
/** Who does not see the colours sees the dashes. */
const DASHES = [[], [6, 3], [2, 3], [10, 3, 2, 3]];

export function Chart({ title, times, lines, format = short, height = 120 }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  const [at, setAt] = useState<number | null>(null);
  const names = lines.map((one) => one.label).join("\n");
  const paint = painted.value;
  const speech = language.value;
  const data = (): uPlot.AlignedData => [times, ...lines.map((one) => one.values)];

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = new uPlot(options(element, names.split("\n"), height, format, setAt), data(), element);
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [names, paint, speech, height]);
  useEffect(() => plot.current?.setData(data()), [times, lines]);

  const shown = (line: Line) =>
    at === null ? (line.now ?? format(line.values.findLast((one) => one !== null))) : format(line.values[at]);
  const said = lines.map((one) => `${one.label} ${shown(one)}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <div ref={box} role="img" aria-label={`${title}: ${said}`} style={{ height: `${height}px` }} />
      <div class="lines" aria-hidden="true">
        {lines.map((one, index) => (
          <span key={one.label}>
            <i
              style={{
                borderTopColor: `var(${COLOURS[index % COLOURS.length]})`,
                borderTopStyle: ["solid", "dashed", "dotted"][index % 3] as string,
              }}
            />
            {one.label} <b>{shown(one)}</b>
          </span>
        ))}
        {at !== null && <time>{time(times[at])}</time>}
      </div>
    </figure>
  );
}

function options(
  element: HTMLElement,
  names: string[],
  height: number,
  format: (value: number | null) => string,
  point: (at: number | null) => void,
): uPlot.Options {
  const colour = (name: string) => resolved(element, name);
  const font = `11px ${getComputedStyle(element).fontFamily}`;
  const axis = { font, stroke: colour("--dim"), ticks: { show: false } };
  return {
    width: element.clientWidth || 300,
    height,
    padding: [6, 16, 0, 0],
    cursor: { y: false, points: { size: 6 }, sync: { key: "charts" } },
    legend: { show: false },
    hooks: { setCursor: [(plot) => point(plot.cursor.idx ?? null)] },
    axes: [
      { ...axis, size: 22, space: 70, values: (_, all) => all.map(clock), grid: { show: false } },
      {
        ...axis,
        size: 52,
        space: 28,
        values: (_, all) => all.map((one) => format(one)),
        grid: { stroke: colour("--grid"), width: 1 },
      },
    ],
    scales: { x: { range: spanned }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
    series: [
      {},
      ...names.map((label, index) => ({
        label,
        stroke: colour(COLOURS[index % COLOURS.length] as string),
        width: 1.5,
        dash: DASHES[index % DASHES.length] as number[],
        points: { show: false },
      })),
    ],
  };
}

function clock(at: number): string {
  return time(at).replace(/:\d\d(?=\D*$)/, "");
}

/** Of a single value uPlot would show three years. */
function spanned(plot: uPlot, from: number, to: number): uPlot.Range.MinMax {
  return plot.data[0]?.length === 1 ? [from - ALONE, from] : [from, to];
}

/** A colour as a canvas understands it. */
function resolved(element: HTMLElement, name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  element.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
