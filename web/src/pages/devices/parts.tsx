/** Parts that the pages of devices and commands have in common. */
import { useEffect, useState } from "preact/hooks";
import { time } from "../../core/format";
import { t } from "../../core/i18n";
import { href, place, refine } from "../../core/router";
import type { Level } from "../../ui/icons";
import "./devices.css";

const WAIT = 250;

/** A filter that is part of the page's address, and asked for when nobody types any more. */
export function Filter({ name, label }: { name: string; label: string }) {
  const [text, setText] = useState(place.value.query[name] ?? "");
  useEffect(() => {
    const timer = setTimeout(() => {
      if ((place.value.query[name] ?? "") !== text) refine({ [name]: text });
    }, WAIT);
    return () => clearTimeout(timer);
  }, [name, text]);
  return (
    <label>
      <span>{label}</span>
      <input type="search" name={name} value={text} onInput={(event) => setText(event.currentTarget.value)} />
    </label>
  );
}

interface ChoiceProps {
  label: string;
  value: string;
  of: [string, string][];
  chosen: (value: string) => void;
}

export function Choice({ label, value, of, chosen }: ChoiceProps) {
  return (
    <label>
      <span>{label}</span>
      <select value={value} onChange={(event) => chosen(event.currentTarget.value)}>
        {of.map(([key, text]) => (
          <option key={key} value={key}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A gateway or a device: the slash belongs to its name. */
export function TargetLink({ target, text }: { target: string; text?: string }) {
  return (
    <a class="mono" href={href(["devices", target])}>
      {text ?? target}
    </a>
  );
}

export function commandLevel(state: string): Level {
  if (state === "acked") return "ok";
  if (state === "failed" || state === "expired") return "bad";
  return state === "uncertain" ? "warn" : "none";
}

/** JSON as it is; a text as a text. */
export function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

export function At({ at }: { at: number | null | undefined }) {
  return at ? <time dateTime={new Date(at * 1000).toISOString()}>{time(at)}</time> : t("devices.never");
}
