/** Who is logged in, and what he may do. */
import { signal } from "@preact/signals";
import { api, authorize, type Problem } from "./api";
import type { Me } from "./types";

const ROLES = ["viewer", "operator", "admin"];
/** Kept in the browser: whether somebody logged in here. The cookie itself no script can read. */
const HERE = "iot-mqtt.login";

/** undefined: not asked yet; null: nobody. */
export const me = signal<Me | null | undefined>(undefined);

export type Role = "viewer" | "operator" | "admin";

/** Whether the one who is logged in may do what asks for a role. */
export function may(role: Role): boolean {
  return me.value ? ROLES.indexOf(me.value.role) >= ROLES.indexOf(role) : false;
}

const forgotten: (() => void)[] = [];

/** What a module keeps for whoever is logged in is his alone: `forget` is called when that login is over. */
export function atLogout(forget: () => void): void {
  forgotten.push(forget);
}

function set(found: Me | null): void {
  authorize(found?.csrf ?? "", refused);
  if (found) localStorage.setItem(HERE, "1");
  else localStorage.removeItem(HERE);
  me.value = found;
  if (!found) for (const forget of forgotten) forget();
}

function refused(problem: Problem): void {
  if (problem.status === 401 && me.value) set(null);
  if (problem.code === "password_change_required" && me.value) me.value = { ...me.value, must_change: true };
}

/** At the start: nobody is asked who he is in a browser in which nobody has logged in. */
export async function begin(): Promise<void> {
  if (!localStorage.getItem(HERE)) {
    set(null);
    return;
  }
  try {
    set(await api.get<Me>("me"));
  } catch {
    set(null);
  }
}

export async function login(name: string, password: string): Promise<void> {
  set(await api.post<Me>("login", { name, password }));
}

export async function changePassword(password: string, next: string): Promise<void> {
  set(await api.post<Me>("me/password", { password, new_password: next }));
}

export async function logout(): Promise<void> {
  try {
    await api.post("logout");
  } finally {
    set(null);
  }
}
