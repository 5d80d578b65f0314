// Draws the charts of a report from the JSON in the page. Nothing is loaded, and names are only ever text.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 144, TOP = 8, BOTTOM = 20, RIGHT = 8;
// A bucket: [first time, last time, least, greatest, first, last]; times in ms since data.begin.
const BEGIN = 0, END = 1, LOW = 2, HIGH = 3, FIRST = 4, LAST = 5;
const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const STEPS = [SECOND, 5 * SECOND, 15 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR,
  12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY];

function make(name, attributes, parent, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

function shown(value) {
  if (value === null) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-3)) return value.toExponential(2);
  return String(Number(value.toPrecision(5)));
}

function clock(at, step) {
  const text = new Date(data.begin + at).toISOString();
  if (step >= DAY) return text.slice(5, 10);
  return step >= MINUTE ? text.slice(11, 16) : text.slice(11, 19);
}

// Round numbers that the axis is marked at: a few of them.
function marks(low, high) {
  const raw = (high - low) / 4, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= raw);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high; at++) found.push(Number((at * step).toPrecision(12)));
  return found;
}

function bounds(runs) {
  let low = Infinity, high = -Infinity;
  for (const run of runs) for (const one of run) {
    low = Math.min(low, one[LOW]);
    high = Math.max(high, one[HIGH]);
  }
  const margin = high > low ? (high - low) * 0.08 : Math.abs(high) * 0.05 || 1;
  return [low - margin, high + margin];
}

function draw(figure) {
  const series = data.series[figure.dataset.series];
  const old = figure.querySelector("svg");
  if (old) old.remove();
  const width = Math.max(160, Math.round(figure.clientWidth || 400));
  const svg = make("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, figure);
  const [low, high] = bounds(series.runs);
  const ticks = marks(low, high);
  const left = 12 + Math.max(...ticks.map((one) => shown(one).length)) * 6.4;
  const length = data.end - data.begin || 1;
  const x = (at) => +(left + (at / length) * (width - left - RIGHT)).toFixed(1);
  const y = (value) => +(TOP + ((high - value) / (high - low)) * (HEIGHT - TOP - BOTTOM)).toFixed(1);
  const floor = HEIGHT - BOTTOM;

  for (const value of ticks) {
    make("line", { class: "grid", x1: left, x2: width - RIGHT, y1: y(value), y2: y(value) }, svg);
    make("text", { x: left - 5, y: y(value) + 4, "text-anchor": "end" }, svg, shown(value));
  }
  const room = Math.max(2, Math.floor((width - left) / 72));
  const step = STEPS.find((one) => length / one <= room) ?? Math.ceil(length / room / DAY) * DAY;
  for (let at = Math.ceil(data.begin / step) * step - data.begin; at <= length; at += step) {
    make("line", { class: "grid", x1: x(at), x2: x(at), y1: TOP, y2: floor }, svg);
    if (x(at) > left + 8 && x(at) < width - 18) {
      make("text", { x: x(at), y: HEIGHT - 5, "text-anchor": "middle" }, svg, clock(at, step));
    }
  }
  for (const [begin, end] of series.gaps) {
    const from = x(begin), to = x(end);
    const gap = make("rect", { class: "gap", x: from, y: TOP, width: Math.max(1, to - from), height: floor - TOP }, svg);
    make("title", {}, gap, "no readings");
    for (const at of [from, to]) make("line", { class: "gap-edge", x1: at, x2: at, y1: TOP, y2: floor }, svg);
  }
  for (const number of series.alarms) {
    const alarm = data.alarms[number];
    const from = x(Math.max(0, alarm.since)), to = x(Math.min(length, alarm.until ?? length));
    const group = make("g", { class: alarm.severity }, svg);
    make("rect", { class: "alarm", x: from, y: TOP, width: Math.max(2, to - from), height: floor - TOP }, group);
    make("line", { class: "alarm-edge", x1: from, x2: from, y1: TOP, y2: floor }, group);
    make("title", {}, group, alarm.rule);
  }
  for (const run of series.runs) {
    const line = [], upper = [], lower = [];
    for (const one of run) {
      const begin = x(one[BEGIN]), end = x(one[END]);
      line.push(`${begin} ${y(one[FIRST])}`);
      if (series.steps || one[END] > one[BEGIN]) {
        // A spike is one reading: it has to be on the line, not only in the shade.
        const middle = (begin + end) / 2;
        const [near, far] = one[FIRST] <= one[LAST] ? [one[LOW], one[HIGH]] : [one[HIGH], one[LOW]];
        line.push(`${middle} ${y(near)}`, `${middle} ${y(far)}`, `${end} ${y(one[LAST])}`);
      }
      upper.push(`${begin} ${y(one[HIGH])}`, `${end} ${y(one[HIGH])}`);
      lower.push(`${end} ${y(one[LOW])}`, `${begin} ${y(one[LOW])}`);
    }
    const trace = series.steps ? stepped(line) : line;
    make("path", { class: "range", d: `M${upper.join("L")}L${lower.reverse().join("L")}Z` }, svg);
    make("path", { class: "trace", d: `M${trace.join("L")}` }, svg);
    if (run.length === 1 && run[0][END] === run[0][BEGIN]) {
      make("circle", { class: "dot", cx: x(run[0][BEGIN]), cy: y(run[0][FIRST]), r: 2.5 }, svg);
    }
  }
  const cross = make("line", { class: "cross", y1: TOP, y2: floor }, svg);
  follow(figure, svg, series, cross, (px) => ((px - left) / (width - left - RIGHT)) * length, x);
}

// What is 0 or 1 jumps; it never is in between.
function stepped(points) {
  const made = [points[0]];
  for (const point of points.slice(1)) {
    const before = made[made.length - 1].split(" ")[1];
    made.push(`${point.split(" ")[0]} ${before}`, point);
  }
  return made;
}

// What the chart says below the pointer.
function follow(figure, svg, series, cross, time, x) {
  const told = figure.querySelector("output");
  const all = series.runs.flat();
  svg.onpointerleave = () => {
    cross.style.visibility = "hidden";
    told.textContent = "";
  };
  svg.onpointermove = (event) => {
    const box = svg.getBoundingClientRect();
    const at = time((event.clientX - box.left) * (svg.viewBox.baseVal.width / box.width));
    let low = 0, high = all.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (all[middle][END] < at) low = middle + 1; else high = middle;
    }
    if (low > 0 && at - all[low - 1][END] < all[low][BEGIN] - at) low -= 1;
    const one = all[low];
    cross.setAttribute("x1", x(one[BEGIN]));
    cross.setAttribute("x2", x(one[BEGIN]));
    cross.style.visibility = "visible";
    const range = one[LOW] === one[HIGH] ? shown(one[LOW]) : `${shown(one[LOW])} … ${shown(one[HIGH])}`;
    told.textContent = `${new Date(data.begin + one[BEGIN]).toISOString().slice(0, 19).replace("T", " ")}  ${range}`;
  };
}

const figures = [...document.querySelectorAll("figure[data-series]")];
const drawAll = () => figures.forEach(draw);
drawAll();
let waiting = 0, drawnAt = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === drawnAt) return;
  drawnAt = window.innerWidth;
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(drawAll);
});

const search = document.getElementById("search");
if (search) {
  search.hidden = false;
  search.addEventListener("input", () => {
    const wanted = search.value.toLowerCase();
    for (const card of document.querySelectorAll("[data-name]")) {
      const before = card.hidden;
      card.hidden = !card.dataset.name.toLowerCase().includes(wanted);
      // While it was hidden it had no width.
      if (before && !card.hidden) card.querySelectorAll("figure[data-series]").forEach(draw);
    }
  });
}
