/** Inputs of a form, and what stands in them. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

type Changed = { currentTarget: { value: string } };

export interface Texts<Name extends string> {
  texts: Record<Name, string>;
  /** As they were at the start, or as they are to begin. */
  again: (from?: Partial<Record<Name, string>>) => void;
  put: (name: Name, text: string) => void;
  /** What an input, a select or a textarea needs. */
  of: (name: Name) => { name: Name; value: string; onInput: (event: Changed) => void };
}

export function useTexts<Name extends string>(start: Record<Name, string>): Texts<Name> {
  const [texts, setTexts] = useState(start);
  const put = (name: Name, text: string) => setTexts((before) => ({ ...before, [name]: text }));
  return {
    texts,
    put,
    again: (from = {}) => setTexts({ ...start, ...from }),
    of: (name) => ({ name, value: texts[name], onInput: (event) => put(name, event.currentTarget.value) }),
  };
}

export function Field({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <label>
      <span>{label}</span>
      {children}
    </label>
  );
}

export function Tick({ label, on, set }: { label: string; on: boolean; set: (on: boolean) => void }) {
  return (
    <label class="tick">
      <input type="checkbox" checked={on} onChange={(event) => set(event.currentTarget.checked)} />
      <span>{label}</span>
    </label>
  );
}

/** Words with commas or lines between. */
export function wordsOf(text: string): string[] {
  return text
    .split(/[,\n]/)
    .map((one) => one.trim())
    .filter(Boolean);
}
