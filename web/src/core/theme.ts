/** Light or dark: as the system says, unless somebody has chosen. */
import { effect, signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";
const KEPT = "iot-mqtt.theme";
const kept = localStorage.getItem(KEPT);

export const theme = signal<Theme>(kept === "light" || kept === "dark" ? kept : "auto");
/** Grows when colours change: canvases are painted anew then. */
export const painted = signal(0);

export function turn(): void {
  const dark = theme.value === "dark" || (theme.value === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  theme.value = dark ? "light" : "dark";
  localStorage.setItem(KEPT, theme.value);
}

effect(() => {
  if (theme.value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
  painted.value = painted.peek() + 1;
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  painted.value++;
});
