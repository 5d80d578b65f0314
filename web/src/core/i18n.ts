/** Words of the page, by keys such as `clients.title`, from all files `src/i18n/<language>/<any>.json`. */
import { signal } from "@preact/signals";
import { type ComponentChildren, h } from "preact";

export const LANGUAGES = { en: "English", de: "Deutsch", zh: "中文" } as const;
export type Language = keyof typeof LANGUAGES;

const files = import.meta.glob<Record<string, string>>("../i18n/*/*.json", { eager: true, import: "default" });
const words: Record<string, Record<string, string>> = {};
for (const [file, texts] of Object.entries(files)) {
  const [, language = ""] = /i18n\/(\w+)\//.exec(file) ?? [];
  words[language] = { ...words[language], ...texts };
}

const KEPT = "iot-mqtt.language";

function preferred(): Language {
  const kept = localStorage.getItem(KEPT);
  const found = [kept ?? "", ...navigator.languages].map((one) => one.slice(0, 2)).find((one) => one in LANGUAGES);
  return (found ?? "en") as Language;
}

export const language = signal<Language>(preferred());

export function speak(next: Language): void {
  localStorage.setItem(KEPT, next);
  language.value = next;
}

type Values = Record<string, string | number>;

/** The text of a key, with `{name}` replaced. A text that is not there in a language is English. */
export function t(key: string, values: Values = {}): string {
  return tOr(key, key).replace(/\{(\w+)\}/g, (whole, name: string) => (name in values ? String(values[name]) : whole));
}

/** The same with names of others in it: each stands for itself, so that one from right to left turns nothing beside it. */
export function sentence(key: string, values: Values): ComponentChildren {
  const pieces = tOr(key, key).split(/\{(\w+)\}/);
  return pieces.map((piece, at) => (at % 2 ? h("bdi", null, String(values[piece] ?? "")) : piece));
}

/** The text of a key, or another one where there is none: for words that come from the broker. */
export function tOr(key: string, otherwise: string): string {
  return words[language.value]?.[key] ?? words.en?.[key] ?? otherwise;
}
