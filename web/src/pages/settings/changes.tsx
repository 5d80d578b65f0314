/** What became of a change of the configuration, with what its author may want to know. */
import { t } from "../../core/i18n";
import { Mark } from "../../ui/icons";
import { text } from "./keys";
import type { Changes } from "./types";

export function ChangesNote({ of }: { of: Changes[] }) {
  const hints = of.some((one) => one.notes.length > 0 || one.restart.length > 0);
  return (
    <section class={hints ? "note warn" : "note"} role="status">
      <Mark level={hints ? "warn" : "ok"} />
      <ul>
        {of.map((one) => (
          <One key={one.node} of={one} />
        ))}
      </ul>
    </section>
  );
}

function One({ of }: { of: Changes }) {
  const lines = [
    ...of.changed.map((one) => `${one.key}: ${text(one.before)} → ${text(one.now)}`),
    ...of.opened.map((name) => t("config.opened", { name })),
    ...of.closed.map((name) => t("config.closed", { name })),
    ...of.restart.map((key) => t("config.needs_restart", { key })),
    ...of.notes,
  ];
  return (
    <>
      {(lines.length ? lines : [t("config.nothing")]).map((line) => (
        <li key={line}>
          <strong class="mono">{of.node}</strong> {line}
        </li>
      ))}
    </>
  );
}
