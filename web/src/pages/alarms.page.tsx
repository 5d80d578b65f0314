/** What an operator should know: what goes on, since when, what helps; and what was. */
import type { Paged } from "../core/api";
import { ago, duration, time } from "../core/format";
import { t, tOr } from "../core/i18n";
import { useLive } from "../core/live";
import { Mark } from "../ui/icons";
import { Empty, MissingNote, ProblemNote } from "../ui/notes";
import { Head, Panel } from "../ui/parts";
import type { Page } from ".";
import { NodeLink } from "./cluster/parts";
import type { Alarm } from "./settings/types";

function Alarms() {
  const live = useLive<Paged<Alarm>>("alarms", {}, 2000);
  const all = live.data?.items ?? [];
  const now = all.filter((one) => one.until === null);
  const past = all.filter((one) => one.until !== null);
  return (
    <>
      <Head title={t("alarms.title")} />
      <ProblemNote problem={live.problem} />
      <MissingNote missing={live.data?.missing} />
      {live.data && now.length === 0 && (
        <p class="calm">
          <Mark level="ok" /> {t("alarms.none")}
        </p>
      )}
      <ul class="findings" aria-label={t("alarms.now")}>
        {now.map((one) => (
          <li class="bad" key={`${one.node} ${one.since} ${one.text}`}>
            <Mark level="bad" label={t("alarms.goes_on")} />
            <div>
              <p>{one.text}</p>
              <p class="dim">
                <NodeLink id={one.node} /> · {t("alarms.since", { time: time(one.since), ago: ago(one.since) })}
              </p>
              {one.helps && <p>{t("alarms.helps", { what: helpOf(one) })}</p>}
            </div>
          </li>
        ))}
      </ul>
      <Panel title={t("alarms.past")}>
        {live.data && past.length === 0 && <Empty text={t("alarms.no_past")} />}
        {past.length > 0 && (
          <div role="group" class="over" tabIndex={0} aria-label={t("alarms.past")}>
            <table class="small past">
              <thead>
                <tr>
                  <th>{t("alarms.began")}</th>
                  <th>{t("alarms.lasted")}</th>
                  <th>{t("cluster.node")}</th>
                  <th>{t("alarms.text")}</th>
                </tr>
              </thead>
              <tbody>
                {past.map((one) => (
                  <tr key={`${one.node} ${one.since} ${one.text}`}>
                    <td>{time(one.since)}</td>
                    <td>{duration((one.until ?? one.since) - one.since)}</td>
                    <td>
                      <NodeLink id={one.node} />
                    </td>
                    <td>{one.text}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Panel>
    </>
  );
}

function helpOf(one: Alarm): string {
  return tOr(`alarm.${one.code}`, one.helps ?? "");
}

export default {
  path: "alarms",
  title: "alarms.title",
  menu: { group: "now", order: 5 },
  view: Alarms,
} satisfies Page;
