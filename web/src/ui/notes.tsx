/** What a page says when something is not as it should be: a call that failed, nodes that did not answer. */
import type { Missing, Problem } from "../core/api";
import { t, tOr } from "../core/i18n";
import { lines } from "../core/legible";
import { Mark } from "./icons";

export function ProblemNote({ problem }: { problem: Problem | undefined }) {
  if (!problem) return null;
  const title = tOr(`problem.${problem.code}`, t("problem.title", { status: problem.status }));
  return (
    <div class="note bad" role="alert">
      <Mark level="bad" />
      <div>
        <strong>{title}</strong> {lines(problem.detail)}
      </div>
    </div>
  );
}

export function MissingNote({ missing }: { missing: Missing[] | undefined }) {
  if (!missing?.length) return null;
  return (
    <div class="note warn" role="status">
      <Mark level="warn" />
      <div>
        <strong>{t("problem.missing")}</strong>{" "}
        {missing.map((one) => (
          <span key={one.node}>
            {one.node}: {one.reason}.{" "}
          </span>
        ))}
      </div>
    </div>
  );
}

export function WarnNote({ text }: { text: string }) {
  return (
    <div class="note warn" role="status">
      <Mark level="warn" />
      <div>{lines(text)}</div>
    </div>
  );
}

export function Empty({ text }: { text: string }) {
  return <p class="empty">{text}</p>;
}
