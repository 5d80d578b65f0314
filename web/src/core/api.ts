/** Calls of `/api/v1`: typed by who calls, errors as problem+json, changes with the token against other sites. */

import { asked, compare } from "./clock";
import { asJson, readJson } from "./json";
import { heard } from "./pulse";

export interface Missing {
  node: string;
  reason: string;
}

/** A page of a list: `after` is the cursor of the next one. */
export interface Paged<Item> {
  items: Item[];
  after?: string | null;
  missing?: Missing[];
}

/** What a call that failed was answered with (RFC 9457). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
  ) {
    super(detail);
  }
}

export type Query = Record<string, string | number | boolean | undefined | null>;

type Guard = (problem: Problem) => void;
let csrf = "";
let onProblem: Guard = () => {};

/** What is shown with changes, and who is told of calls that were not let through. */
export function authorize(token: string, guard?: Guard): void {
  csrf = token;
  if (guard) onProblem = guard;
}

/**
 * A path below `/api/v1`: `path("clients", id, "why")`. Each part is encoded: ids are of others. Browsers take `.` and
 * `..` out of an address, however they are encoded: the API reads `~.` and `~..` as these.
 */
export function path(...parts: string[]): string {
  return parts.map((part) => (/^~*\.\.?$/.test(part) ? `~${part}` : encodeURIComponent(part))).join("/");
}

export function url(path: string, query: Query = {}): string {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = pairs.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&");
  return `/api/v1/${path}${text ? `?${text}` : ""}`;
}

/** Milliseconds until a node that hangs, or a network that is cut, is an answer: to a question, and to a change. */
const QUESTION = 30_000;
const CHANGE = 120_000;

/** Whether somebody has done something here that no call has told of. */
let attended = true;

/** Somebody does something in the page. Without that its calls say that nobody does, and the login may end. */
export function attend(): void {
  attended = true;
}

async function call<Answer>(
  method: string,
  address: string,
  body?: unknown,
  signal?: AbortSignal,
  age = 0,
): Promise<Answer> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (age >= 1) headers["Cache-Control"] = `max-age=${Math.min(99, Math.floor(age))}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const told = attended;
  attended = false;
  if (!told) headers["X-Unattended"] = "1";
  if (method !== "GET" && csrf) headers["X-CSRF-Token"] = csrf;
  const sent = body === undefined ? null : asJson(body);
  const since = asked();
  const limit = AbortSignal.timeout(method === "GET" ? QUESTION : CHANGE);
  let response: Response;
  let text: string;
  try {
    response = await fetch(address, {
      method,
      headers,
      body: sent,
      credentials: "same-origin",
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    });
    compare(response.headers.get("Date"), since);
    if (response.ok) heard();
    text = await response.text();
  } catch (error) {
    attended ||= told;
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, method === "GET" ? "unreachable" : "unanswered", "");
  }
  const value = text === "" ? undefined : parsed(text);
  if (response.ok) return value as Answer;
  const said = (value ?? {}) as { error?: string; detail?: string; title?: string };
  const problem = new Problem(response.status, said.error ?? "error", said.detail ?? said.title ?? response.statusText);
  onProblem(problem);
  throw problem;
}

function parsed(text: string): unknown {
  try {
    return readJson(text);
  } catch {
    return undefined;
  }
}

export const api = {
  /** `age`: so many seconds old it may be; others may have asked for it. */
  get: <Answer>(path: string, query?: Query, signal?: AbortSignal, age?: number) =>
    call<Answer>("GET", url(path, query), undefined, signal, age),
  post: <Answer>(path: string, body?: unknown, query?: Query) => call<Answer>("POST", url(path, query), body),
  patch: <Answer>(path: string, body?: unknown, query?: Query) => call<Answer>("PATCH", url(path, query), body),
  delete: <Answer>(path: string, query?: Query) => call<Answer>("DELETE", url(path, query)),
};
