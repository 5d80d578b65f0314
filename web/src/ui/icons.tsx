/** Shapes beside colours: who does not see green from red sees a tick from a square. */

export type Level = "ok" | "warn" | "bad" | "none";

const SHAPES: Record<Level, string> = {
  ok: "M3.500 8.500l3 3 6-7",
  warn: "M8 2.500l6 11h-12z M8 6.500v3.500 M8 12v.01",
  bad: "M4 4h8v8h-8z",
  none: "M8 8m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
};

export function Mark({ level, label }: { level: Level; label?: string }) {
  return (
    <svg class={`mark ${level}`} viewBox="0 0 16 16" role={label ? "img" : "presentation"} aria-label={label}>
      <path d={SHAPES[level]} />
    </svg>
  );
}

/** A level in a word. */
export function Badge({ level, text }: { level: Level; text: string }) {
  return (
    <span class={`badge ${level}`}>
      <Mark level={level} />
      {text}
    </span>
  );
}
