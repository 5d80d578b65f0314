/** Frames as they come and go, in hex, beside what the codec made of them: a capture that is read while it is written. */
import { useState } from "preact/hooks";
import type { Problem } from "../../core/api";
import { api, path } from "../../core/api";
import { number } from "../../core/format";
import { t, tOr } from "../../core/i18n";
import { asJson } from "../../core/json";
import { Poll, problemOf } from "../../core/live";
import { may } from "../../core/session";
import type { Capture, CapturedFrame, CapturedFrames } from "../../core/types";
import { Empty, ProblemNote } from "../../ui/notes";
import { Panel } from "../../ui/parts";

const KEPT = 300;
const SECONDS = 300;
const EVERY = 1000;
const LIMIT = 8_000_000;

interface Line extends CapturedFrame {
  number: number;
}

export function Frames({ codec, node }: { codec: string; node: string | undefined }) {
  const [gateway, setGateway] = useState("");
  const [capture, setCapture] = useState<Capture>();
  const [lines, setLines] = useState<Line[]>([]);
  const [problem, setProblem] = useState<Problem>();
  const [poll, setPoll] = useState<Poll<void>>();
  if (!may("operator")) return null;

  const start = async (event: Event) => {
    event.preventDefault();
    setProblem(undefined);
    setLines([]);
    try {
      const body = { codec, seconds: SECONDS, limit: LIMIT, ...(gateway && { gateway }) };
      const begun = await api.post<Capture>("captures", body, { node });
      setCapture(begun);
      let [from, count] = [0, 0];
      const reading = new Poll<void>(
        async (signal) => {
          const found = await api.get<CapturedFrames>(
            path("captures", begun.id, "frames"),
            { from_byte: from },
            signal,
          );
          from = found.next;
          setCapture(found.capture);
          const fresh = found.items.map((one) => {
            count += 1;
            return { ...one, number: count };
          });
          if (fresh.length) setLines((before) => [...before, ...fresh].slice(-KEPT));
          if (found.capture.state !== "running" && found.items.length === 0) reading.stop();
        },
        EVERY,
        (_, failed) => setProblem(failed),
      );
      setPoll(reading);
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  const stop = async () => {
    poll?.stop();
    try {
      if (capture) await api.delete(path("captures", capture.id));
      setCapture(capture && { ...capture, state: "stopped" });
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  const running = capture?.state === "running";
  return (
    <Panel title={t("plugins.frames")} wide>
      <form class="inline" onSubmit={(event) => void start(event)}>
        <label>
          <span>{t(may("admin") ? "plugins.gateway_or_all" : "plugins.gateway")}</span>
          <input
            name="gateway"
            class="mono"
            required={!may("admin")}
            value={gateway}
            onInput={(event) => setGateway(event.currentTarget.value)}
          />
        </label>
        {running ? (
          <button type="button" onClick={() => void stop()}>
            {t("plugins.stop")}
          </button>
        ) : (
          <button type="submit">{t("plugins.watch")}</button>
        )}
      </form>
      <ProblemNote problem={problem} />
      {capture && (
        <p class="dim">
          {t("plugins.captured", {
            state: tOr(`plugins.capture_${capture.state}`, capture.state),
            connections: number(capture.connections),
          })}
        </p>
      )}
      {capture && lines.length === 0 && <Empty text={t("plugins.no_frames")} />}
      {lines.length > 0 && (
        <section class="frames" tabIndex={0} aria-label={t("plugins.frames")}>
          <table class="small">
            <thead>
              <tr>
                <th class="end">{t("plugins.ms")}</th>
                <th>{t("plugins.connection")}</th>
                <th>{t("plugins.bytes")}</th>
                <th>{t("plugins.made")}</th>
              </tr>
            </thead>
            <tbody>
              {lines.map((one) => (
                <tr key={one.number}>
                  <td class="end">{number(one.ms)}</td>
                  <td>{one.connection}</td>
                  <td class="mono">{one.hex === null ? "" : `${ARROWS[one.kind] ?? ""} ${spaced(one)}`}</td>
                  <td class="mono">{one.event ? asJson(one.event) : (one.text ?? "")}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </Panel>
  );
}

const ARROWS: Record<string, string> = { up: "→", down: "←" };

function spaced(one: CapturedFrame): string {
  return `${(one.hex ?? "").replace(/../g, "$& ").trim()}${one.cut ? " …" : ""}`;
}
