/** Taking in a wheel: chosen here, its hash compared with the vendor's, sent to the node, which runs nothing of it. */
import { useState } from "preact/hooks";
import { api } from "../../core/api";
import { bytes } from "../../core/format";
import { t } from "../../core/i18n";
import type { Plugin } from "../../core/types";
import { Action } from "../../ui/action";

/** What the API takes of a body, less what base64 adds and a little. */
const MOST = 1_500_000;
const STEP = 0x8000;

export function Upload({ done }: { done: (name: string) => void }) {
  const [file, setFile] = useState<File>();
  const [found, setFound] = useState("");
  const [expected, setExpected] = useState("");
  const choose = async (chosen: File | undefined) => {
    setFile(chosen);
    setFound(chosen ? await hashOf(await chosen.arrayBuffer()) : "");
  };
  const send = async () => {
    if (!file) throw new Error(t("plugins.no_file"));
    if (file.size > MOST) throw new Error(t("plugins.too_large", { most: bytes(MOST) }));
    const body = {
      filename: file.name,
      sha256: expected.trim(),
      content_base64: base64(new Uint8Array(await file.arrayBuffer())),
    };
    const answer = await api.post<{ items: Plugin[] }>("plugins/wheels", body);
    const first = answer.items[0];
    if (first) done(first.name);
  };
  return (
    <Action role="admin" label={t("plugins.upload")} question={t("plugins.upload_question")} run={send}>
      <label>
        <span>{t("plugins.wheel")}</span>
        <input
          type="file"
          name="wheel"
          accept=".whl"
          required
          onChange={(event) => void choose(event.currentTarget.files?.[0])}
        />
      </label>
      <label>
        <span>{t("plugins.sha256")}</span>
        <input
          type="text"
          name="sha256"
          class="mono"
          required
          pattern="[0-9a-fA-F]{64}"
          value={expected}
          onInput={(event) => setExpected(event.currentTarget.value)}
        />
      </label>
      {found && (
        <p class={expected && found !== expected.trim().toLowerCase() ? "bad-text" : "dim"}>
          {t("plugins.hash_found")} <span class="mono">{found}</span>
        </p>
      )}
    </Action>
  );
}

/** Empty where the page is not from this machine and not by TLS: browsers have no hashes there. The node compares. */
async function hashOf(content: ArrayBuffer): Promise<string> {
  if (!globalThis.crypto?.subtle) return "";
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", content));
  return Array.from(digest, (one) => one.toString(16).padStart(2, "0")).join("");
}

function base64(content: Uint8Array): string {
  let text = "";
  for (let at = 0; at < content.length; at += STEP) text += String.fromCharCode(...content.subarray(at, at + STEP));
  return btoa(text);
}
