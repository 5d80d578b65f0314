/** Sending a command, and watching what becomes of it until it ends. */
import { useMemo, useState } from "preact/hooks";
import { api, type Problem, path } from "../../core/api";
import { type BrokerEvent, useEvents } from "../../core/events";
import { number, seconds, time } from "../../core/format";
import { sentence, t, tOr } from "../../core/i18n";
import { lines } from "../../core/legible";
import { problemOf, useLive } from "../../core/live";
import { may } from "../../core/session";
import { Action } from "../../ui/action";
import { Badge } from "../../ui/icons";
import { ProblemNote } from "../../ui/notes";
import { Panel } from "../../ui/parts";
import { commandLevel, shown } from "./parts";
import type { Command, CommandWithBody } from "./types";

const OVER = ["acked", "failed", "expired", "uncertain"];

export function SendCommand({ target }: { target?: string }) {
  const [to, setTo] = useState(target ?? "");
  const [body, setBody] = useState("");
  const [expires, setExpires] = useState("60");
  const [retry, setRetry] = useState(false);
  const [reply, setReply] = useState(true);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const [sent, setSent] = useState<string>();
  if (!may("operator")) return null;
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(undefined);
    // JSON, too, is sent as a text: the device is given what was typed, to the digit.
    const order = { target: to, body, retry, wants_reply: reply };
    try {
      const command = await api.post<Command>("commands", {
        ...order,
        ...(expires && { expires_in: Number(expires) }),
      });
      setSent(command.id);
    } catch (error) {
      setProblem(problemOf(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Panel title={t("commands.send")}>
      <form class="form" onSubmit={submit}>
        {target === undefined && (
          <label>
            <span>{t("commands.target")}</span>
            <input class="mono" required value={to} onInput={(event) => setTo(event.currentTarget.value)} />
          </label>
        )}
        <label>
          <span>{t("commands.body")}</span>
          <textarea name="body" required value={body} onInput={(event) => setBody(event.currentTarget.value)} />
        </label>
        <div class="row-of">
          <label>
            <span>{t("commands.expires")}</span>
            <input type="number" min="1" value={expires} onInput={(event) => setExpires(event.currentTarget.value)} />
          </label>
          <label class="tick">
            <input type="checkbox" checked={reply} onChange={(event) => setReply(event.currentTarget.checked)} />
            <span>{t("commands.wants_reply")}</span>
          </label>
          <label class="tick">
            <input type="checkbox" checked={retry} onChange={(event) => setRetry(event.currentTarget.checked)} />
            <span>{t("commands.retry")}</span>
          </label>
          <button type="submit" class="primary" disabled={busy}>
            {t("commands.send")}
          </button>
        </div>
        <ProblemNote problem={problem} />
      </form>
      {sent && <Watched key={sent} id={sent} />}
    </Panel>
  );
}

const CHANGED = ["command.changed"] as const;

export function Watched({ id }: { id: string }) {
  const [over, setOver] = useState(false);
  const live = useLive<CommandWithBody>(path("commands", id), {}, over ? 0 : 2000);
  const command = live.data;
  const refresh = useMemo(() => ({ now: live.refresh }), []);
  refresh.now = live.refresh;
  const changed = useMemo(
    () => (event: BrokerEvent) => {
      if (event.id === id) refresh.now();
    },
    [id],
  );
  useEvents(CHANGED, changed);
  if (command && !over && OVER.includes(command.state)) setOver(true);
  return (
    <section class="form" aria-live="polite" aria-label={t("command.title")}>
      <ProblemNote problem={live.problem} />
      {command && <Steps command={command} />}
      {command?.detail && <p class="said">{lines(command.detail)}</p>}
      {command?.values && <p class="said">{shown(command.values)}</p>}
      {command?.state === "queued" && (
        <div class="buttons">
          <Action
            role="operator"
            danger
            label={t("commands.take_back")}
            question={sentence("commands.take_back_question", { target: command.target })}
            run={() => api.delete(path("commands", id))}
            done={live.refresh}
          />
        </div>
      )}
    </section>
  );
}

function Steps({ command }: { command: Command }) {
  const steps = Object.entries(command.times).sort((a, b) => a[1] - b[1]);
  return (
    <ol class="steps">
      {steps.map(([state, at], index) => (
        <li key={state}>
          <Badge level={commandLevel(state)} text={tOr(`command_state.${state}`, state)} />
          <span class="dim">
            {index === 0 ? time(at, true) : `+${seconds(at - (steps[index - 1]?.[1] ?? at))}`}
            {state === "sent" &&
              command.attempts > 1 &&
              ` · ${t("commands.times", { count: number(command.attempts) })}`}
          </span>
        </li>
      ))}
    </ol>
  );
}
