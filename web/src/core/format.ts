/** Numbers and times as the browser's owner writes them. */
import { now } from "./clock";
import { language } from "./i18n";
import { Raw } from "./json";

const BYTES = ["B", "kB", "MB", "GB", "TB", "PB"];
const DAY = 86_400;

/** The browser's own way to write numbers, where it is of the page's language. */
function locale(): string {
  const own = navigator.languages.find((one) => one.slice(0, 2) === language.value);
  return own ?? language.value;
}

const made = new Map<string, Intl.NumberFormat | Intl.DateTimeFormat>();

/** Made once for each language and name: to make one takes longer than to write a hundred numbers with it. */
function kept<Format extends Intl.NumberFormat | Intl.DateTimeFormat>(
  name: string,
  make: (locale: string) => Format,
): Format {
  const own = locale();
  const key = `${own} ${name}`;
  const format = (made.get(key) as Format | undefined) ?? make(own);
  made.set(key, format);
  return format;
}

export function number(value: number | Raw | null | undefined, digits = 0): string {
  if (value === null || value === undefined || Number.isNaN(Number(value))) return "–";
  const format = kept(`.${digits}`, (own) => new Intl.NumberFormat(own, { maximumFractionDigits: digits }));
  // A text is written with all of its digits.
  return format.format(value instanceof Raw ? (value.text as `${number}`) : value);
}

/** Three digits, and k or M where there are more: what tiles and axes show. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const digits = { maximumSignificantDigits: 3 };
  if (Math.abs(value) < 1000) return kept("short", (own) => new Intl.NumberFormat(own, digits)).format(value);
  return kept("compact", (own) => new Intl.NumberFormat(own, { notation: "compact", ...digits })).format(value);
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  let [rest, unit] = [value, 0];
  while (rest >= 1000 && unit < BYTES.length - 1) [rest, unit] = [rest / 1000, unit + 1];
  return `${number(rest, rest < 10 && unit > 0 ? 1 : 0)} ${BYTES[unit]}`;
}

export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value < 0.001) return `${number(value * 1e6)} µs`;
  if (value < 1) return `${number(value * 1000, value < 0.01 ? 1 : 0)} ms`;
  return duration(value);
}

/** `3 d 4 h`: the two largest parts. */
export function duration(value: number): string {
  const whole = Math.max(0, Math.round(value));
  const parts: [number, string][] = [
    [Math.floor(whole / DAY), "d"],
    [Math.floor((whole % DAY) / 3600), "h"],
    [Math.floor((whole % 3600) / 60), "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([amount]) => amount > 0);
  if (first < 0) return "0 s";
  return parts
    .slice(first, first + 2)
    .filter(([amount], at) => at === 0 || amount > 0)
    .map(([amount, unit]) => `${number(amount)} ${unit}`)
    .join(" ");
}

/** A time of the broker's, in seconds: the time of day, with the date where it is not today. */
export function time(at: number | null | undefined, millis = false): string {
  if (at === null || at === undefined) return "–";
  const when = new Date(at * 1000);
  const today = when.toDateString() === new Date(now() * 1000).toDateString();
  const day = today ? {} : ({ year: "numeric", month: "2-digit", day: "2-digit" } as const);
  const fine = millis ? ({ fractionalSecondDigits: 3 } as const) : {};
  const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit" } as const;
  return kept(`time ${today} ${millis}`, (own) => new Intl.DateTimeFormat(own, { ...day, ...clock, ...fine })).format(
    when,
  );
}

/** How long ago. */
export function ago(at: number | null | undefined): string {
  return at === null || at === undefined ? "–" : duration(now() - at);
}
