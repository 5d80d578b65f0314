/** The frame around all pages: menu, search, who is logged in. */
import { effect } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { time } from "../core/format";
import { LANGUAGES, type Language, language, speak, t } from "../core/i18n";
import { legible } from "../core/legible";
import { visible } from "../core/live";
import { silent, watch } from "../core/pulse";
import { href, match, place } from "../core/router";
import { logout, may, me } from "../core/session";
import { turn } from "../core/theme";
import { type Page, pages } from "../pages";
import { Mark } from "./icons";
import { Login, NewPassword } from "./login";
import { Palette } from "./palette";

const GROUPS = ["now", "traffic", "devices", "access", "system"] as const;

effect(() => {
  document.documentElement.lang = language.value;
});

export function App() {
  // Whoever speaks another language sees it at once.
  language.value;
  if (me.value === undefined) return null;
  if (me.value === null) return <Login />;
  if (me.value.must_change) return <NewPassword />;
  return <Shell />;
}

function Shell() {
  const [open, setOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  const { parts } = place.value;
  const where = parts.join("/");
  useEffect(() => {
    setOpen(false);
    // What was scrolled was another page.
    main.current?.scrollTo(0, 0);
    main.current?.querySelector("h1")?.focus({ preventScroll: true });
  }, [where]);
  useEffect(() => watch(visible), []);
  return (
    <div class={open ? "shell open" : "shell"}>
      <a class="skip" href="#main" onClick={(event) => skip(event, main.current)}>
        {t("shell.skip")}
      </a>
      <header class="top">
        <button type="button" class="burger" aria-expanded={open} aria-controls="menu" onClick={() => setOpen(!open)}>
          <span aria-hidden="true">≡</span>
          <span class="unseen">{t("shell.menu")}</span>
        </button>
        <a class="brand" href="#/">
          iot-mqtt
        </a>
        <Palette />
        <Who />
      </header>
      <Menu parts={parts} />
      <main id="main" ref={main} tabIndex={-1} class={silent.value === null ? "" : "old"}>
        <Silence />
        <Current parts={parts} />
      </main>
    </div>
  );
}

/** What is on the page is not true any more, and since when. */
function Silence() {
  if (silent.value === null) return null;
  return (
    <div class="note bad" role="alert">
      <Mark level="bad" />
      <div>
        <strong>{t("shell.silent")}</strong> {t("shell.silent_since", { time: time(silent.value) })}
      </div>
    </div>
  );
}

function skip(event: Event, main: HTMLElement | null): void {
  event.preventDefault();
  main?.focus();
}

function Menu({ parts }: { parts: string[] }) {
  const shown = pages.filter((one) => one.menu && (!one.role || may(one.role)));
  return (
    <nav id="menu" aria-label={t("shell.menu")}>
      {GROUPS.map((group) => {
        const those = shown.filter((one) => one.menu?.group === group);
        if (those.length === 0) return null;
        return (
          <div key={group}>
            <h2>{t(`shell.${group}`)}</h2>
            <ul>
              {those.map((one) => (
                <li key={one.path}>
                  <a href={href(one.path.split("/").filter(Boolean))} aria-current={current(one, parts)}>
                    {t(one.title)}
                  </a>
                </li>
              ))}
            </ul>
          </div>
        );
      })}
    </nav>
  );
}

function current(page: Page, parts: string[]): "page" | undefined {
  return (parts[0] ?? "") === (page.path.split("/")[0] ?? "") ? "page" : undefined;
}

function Current({ parts }: { parts: string[] }) {
  for (const page of pages) {
    const values = match(page.path, parts);
    if (!values) continue;
    if (page.role && !may(page.role)) return <NotHis page={page} />;
    document.title = legible([...Object.values(values), t(page.title), "iot-mqtt"].join(" · "));
    const View = page.view;
    // Of another client nothing of this one may stay.
    return <View key={JSON.stringify([page.path, values])} {...values} />;
  }
  return (
    <>
      <h1 tabIndex={-1}>{t("shell.nothing")}</h1>
      <p>
        <a href="#/">{t("overview.title")}</a>
      </p>
    </>
  );
}

/** Somebody sent him there, or he has another role than before: that there is no such page would not be true. */
function NotHis({ page }: { page: Page }) {
  document.title = [t(page.title), "iot-mqtt"].join(" · ");
  return (
    <>
      <h1 tabIndex={-1}>{t(page.title)}</h1>
      <p>{t("shell.not_his", { role: t(`role.${page.role}`), own: t(`role.${me.value?.role}`) })}</p>
      <p>
        <a href="#/">{t("overview.title")}</a>
      </p>
    </>
  );
}

function Who() {
  return (
    <div class="who">
      <select
        aria-label={t("shell.language")}
        value={language.value}
        onChange={(event) => speak(event.currentTarget.value as Language)}
      >
        {Object.entries(LANGUAGES).map(([code, name]) => (
          <option key={code} value={code}>
            {name}
          </option>
        ))}
      </select>
      <button type="button" class="plain" onClick={turn} aria-label={t("shell.theme")} title={t("shell.theme")}>
        ◐
      </button>
      <span class="name">
        {me.value?.name} <small>{t(`role.${me.value?.role}`)}</small>
      </span>
      <button type="button" class="plain" onClick={() => void logout()}>
        {t("shell.logout")}
      </button>
    </div>
  );
}
