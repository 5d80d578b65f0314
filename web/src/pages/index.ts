/** All pages: what the files `*.page.tsx` of this folder export. */
import type { ComponentType } from "preact";
import type { Role } from "../core/session";

/** What the search finds. */
export interface Hit {
  text: string;
  more?: string;
  parts: string[];
  query?: Record<string, string>;
}

export interface Page {
  /** `clients/:id`; the values of names are given to the view. */
  path: string;
  /** A key of the page's words. */
  title: string;
  /** Where it stands in the menu; without it, it is only reached by links. */
  menu?: { group: "now" | "traffic" | "devices" | "access" | "system"; order: number };
  /** Who may not is not shown it. Without it, everybody may. */
  role?: Role;
  view: ComponentType<Record<string, string>>;
  /** What it adds to the search: at most five, by a part of a name. */
  search?: (text: string, signal: AbortSignal) => Promise<Hit[]>;
}

const files = import.meta.glob<Page>("./*.page.tsx", { eager: true, import: "default" });

export const pages: Page[] = Object.values(files).sort((a, b) => (a.menu?.order ?? 0) - (b.menu?.order ?? 0));
