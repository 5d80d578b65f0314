/**
 * JSON to the digit. `JSON.parse` makes 9007199254740993 a …992, and of a key that stands twice it keeps one. Here a number
 * that a double would change stays its text, and what is only looked at is laid out token by token, without being read.
 */

/** A typed text is no JSON from there on. */
export class NotJson extends SyntaxError {
  readonly place: { line: number; column: number };

  constructor(text: string) {
    super("not JSON");
    this.place = placeOfFault(text);
  }
}

/** JSON that stands as it was written: a number that a double would change, or what somebody has typed. */
export class Raw {
  constructor(readonly text: string) {}

  /** As near as a double comes: for charts, sums and comparisons. */
  valueOf(): number {
    return Number(this.text);
  }

  toString(): string {
    return this.text;
  }
}

/** The tokens of what is known to be JSON. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{}:,]|[^\s"[\]{}:,]+/g;
const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i;
/** Levels that are indented: of thousands of levels, each line would begin with thousands of spaces. */
const DEEPEST = 32;

/** A `SyntaxError` says what is none. */
export function readJson(text: string): unknown {
  const plain: unknown = JSON.parse(text);
  const tokens = tokensOf(text);
  return tokens.some(changes) ? built(tokens) : plain;
}

/** What somebody typed, to be sent as it is; a `NotJson` says where it is none. */
export function typedJson(text: string): Raw {
  try {
    JSON.parse(text);
  } catch {
    throw new NotJson(text);
  }
  return new Raw(text);
}

/** A value as JSON; what is undefined is left out of objects. */
export function asJson(value: unknown): string {
  if (value instanceof Raw) return value.text;
  if (Array.isArray(value)) return `[${value.map(asJson).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const entries = Object.entries(value).filter(([, one]) => one !== undefined);
  return `{${entries.map(([name, one]) => `${JSON.stringify(name)}:${asJson(one)}`).join(",")}}`;
}

/** A text of JSON with a line for each value: numbers and keys are those of the text, in its order. */
export function laidOut(text: string): string {
  JSON.parse(text);
  let [out, depth, before] = ["", 0, ""];
  const line = () => `\n${"  ".repeat(Math.min(depth, DEEPEST))}`;
  for (const token of tokensOf(text)) {
    const [opened, closes] = [before === "{" || before === "[", token === "}" || token === "]"];
    if (closes) depth -= 1;
    if (opened !== closes || before === ",") out += line();
    out += token.startsWith('"') ? JSON.stringify(JSON.parse(token)) : token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth += 1;
    before = token;
  }
  return out;
}

function tokensOf(text: string): string[] {
  return text.match(TOKEN) ?? [];
}

/** Whether a token is a number whose double is written with other digits. */
function changes(token: string): boolean {
  if (!/^[-\d]/.test(token)) return false;
  const double = String(Number(token));
  return double !== token && digitsOf(double) !== digitsOf(token);
}

/** A number's digits and the power of ten behind them, however it is written: of 1.50, 15e-1, and 0.15e1 the same. */
function digitsOf(text: string): string {
  const [, sign, whole = "", fraction = "", exponent = "0"] = NUMBER.exec(text) ?? [];
  const digits = (whole + fraction).replace(/^0+/, "");
  const significant = digits.replace(/0+$/, "");
  return (
    significant && `${sign}${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`
  );
}

function built(tokens: string[]): unknown {
  let at = 0;
  const value = (): unknown => {
    const token = tokens[at++] as string;
    if (token === "[") return listed("]", value);
    if (token === "{") return Object.fromEntries(listed("}", member));
    return changes(token) ? new Raw(token) : JSON.parse(token);
  };
  const member = (): [string, unknown] => {
    const name = JSON.parse(tokens[at] as string) as string;
    at += 2;
    return [name, value()];
  };
  /** What stands up to an end, with commas between. */
  const listed = <One>(end: string, one: () => One): One[] => {
    const found: One[] = [];
    while (tokens[at] !== end) {
      if (tokens[at] === ",") at += 1;
      found.push(one());
    }
    at += 1;
    return found;
  };
  return value();
}

/** The tokens of a text that may be no JSON. */
const TOKENS = /"(?:[^"\\]|\\.)*"?|[[\]{}:,]|[^ \t\r\n"[\]{}:,]+/gs;

/** What may come next: a value, a name of an object, the colon behind one, or what stands behind a value. */
type Next = "value" | "name" | "colon" | "more";

/** The line and the column, from 1, of the first token that cannot stand there; of JSON, those of its end. */
function placeOfFault(text: string): { line: number; column: number } {
  const before = text.slice(0, fault(text)).split("\n");
  return { line: before.length, column: (before.at(-1) ?? "").length + 1 };
}

function fault(text: string): number {
  const open: string[] = [];
  let next: Next = "value";
  let opened = false;
  for (const { 0: token, index } of text.matchAll(TOKENS)) {
    const inside = open.at(-1);
    if (inside !== undefined && token === (inside === "[" ? "]" : "}") && (opened || next === "more")) {
      open.pop();
      next = "more";
    } else if (next === "more") {
      if (token !== "," || inside === undefined) return index;
      next = inside === "[" ? "value" : "name";
    } else if (next === "colon") {
      if (token !== ":") return index;
      next = "value";
    } else if (next === "name") {
      if (!token.startsWith('"') || !single(token)) return index;
      next = "colon";
    } else if (token === "[" || token === "{") {
      open.push(token);
      next = token === "[" ? "value" : "name";
      opened = true;
      continue;
    } else if (single(token)) next = "more";
    else return index;
    opened = false;
  }
  return text.length;
}

function single(token: string): boolean {
  try {
    JSON.parse(token);
    return true;
  } catch {
    return false;
  }
}
