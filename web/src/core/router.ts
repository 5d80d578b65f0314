/** Where the page is: `#/clients/press-7?filter=x`. Addresses can be kept and sent; Back goes back. */
import { signal } from "@preact/signals";

export interface Place {
  /** Decoded parts: `["clients", "press-7"]`. */
  parts: string[];
  query: Record<string, string>;
}

export function read(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#?\/?/, "").split("?", 2);
  const parts = path === "" ? [] : path.split("/").map(decoded);
  return { parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a place: `href(["clients", id], { tab: "packets" })`. */
export function href(parts: string[], query: Record<string, string | undefined> = {}): string {
  const pairs = Object.entries(query).filter((pair): pair is [string, string] => !!pair[1]);
  const text = new URLSearchParams(pairs).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export const place = signal<Place>(read(location.hash));
window.addEventListener("hashchange", () => {
  place.value = read(location.hash);
});

export function go(parts: string[], query: Record<string, string | undefined> = {}): void {
  location.hash = href(parts, query);
}

/** Another query of the same place, which Back does not stop at: what is typed into a filter. */
export function refine(query: Record<string, string | undefined>): void {
  const merged = { ...place.value.query, ...query };
  history.replaceState(null, "", href(place.value.parts, merged));
  place.value = read(location.hash);
}

/** What a pattern such as `clients/:id` finds in a place; null where it does not fit. */
export function match(pattern: string, parts: string[]): Record<string, string> | null {
  const wanted = pattern === "" ? [] : pattern.split("/");
  if (wanted.length !== parts.length) return null;
  const found: Record<string, string> = {};
  for (const [at, want] of wanted.entries()) {
    const part = parts[at] as string;
    if (want.startsWith(":")) found[want.slice(1)] = part;
    else if (want !== part) return null;
  }
  return found;
}
