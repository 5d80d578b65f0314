/** Taking in a wheel: chosen here, its hash compared with the vendor's, sent to the node, which runs nothing of it. */
import { useState } from "preact/hooks";
import { api, type Paged } from "../../core/api";
import { bytes } from "../../core/format";
import { t } from "../../core/i18n";
import { useLive } from "../../core/live";
import type { Plugin } from "../../core/types";
import { Action } from "../../ui/action";
import type { Node } from "../cluster/types";
import { ALL, atEach, Where } from "./nodes";

/** What the API takes of a body, less what base64 adds and a little. */
const MOST = 1_500_000;
const STEP = 0x8000;

export function Upload({ done }: { done: (name: string, node: string | undefined) => void }) {
  const [file, setFile] = useState<File>();
  const [found, setFound] = useState("");
  const [expected, setExpected] = useState("");
  const [where, setWhere] = useState(ALL);
  const nodes = useLive<Paged<Node>>("nodes", {}, 30_000).data?.items.map((one) => one.node_id) ?? [];
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
    // One that has it already says so as well.
    const chosen = where === ALL && nodes.length > 1 ? nodes : [where === ALL ? undefined : where];
    const [first] = await atEach(chosen, (node) => api.post<{ items: Plugin[] }>("plugins/wheels", body, { node }));
    if (first?.items[0]) done(first.items[0].name, chosen[0]);
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
      <Where nodes={nodes} value={where} chosen={setWhere} />
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
