/** A button that asks before it does, says what went wrong, and is not there for who may not. */
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import type { Problem } from "../core/api";
import { t } from "../core/i18n";
import { problemOf } from "../core/live";
import { may, type Role } from "../core/session";
import { ProblemNote } from "./notes";

interface Props {
  label: string;
  /** What is asked; the object's name belongs in it. */
  question: ComponentChildren;
  role: Role;
  /** Whether it takes something away. */
  danger?: boolean;
  run: () => Promise<unknown>;
  done?: () => void;
  /** Before it is asked: fields are set as they should begin. */
  opened?: () => void;
  /** Fields of the question. */
  children?: ComponentChildren;
}

export function Action({ label, question, role, danger = false, run, done, opened, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  if (!may(role)) return null;
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(undefined);
    try {
      await run();
      dialog.current?.close();
      done?.();
    } catch (error) {
      setProblem(problemOf(error));
    } finally {
      setBusy(false);
    }
  };
  const open = () => {
    setProblem(undefined);
    opened?.();
    dialog.current?.showModal();
  };
  return (
    <>
      <button type="button" class={danger ? "danger" : ""} onClick={open}>
        {label}
      </button>
      <dialog ref={dialog} aria-label={label}>
        <form onSubmit={submit}>
          <h2>{label}</h2>
          <p>{question}</p>
          {children}
          <ProblemNote problem={problem} />
          <div class="buttons">
            <button type="button" onClick={() => dialog.current?.close()}>
              {t("action.cancel")}
            </button>
            <button type="submit" class={danger ? "danger" : "primary"} disabled={busy}>
              {label}
            </button>
          </div>
        </form>
      </dialog>
    </>
  );
}
