/** A payload as people read it: JSON with its lines, other text as it is, bytes in hex. */
import { laidOut } from "../../core/json";
import type { TopicValue } from "../../core/types";

export function shown(value: TopicValue): string {
  if (typeof value.payload === "string") return text(value.payload);
  return hex(atob(value.payload_base64 ?? ""));
}

function text(payload: string): string {
  if (!/^\s*[[{]/.test(payload)) return payload;
  try {
    return laidOut(payload);
  } catch {
    // What is cut, or only looks like it.
    return payload;
  }
}

function hex(bytes: string): string {
  const digits = [...bytes].map((one) => one.charCodeAt(0).toString(16).padStart(2, "0"));
  const lines: string[] = [];
  for (let at = 0; at < digits.length; at += 16) lines.push(digits.slice(at, at + 16).join(" "));
  return lines.join("\n");
}
