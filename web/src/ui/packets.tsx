/** The last packets of a client, the newest first. */
import { type Paged, path } from "../core/api";
import { time } from "../core/format";
import { t } from "../core/i18n";
import { useLive } from "../core/live";
import type { Packet } from "../core/types";
import { Empty, ProblemNote } from "./notes";
import { Panel } from "./parts";

interface PacketsProps {
  id: string;
  /** Whose words say which way a packet went. */
  words: "client" | "device";
  title: string;
  none: string;
  most: number;
  wide?: boolean;
}

export function Packets({ id, words, title, none, most, wide }: PacketsProps) {
  const live = useLive<Paged<Packet>>(path("clients", id, "packets"), {}, 3000);
  const packets = (live.data?.items ?? []).slice(-most).reverse();
  return (
    <Panel title={title} wide={wide}>
      <ProblemNote problem={live.problem} />
      {live.data && packets.length === 0 && <Empty text={none} />}
      <div role="group" class="packets" tabIndex={0} aria-label={title}>
        <table class="small">
          <thead class="unseen">
            <tr>
              <th>{t("client.at")}</th>
              <th>{t("client.direction")}</th>
              <th>{t("client.packet")}</th>
            </tr>
          </thead>
          <tbody>
            {packets.map((one, at) => (
              <tr key={`${one.at} ${at}`}>
                <td class="dim">{time(one.at, true)}</td>
                <td>
                  <span class={`way-${one.direction}`} role="img" aria-label={t(`${words}.${one.direction}`)}>
                    {one.direction === "in" ? "→" : "←"}
                  </span>
                </td>
                <td class="mono">{one.text}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}
