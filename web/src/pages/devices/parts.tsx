/** Parts that the pages of devices and commands have in common. */
import { time } from "../../core/format";
import { t } from "../../core/i18n";
import { asJson } from "../../core/json";
import { href } from "../../core/router";
import type { Level } from "../../ui/icons";
import "./devices.css";

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
  return typeof value === "string" ? value : asJson(value);
}

export function At({ at }: { at: number | null | undefined }) {
  return at ? <time dateTime={new Date(at * 1000).toISOString()}>{time(at)}</time> : t("devices.never");
}
