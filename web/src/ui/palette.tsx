/** The search: `/` opens it; it finds pages, and what pages say that they find. */
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../core/i18n";
import { go } from "../core/router";
import { may } from "../core/session";
import { type Hit, type Page, pages } from "../pages";

const WAIT = 150;

interface Found extends Hit {
  group: string;
}

function permitted(): Page[] {
  return pages.filter((one) => !one.role || may(one.role));
}

function ofPages(text: string): Found[] {
  const part = text.toLocaleLowerCase();
  return permitted()
    .filter((one) => one.menu && t(one.title).toLocaleLowerCase().includes(part))
    .map((one) => ({ group: t("palette.pages"), text: t(one.title), parts: one.path.split("/").filter(Boolean) }));
}

async function find(text: string, signal: AbortSignal, tell: (found: Found[]) => void): Promise<void> {
  const found = ofPages(text);
  tell([...found]);
  if (text.length < 2) return;
  const asked = permitted().flatMap((page) => (page.search ? [{ page, search: page.search }] : []));
  await Promise.all(
    asked.map(async ({ page, search }) => {
      const hits = await search(text, signal).catch(() => []);
      found.push(...hits.slice(0, 5).map((hit) => ({ ...hit, group: t(page.title) })));
      if (!signal.aborted) tell([...found]);
    }),
  );
}

export function Palette() {
  const dialog = useRef<HTMLDialogElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [found, setFound] = useState<Found[]>([]);
  const [at, setAt] = useState(0);

  const open = () => {
    setText("");
    dialog.current?.showModal();
    input.current?.focus();
  };
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const typing = target.closest("input, textarea, select, dialog[open]") !== null;
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      open();
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, []);
  useEffect(() => {
    const running = new AbortController();
    const timer = setTimeout(() => {
      setAt(0);
      void find(text.trim(), running.signal, setFound);
    }, WAIT);
    return () => {
      clearTimeout(timer);
      running.abort();
    };
  }, [text]);

  const take = (hit: Hit | undefined) => {
    if (!hit) return;
    dialog.current?.close();
    go(hit.parts, hit.query);
  };
  const moved = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setAt((at + step + found.length) % Math.max(1, found.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      take(found[at]);
    }
  };
  return (
    <>
      <button type="button" class="search" onClick={open} aria-keyshortcuts="/">
        <span>{t("palette.open")}</span>
        <kbd>/</kbd>
      </button>
      <dialog ref={dialog} class="palette" aria-label={t("palette.open")}>
        <input
          ref={input}
          type="search"
          role="combobox"
          aria-label={t("palette.open")}
          aria-expanded={found.length > 0}
          aria-controls="found"
          aria-activedescendant={found.length ? `found-${at}` : undefined}
          autocomplete="off"
          placeholder={t("palette.hint")}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={moved}
        />
        <div id="found" role="listbox" aria-label={t("palette.found")}>
          {found.map((hit, index) => (
            <div
              key={`${hit.group} ${hit.text}`}
              id={`found-${index}`}
              role="option"
              tabIndex={-1}
              aria-selected={index === at}
              onClick={() => take(hit)}
            >
              <span class="mono">{hit.text}</span>
              <small>
                {hit.group}
                {hit.more ? ` · ${hit.more}` : ""}
              </small>
            </div>
          ))}
          {found.length === 0 && (
            <div role="option" aria-selected={false} aria-disabled={true} tabIndex={-1}>
              {t("palette.nothing")}
            </div>
          )}
        </div>
      </dialog>
    </>
  );
}
