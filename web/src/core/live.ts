/** What stays up to date while it is looked at: asked again in steps, not at all while the page is hidden. */
import { computed, signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { api, Problem, type Query } from "./api";
import { t } from "./i18n";
import { NotJson } from "./json";
import { returns } from "./pulse";

/** Whether somebody can see the page. */
export const visible = signal(!document.hidden);
document.addEventListener("visibilitychange", () => {
  visible.value = !document.hidden;
});

/** Changes when all has to be asked for anew: somebody sees the page again, or the node is heard again. Undefined: nothing is. */
const turn = computed(() => (visible.value ? returns.value : undefined));

export interface Live<Answer> {
  data: Answer | undefined;
  /** Why the last call failed; what came before stays in `data`. */
  problem: Problem | undefined;
  refresh: () => void;
}

const SLOWEST = 30_000;

/** `age`: seconds that the answer may be old. */
type Ask<Answer> = (signal: AbortSignal, age: number) => Promise<Answer>;

/** Calls `ask` now and every so many ms after the last answer, until `stop`. Failures are asked about more and more rarely. */
export class Poll<Answer> {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private running: AbortController | undefined;
  private failures = 0;
  private stopped = false;
  private readonly unwatch: () => void;

  constructor(
    private readonly ask: Ask<Answer>,
    private readonly every: number,
    private readonly tell: (data: Answer | undefined, problem: Problem | undefined) => void,
    /** What others were told since half the time between two questions will do. */
    private readonly shared = false,
  ) {
    this.unwatch = turn.subscribe((now) => (now === undefined ? this.pause() : this.refresh()));
  }

  refresh(): void {
    this.begin(this.ask);
  }

  /** Asks now, and in another way than at other times; nothing is done while an answer is on its way. */
  hurry(ask: Ask<Answer>): void {
    if (!this.running) this.begin(ask);
  }

  stop(): void {
    this.stopped = true;
    this.unwatch();
    this.pause();
  }

  private begin(ask: Ask<Answer>, age = 0): void {
    if (this.stopped || !visible.value) return;
    this.pause();
    const running = new AbortController();
    this.running = running;
    ask(running.signal, age).then(
      (data) => this.done(running, data, undefined),
      (error: unknown) => this.done(running, undefined, error),
    );
  }

  private pause(): void {
    clearTimeout(this.timer);
    this.running?.abort();
    this.running = undefined;
  }

  private done(running: AbortController, data: Answer | undefined, error: unknown): void {
    if (this.stopped || this.running !== running) return;
    this.running = undefined;
    this.failures = error === undefined ? 0 : this.failures + 1;
    this.tell(data, error === undefined ? undefined : problemOf(error));
    if (this.every > 0) {
      const wait = Math.max(this.every, Math.min(this.every * 2 ** this.failures, SLOWEST));
      this.timer = setTimeout(() => this.begin(this.ask, this.shared ? wait / 2000 : 0), wait);
    }
  }
}

export function problemOf(error: unknown): Problem {
  if (error instanceof NotJson) return new Problem(0, "not_json", t("problem.not_json_at", error.place));
  return error instanceof Problem ? error : new Problem(0, "error", String(error));
}

/** The answer of a path, kept up to date. `path` null: nothing is asked. `shared`: what costs the node much to say. */
export function useLive<Answer>(path: string | null, query: Query = {}, every = 5000, shared = false): Live<Answer> {
  const key = JSON.stringify([path, query]);
  const [state, setState] = useState<{ key: string; data?: Answer; problem?: Problem; poll?: Poll<Answer> }>({ key });
  useEffect(() => {
    if (path === null) return;
    const poll = new Poll<Answer>(
      (signal, age) => api.get<Answer>(path, query, signal, age),
      every,
      (data, problem) =>
        setState((before) => {
          const kept = before.key === key ? before.data : undefined;
          const next = data ?? kept;
          return { key, poll, ...(next !== undefined && { data: next }), ...(problem && { problem }) };
        }),
      shared,
    );
    setState((before) => (before.key === key ? { ...before, poll } : { key, poll }));
    return () => poll.stop();
  }, [key, every]);
  const mine = state.key === key ? state : undefined;
  return { data: mine?.data, problem: mine?.problem, refresh: () => state.poll?.refresh() };
}
