/** One gateway or device: what it says, what it shall be, what it is told. */
import { useState } from "preact/hooks";
import { api, type Missing, type Paged, path } from "../core/api";
import { ago, bytes, number, short, time } from "../core/format";
import { sentence, t, tOr } from "../core/i18n";
import { typedJson } from "../core/json";
import { useLive } from "../core/live";
import { may } from "../core/session";
import type { Client, Why } from "../core/types";
import { repeated } from "../core/way";
import { Action } from "../ui/action";
import { Chart } from "../ui/chart";
import { Badge } from "../ui/icons";
import { Empty, ProblemNote, WarnNote } from "../ui/notes";
import { Packets } from "../ui/packets";
import { ClientLink, Facts, Head, Panel } from "../ui/parts";
import { DataTable } from "../ui/table";
import type { Page } from ".";
import { SendCommand } from "./devices/command";
import { At, Choice, commandLevel, shown, TargetLink } from "./devices/parts";
import { charted, last, useGrowth, useTrail } from "./devices/trail";
import type { Capture, Command, Device, Half, Shadow } from "./devices/types";
import { columns } from "./devices.page";

type Answer<Of> = Of & { missing?: Missing[] };

function OneDevice({ target = "" }: Record<string, string>) {
  const live = useLive<Answer<Device>>(path("devices", target), {}, 2000);
  const device = live.data;
  const rate = useGrowth(device, () => ({ readings: device?.readings ?? 0 }));
  const gateway = device ? device.device === null : !target.includes("/");
  return (
    <>
      <Head title={t(gateway ? "device.gateway" : "device.title")} of={target} />
      <ProblemNote problem={live.problem} />
      <Repeated target={target} />
      <div class="panels">
        {device && <About device={device} rate={last(rate, "readings")} />}
        <SendCommand target={target} />
        <Sent target={target} />
      </div>
      {gateway ? <Connection id={target} device={device} /> : <Values target={target} />}
    </>
  );
}

/** That its readings are not published, because their numbers were taken before. */
function Repeated({ target }: { target: string }) {
  const [gateway = ""] = target.split("/");
  const why = useLive<Answer<Why>>(path("clients", gateway, "why"), {}, 10_000).data;
  return <>{why && repeated(why, target).map((text) => <WarnNote key={text} text={text} />)}</>;
}

function About({ device, rate }: { device: Device; rate: number | null }) {
  const facts: [string, preact.ComponentChildren][] = [
    [
      t("device.state"),
      <Badge
        key="state"
        level={device.online ? "ok" : "none"}
        text={t(device.online ? "devices.online" : "devices.offline")}
      />,
    ],
    [t("devices.seen"), `${time(device.last_seen)} (${ago(device.last_seen)})`],
    [t("devices.first"), <At key="first" at={device.first_seen} />],
  ];
  if (device.device === null) {
    facts.push(
      [t("device.protocol"), `${device.codec ?? "–"} ${device.version ?? ""}`],
      [t("devices.address"), device.address ?? "–"],
      [t("device.logins"), number(device.logins)],
    );
  } else {
    facts.push(
      [t("device.gateway"), <TargetLink key="gateway" target={device.gateway} />],
      [t("devices.readings"), number(device.readings)],
      [t("device.rate"), rate === null ? "–" : `${number(rate, 1)} ${t("unit.per_second")}`],
    );
  }
  return (
    <Panel title={t("device.about")}>
      <Facts of={facts} />
    </Panel>
  );
}

/** A gateway's connection, what it carries, and the devices behind it. */
function Connection({ id, device }: { id: string; device: Device | undefined }) {
  const live = useLive<Client>(device?.online ? path("clients", id) : null, {}, 2000);
  const client = live.data;
  const trail = useGrowth(client, () => ({ in: client?.bytes_received ?? 0, out: client?.bytes_sent ?? 0 }));
  const line = (name: string) => ({ label: t(`device.${name}`), values: trail.lines.get(name) ?? [] });
  return (
    <>
      {client && (
        <div class="panels">
          <Panel title={t("device.connection")}>
            <Facts
              of={[
                [t("device.client"), <ClientLink key="client" id={id} />],
                [t("device.in"), bytes(client.bytes_received)],
                [t("device.out"), bytes(client.bytes_sent)],
                [t("device.waiting"), number(client.queued + client.inflight)],
                [t("device.paused"), client.paused ?? t("action.no")],
              ]}
            />
          </Panel>
          <Chart
            title={t("device.bytes")}
            times={trail.times}
            lines={[line("in"), line("out")]}
            format={(value) => `${short(value)}`}
          />
        </div>
      )}
      <DataTable<Device>
        label={t("device.channels")}
        path="devices"
        query={{ gateway: id }}
        columns={columns()}
        id={(one) => one.target}
        empty={t("devices.none")}
        every={3000}
      >
        <h2>{t("device.channels")}</h2>
      </DataTable>
      {may("operator") && (
        <div class="panels">
          <Packets id={id} words="device" title={t("device.frames")} none={t("device.no_frames")} most={SHOWN} />
          {device?.codec && <Captures codec={device.codec} gateway={id} />}
        </div>
      )}
    </>
  );
}

const SHOWN = 60;

export function Captures({ codec, gateway }: { codec: string; gateway?: string }) {
  const [span, setSpan] = useState("60");
  const live = useLive<Paged<Capture>>("captures", {}, 3000);
  const those = (live.data?.items ?? []).filter((one) => one.codec === codec && (!gateway || one.gateway === gateway));
  return (
    <Panel title={t("capture.title")}>
      <p class="dim">{t("capture.text")}</p>
      <ProblemNote problem={live.problem} />
      <ul class="plain-list">
        {those.map((one) => (
          <li key={`${one.node} ${one.id}`}>
            <Badge
              level={one.state === "running" ? "ok" : one.state === "failed" ? "bad" : "none"}
              text={tOr(`capture_state.${one.state}`, one.state)}
            />{" "}
            {bytes(one.bytes)} · <span class="mono">{one.file}</span> <small>{one.node}</small>{" "}
            {one.state === "running" && (
              <Action
                role="operator"
                label={t("capture.stop")}
                question={sentence("capture.stop_question", { codec })}
                run={() => api.delete(path("captures", one.id))}
                done={live.refresh}
              />
            )}
          </li>
        ))}
      </ul>
      <div class="buttons">
        <Action
          role="operator"
          label={t("capture.start")}
          question={sentence("capture.start_question", { codec: gateway ?? codec })}
          run={() => api.post("captures", { codec, ...(gateway && { gateway }), seconds: Number(span) })}
          done={live.refresh}
        >
          <Choice
            label={t("capture.seconds")}
            value={span}
            of={["30", "60", "300"].map((one) => [one, one])}
            chosen={setSpan}
          />
        </Action>
      </div>
    </Panel>
  );
}

/** What a device reports, as small charts where it can be drawn, beside what is desired of it. */
function Values({ target }: { target: string }) {
  const live = useLive<Shadow>(path("shadows", target), {}, 2000);
  const shadow = live.data;
  const reported = shadow?.reported.values ?? {};
  const trail = useTrail(shadow, () =>
    Object.fromEntries(Object.entries(reported).map(([tag, value]) => [tag, charted(value)])),
  );
  const drawn = Object.keys(reported).filter((tag) => charted(reported[tag]) !== null);
  const tags = [...new Set([shadow?.reported, shadow?.desired].flatMap((half) => tagsOf(half)))].sort();
  return (
    <>
      <ProblemNote problem={live.problem} />
      <div class="charts values">
        {drawn.slice(0, SHOWN).map((tag) => (
          <Chart
            key={tag}
            title={tag}
            times={trail.times}
            lines={[{ label: tag, values: trail.lines.get(tag) ?? [], now: shown(reported[tag]) }]}
            height={90}
          />
        ))}
      </div>
      {shadow && (
        <Panel title={t("shadow.title")}>
          {tags.length === 0 && <Empty text={t("shadow.none")} />}
          {shadow.delta === undefined && <Empty text={t("shadow.for_operators")} />}
          {tags.length > 0 && <Halves shadow={shadow} tags={tags} />}
          <div class="buttons">
            <Desire shadow={shadow} done={live.refresh} />
            <Action
              role="operator"
              danger
              label={t("shadow.forget")}
              question={sentence("shadow.forget_question", { target })}
              run={() => api.delete(path("shadows", target))}
              done={live.refresh}
            />
          </div>
        </Panel>
      )}
    </>
  );
}

/** With values or, for who does not see them, without. */
function tagsOf(half: Half | undefined): string[] {
  return half ? Object.keys(half.values ?? half.times) : [];
}

function Halves({ shadow, tags }: { shadow: Shadow; tags: string[] }) {
  const { reported, desired, delta = {} } = shadow;
  const value = (half: Half, tag: string) => (half.values && tag in half.values ? shown(half.values[tag]) : "–");
  const at = (times: Record<string, number>, tag: string) =>
    (times[tag] ?? 0) > 0 ? time((times[tag] ?? 0) / 1000) : "";
  return (
    <div role="group" class="over" tabIndex={0} aria-label={t("shadow.title")}>
      <table class="small">
        <thead>
          <tr>
            <th>{t("shadow.tag")}</th>
            <th>{t("shadow.reported")}</th>
            <th>{t("shadow.desired")}</th>
            <th />
          </tr>
        </thead>
        <tbody>
          {tags.map((tag) => (
            <tr key={tag}>
              <td class="mono">{tag}</td>
              <td>
                <span class="mono">{value(reported, tag)}</span> <small>{at(reported.times, tag)}</small>
              </td>
              <td>
                <span class="mono">{value(desired, tag)}</span> <small>{at(desired.times, tag)}</small>
              </td>
              <td>{tag in delta && <Badge level="warn" text={t("shadow.differs")} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Desire({ shadow, done }: { shadow: Shadow; done: () => void }) {
  const [text, setText] = useState("{}");
  const run = async () => {
    await api.post(path("shadows", shadow.target), { desired: typedJson(text), version: shadow.desired.version });
  };
  return (
    <Action
      role="operator"
      label={t("shadow.desire")}
      question={sentence("shadow.desire_question", { target: shadow.target })}
      run={run}
      done={done}
    >
      <label>
        <span>{t("shadow.values")}</span>
        <textarea name="desired" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
    </Action>
  );
}

function Sent({ target }: { target: string }) {
  const live = useLive<Paged<Command>>("commands", { target, limit: 8 }, 3000);
  const items = live.data?.items ?? [];
  return (
    <Panel title={t("device.commands")}>
      <ProblemNote problem={live.problem} />
      {live.data && items.length === 0 && <Empty text={t("commands.none")} />}
      <ul class="plain-list">
        {items.map((one) => (
          <li key={one.id}>
            <Badge level={commandLevel(one.state)} text={tOr(`command_state.${one.state}`, one.state)} />{" "}
            <a class="mono" href={`#/commands/${encodeURIComponent(one.id)}`}>
              {one.id.slice(0, 8)}
            </a>{" "}
            <span class="dim">{time(one.accepted_at)}</span> {one.detail}
          </li>
        ))}
      </ul>
    </Panel>
  );
}

export default { path: "devices/:target", title: "device.title", view: OneDevice } satisfies Page;
