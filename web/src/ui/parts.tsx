/** Small parts of pages. */
import type { ComponentChildren } from "preact";
import { number } from "../core/format";
import { t } from "../core/i18n";
import { href } from "../core/router";

/** A page's heading: what it is, of what, and what can be done. */
export function Head({ title, of, children }: { title: string; of?: string; children?: ComponentChildren }) {
  return (
    <header class="head-line">
      <h1 tabIndex={-1}>
        {title}
        {of !== undefined && <span class="of mono">{of}</span>}
      </h1>
      <div class="buttons">{children}</div>
    </header>
  );
}

export function Panel({ title, children, wide }: { title: string; children: ComponentChildren; wide?: boolean }) {
  return (
    <section class={wide ? "panel wide" : "panel"} aria-label={title}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

/** One figure. */
export function Tile({ label, value, unit, more }: { label: string; value: string; unit?: string; more?: string }) {
  return (
    <div class="tile">
      <div class="label">{label}</div>
      <div class="value">
        {value} {unit && <span class="unit">{unit}</span>}
      </div>
      <div class="more">{more ?? " "}</div>
    </div>
  );
}

/** What a client calls itself whose user nobody has verified. */
export const claimed = (name: string | null) => name && `${t("clients.claimed")} ${name}`;

/** Names and values beside each other. */
export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Counts by name, the largest first, each with a bar. */
export function Counts({
  of,
  names,
  empty,
}: {
  of: Record<string, number>;
  names: (key: string) => string;
  empty: string;
}) {
  const found = Object.entries(of)
    .filter(([, count]) => count > 0)
    .sort((a, b) => b[1] - a[1]);
  const most = found[0]?.[1] ?? 1;
  if (!found.length) return <p class="empty">{empty}</p>;
  return (
    <ul class="counts">
      {found.map(([key, count]) => (
        <li key={key}>
          <span>{names(key)}</span>
          <span class="bar" style={{ width: `${(100 * count) / most}%` }} />
          <span class="end">{number(count)}</span>
        </li>
      ))}
    </ul>
  );
}

export function ClientLink({ id }: { id: string }) {
  return (
    <a class="mono" href={href(["clients", id])}>
      {id === "" ? "∅" : id}
    </a>
  );
}
