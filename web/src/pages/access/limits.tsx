/** Limits of a user or of a document: one field each; an empty one says nothing. */
import { number } from "../../core/format";
import { t, tOr } from "../../core/i18n";
import { Field, type Texts } from "../../ui/fields";
import { Empty } from "../../ui/notes";
import type { Limits, SaidLimit } from "./types";

export const NUMBERS = [
  "message_rate",
  "message_burst",
  "byte_rate",
  "byte_burst",
  "user_message_rate",
  "user_byte_rate",
  "connections",
  "sessions",
  "subscriptions",
  "retained_messages",
  "retained_bytes",
  "queue_messages",
  "queue_bytes",
  "inflight",
  "session_expiry",
] as const;
const CHOICES = { rate_action: ["pause", "disconnect"], class: ["device", "application"] } as const;

type Name = (typeof NUMBERS)[number] | keyof typeof CHOICES;
export type LimitTexts = Texts<Name>;
const NAMES: Name[] = [...NUMBERS, "rate_action", "class"];

export const NO_LIMITS = Object.fromEntries(NAMES.map((name) => [name, ""])) as Record<Name, string>;

/** As fields show them. */
export function textsOf(limits: Limits): Record<Name, string> {
  const said = NAMES.map((name) => [name, limits[name] === undefined ? "" : String(limits[name])]);
  return Object.fromEntries(said) as Record<Name, string>;
}

/** As the API takes them: what is empty is left out. */
export function limitsOf(texts: Record<Name, string>): Limits {
  const said = NAMES.filter((name) => texts[name] !== "");
  return Object.fromEntries(said.map((name) => [name, name in CHOICES ? texts[name] : Number(texts[name])]));
}

export function LimitFields({ form }: { form: LimitTexts }) {
  return (
    <fieldset class="limits">
      <legend>{t("limits.title")}</legend>
      {NUMBERS.map((name) => (
        <Field key={name} label={t(`limit.${name}`)}>
          <input type="number" min="0" step="any" {...form.of(name)} />
        </Field>
      ))}
      {Object.entries(CHOICES).map(([name, words]) => (
        <Field key={name} label={t(`limit.${name}`)}>
          <select {...form.of(name as Name)}>
            <option value="" />
            {words.map((word) => (
              <option key={word} value={word}>
                {t(`limit.${word}`)}
              </option>
            ))}
          </select>
        </Field>
      ))}
    </fieldset>
  );
}

export function limitName(name: string): string {
  return tOr(`limit.${name}`, name);
}

export function limitValue(value: number | string): string {
  return typeof value === "number" ? number(value, 3) : tOr(`limit.${value}`, value);
}

/** In one line of a list. */
export function limitsLine(limits: Limits): string {
  return Object.entries(limits)
    .map(([name, value]) => `${limitName(name)} ${limitValue(value)}`)
    .join(", ");
}

/** What holds for somebody, and who says so. */
export function Holding({ limits }: { limits: SaidLimit[] }) {
  if (!limits.length) return <Empty text={t("limits.none_hold")} />;
  return (
    <div role="group" class="over" tabIndex={0} aria-label={t("limits.hold")}>
      <table class="small">
        <thead>
          <tr>
            <th>{t("limits.limit")}</th>
            <th class="end">{t("limits.value")}</th>
            <th>{t("limits.of")}</th>
            <th>{t("limits.source")}</th>
          </tr>
        </thead>
        <tbody>
          {limits.map((one) => (
            <tr key={one.limit}>
              <td>{limitName(one.limit)}</td>
              <td class="end">{limitValue(one.value)}</td>
              <td>{one.of}</td>
              <td class="mono">{one.source}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
