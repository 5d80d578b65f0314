/** Codecs of other protocols than MQTT: which there are, how each is, and taking in a wheel. */
import { api, type Paged, path } from "../core/api";
import { number } from "../core/format";
import { t, tOr } from "../core/i18n";
import { useLive } from "../core/live";
import { go, href } from "../core/router";
import type { Plugin } from "../core/types";
import { Badge } from "../ui/icons";
import { MissingNote, ProblemNote } from "../ui/notes";
import { Head } from "../ui/parts";
import type { Hit, Page } from ".";
import { faultsOf, levelOf } from "./plugins/parts";
import { Upload } from "./plugins/upload";
import "./plugins/plugins.css";

function Plugins() {
  const live = useLive<Paged<Plugin>>("plugins", { limit: 1000 }, 3000);
  return (
    <>
      <Head title={t("plugins.title")}>
        <Upload done={(name, node) => go(["plugins", name], { node })} />
      </Head>
      <ProblemNote problem={live.problem} />
      <MissingNote missing={live.data?.missing} />
      <section class="panel wide-table" tabIndex={0} aria-label={t("plugins.title")}>
        <table class="small">
          <thead>
            <tr>
              <th>{t("plugins.name")}</th>
              <th>{t("plugins.state")}</th>
              <th>{t("plugins.version")}</th>
              <th>{t("plugins.isolation")}</th>
              <th class="end">{t("plugins.connections")}</th>
              <th class="end">{t("plugins.faults")}</th>
              <th>{t("clients.node")}</th>
            </tr>
          </thead>
          <tbody>
            {live.data?.items.map((one) => (
              <tr key={`${one.node} ${one.name}`}>
                <td>
                  <a class="mono" href={href(["plugins", one.name], { node: one.node })}>
                    {one.name}
                  </a>
                </td>
                <td>
                  <Badge level={levelOf(one)} text={tOr(`plugins.state_${one.state}`, one.state)} />
                  {one.reason && <small> {one.reason}</small>}
                </td>
                <td class="mono">{one.version ?? "–"}</td>
                <td>{tOr(`plugins.isolation_${one.isolation}`, one.isolation)}</td>
                <td class="end">{number(one.connections)}</td>
                <td class="end">{number(faultsOf(one))}</td>
                <td class="mono">{one.node}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </>
  );
}

async function search(text: string, signal: AbortSignal): Promise<Hit[]> {
  const found = await api.get<Paged<Plugin>>(path("plugins"), { limit: 1000 }, signal);
  const part = text.toLocaleLowerCase();
  const names = new Set(found.items.map((one) => one.name).filter((one) => one.toLocaleLowerCase().includes(part)));
  return [...names].slice(0, 5).map((one) => ({ text: one, parts: ["plugins", one] }));
}

export default {
  path: "plugins",
  title: "plugins.title",
  menu: { group: "devices", order: 30 },
  view: Plugins,
  search,
} satisfies Page;
