/** An MQTT client in the page: connect, subscribe, publish, and look at what comes. */
import { useEffect, useState } from "preact/hooks";
import type { Paged } from "../core/api";
import { bytes, number, time } from "../core/format";
import { t } from "../core/i18n";
import { lines } from "../core/legible";
import { useLive } from "../core/live";
import { place } from "../core/router";
import { Badge, type Level } from "../ui/icons";
import { Empty, ProblemNote } from "../ui/notes";
import { Head, Panel } from "../ui/parts";
import type { Page } from ".";
import type { Listener } from "./cluster/types";
import {
  close,
  connect,
  filters,
  KEPT,
  messages,
  type Outgoing,
  paused,
  publish,
  type Received,
  type Settings,
  type State,
  shown,
  state,
  subscribe,
  trouble,
  unsubscribe,
} from "./mqtt/link";
import "./mqtt/mqtt.css";

type Qos = 0 | 1 | 2;

const LEVELS: Record<State, Level> = { closed: "none", connecting: "warn", open: "ok", lost: "bad" };

function Mqtt() {
  const wanted = place.value.query.subscribe ?? "";
  const [version, setVersion] = useState<4 | 5>(5);
  useEffect(() => close, []);
  return (
    <>
      <Head title={t("mqtt.title")}>
        <Badge level={LEVELS[state.value]} text={t(`mqtt.state_${state.value}`)} />
      </Head>
      {trouble.value && (
        <div class="note bad" role="alert">
          {trouble.value}
        </div>
      )}
      <div class="panels">
        <Connecting wanted={wanted} version={version} setVersion={setVersion} />
        <Subscribing wanted={wanted} />
        <Publishing version={version} />
      </div>
      <Messages />
    </>
  );
}

/** Ports of the node that this page came from: no other may be asked. */
function useAddresses() {
  const live = useLive<Paged<Listener> & { node?: string }>("listeners", {}, 0);
  const own = useLive<{ node_id: string }>("status", {}, 0);
  const secure = location.protocol === "https:";
  const found = (live.data?.items ?? []).filter(
    (one) =>
      one.open && one.protocol === "websocket" && one.node === own.data?.node_id && (one.tls || !secure || local()),
  );
  const addresses = found.map(
    (one) => `${one.tls ? "wss" : "ws"}://${location.hostname}:${one.port}${one.path ?? "/mqtt"}`,
  );
  return { addresses, problem: live.problem, known: live.data !== undefined && own.data !== undefined };
}

function local(): boolean {
  return ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
}

interface ConnectingProps {
  wanted: string;
  version: 4 | 5;
  setVersion: (version: 4 | 5) => void;
}

function Connecting({ wanted, version, setVersion }: ConnectingProps) {
  const { addresses, problem, known } = useAddresses();
  const [settings, setSettings] = useState<Omit<Settings, "version">>(() => ({
    address: "",
    clientId: `dashboard-${crypto.getRandomValues(new Uint32Array(1))[0]?.toString(36)}`,
    user: "",
    password: "",
    clean: true,
    keepAlive: 60,
  }));
  const set = (some: Partial<typeof settings>) => setSettings((before) => ({ ...before, ...some }));
  const address = settings.address || addresses[0] || "";
  const submit = (event: Event) => {
    event.preventDefault();
    void connect({ ...settings, address, version }, wanted ? [{ filter: wanted, qos: 1 }] : []);
  };
  return (
    <Panel title={t("mqtt.connection")}>
      <ProblemNote problem={problem} />
      {known && addresses.length === 0 && <Empty text={t("mqtt.no_listener")} />}
      <form class="fields" onSubmit={submit}>
        <label class="whole">
          <span>{t("mqtt.address")}</span>
          <select value={address} onChange={(event) => set({ address: event.currentTarget.value })}>
            {addresses.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        <Text
          label={t("clients.id")}
          name="client_id"
          value={settings.clientId}
          set={(clientId) => set({ clientId })}
        />
        <label>
          <span>{t("mqtt.version")}</span>
          <select value={version} onChange={(event) => setVersion(event.currentTarget.value === "4" ? 4 : 5)}>
            <option value="5">MQTT 5.0</option>
            <option value="4">MQTT 3.1.1</option>
          </select>
        </label>
        <Text label={t("clients.user")} name="user" value={settings.user} set={(user) => set({ user })} />
        <label>
          <span>{t("login.password")}</span>
          <input
            type="password"
            autocomplete="off"
            value={settings.password}
            onInput={(event) => set({ password: event.currentTarget.value })}
          />
        </label>
        <label>
          <span>{t("mqtt.keep_alive")}</span>
          <input
            type="number"
            min="0"
            max="65535"
            value={settings.keepAlive}
            onInput={(event) => set({ keepAlive: Number(event.currentTarget.value) })}
          />
        </label>
        <Check label={t("mqtt.clean")} value={settings.clean} set={(clean) => set({ clean })} />
        <div class="buttons whole">
          <button type="submit" class="primary" disabled={!address || state.value === "connecting"}>
            {t("mqtt.connect")}
          </button>
          {state.value !== "closed" && (
            <button type="button" onClick={close}>
              {t("mqtt.close")}
            </button>
          )}
        </div>
      </form>
    </Panel>
  );
}

function Subscribing({ wanted }: { wanted: string }) {
  const [filter, setFilter] = useState(wanted || "#");
  const [qos, setQos] = useState<Qos>(1);
  const submit = (event: Event) => {
    event.preventDefault();
    void subscribe(filter, qos);
  };
  return (
    <Panel title={t("mqtt.subscriptions")}>
      <form class="fields" onSubmit={submit}>
        <Text label={t("subscriptions.filter")} name="filter" value={filter} set={setFilter} mono required />
        <QosField value={qos} set={setQos} />
        <div class="buttons whole">
          <button type="submit" disabled={state.value !== "open"}>
            {t("mqtt.subscribe")}
          </button>
        </div>
      </form>
      {filters.value.length === 0 && <Empty text={t("mqtt.no_subscription")} />}
      <ul class="plain-list filters-of-mine">
        {filters.value.map((one) => (
          <li key={one.filter}>
            <span class="mono">{one.filter}</span> <small>QoS {one.qos}</small>{" "}
            <button type="button" class="plain" onClick={() => void unsubscribe(one.filter)}>
              {t("mqtt.unsubscribe")}
            </button>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

const NOTHING: Outgoing = {
  topic: "",
  payload: "",
  qos: 1,
  retain: false,
  contentType: "",
  responseTopic: "",
  expiry: "",
  userProperties: "",
};

function Publishing({ version }: { version: 4 | 5 }) {
  const [one, setOne] = useState(NOTHING);
  const [sent, setSent] = useState(0);
  const set = (some: Partial<Outgoing>) => setOne((before) => ({ ...before, ...some }));
  const submit = async (event: Event) => {
    event.preventDefault();
    if (await publish(one, version)) setSent((before) => before + 1);
  };
  return (
    <Panel title={t("mqtt.publish")}>
      <form class="fields" onSubmit={(event) => void submit(event)}>
        <Text
          label={t("retained.topic")}
          name="topic"
          value={one.topic}
          set={(topic) => set({ topic })}
          mono
          required
        />
        <QosField value={one.qos} set={(qos) => set({ qos })} />
        <label class="whole">
          <span>{t("mqtt.payload")}</span>
          <textarea
            name="payload"
            class="mono"
            rows={3}
            value={one.payload}
            onInput={(event) => set({ payload: event.currentTarget.value })}
          />
        </label>
        <Check label={t("mqtt.retain")} value={one.retain} set={(retain) => set({ retain })} />
        {version === 5 && (
          <details class="whole">
            <summary>{t("mqtt.properties")}</summary>
            <div class="fields">
              <Text
                label={t("mqtt.content_type")}
                value={one.contentType}
                set={(contentType) => set({ contentType })}
              />
              <Text
                label={t("mqtt.response_topic")}
                value={one.responseTopic}
                set={(responseTopic) => set({ responseTopic })}
                mono
              />
              <label>
                <span>{t("mqtt.expiry")}</span>
                <input
                  type="number"
                  min="0"
                  max="4294967295"
                  value={one.expiry}
                  onInput={(event) => set({ expiry: event.currentTarget.value })}
                />
              </label>
              <label class="whole">
                <span>{t("mqtt.user_properties")}</span>
                <textarea
                  class="mono"
                  rows={2}
                  value={one.userProperties}
                  onInput={(event) => set({ userProperties: event.currentTarget.value })}
                />
              </label>
            </div>
          </details>
        )}
        <div class="buttons whole">
          <button type="submit" class="primary" disabled={state.value !== "open"}>
            {t("mqtt.send")}
          </button>
          {sent > 0 && <span class="dim">{t("mqtt.sent", { count: number(sent) })}</span>}
        </div>
      </form>
    </Panel>
  );
}

interface TextProps {
  label: string;
  value: string;
  set: (value: string) => void;
  name?: string;
  mono?: boolean;
  required?: boolean;
}

function Text({ label, value, set, name, mono, required }: TextProps) {
  return (
    <label>
      <span>{label}</span>
      <input
        type="text"
        name={name}
        autocomplete="off"
        class={mono ? "mono" : ""}
        required={required}
        value={value}
        onInput={(event) => set(event.currentTarget.value)}
      />
    </label>
  );
}

function Check({ label, value, set }: { label: string; value: boolean; set: (value: boolean) => void }) {
  return (
    <label class="check">
      <input type="checkbox" checked={value} onChange={(event) => set(event.currentTarget.checked)} /> {label}
    </label>
  );
}

function QosField({ value, set }: { value: Qos; set: (value: Qos) => void }) {
  return (
    <label>
      <span>QoS</span>
      <select value={value} onChange={(event) => set(Number(event.currentTarget.value) as Qos)}>
        <option value="0">0</option>
        <option value="1">1</option>
        <option value="2">2</option>
      </select>
    </label>
  );
}

const FORMS = ["json", "text", "hex"] as const;

function Messages() {
  const [form, setForm] = useState<(typeof FORMS)[number]>("json");
  return (
    <Panel title={t("mqtt.messages", { count: number(messages.value.length), most: number(KEPT) })} wide>
      <div class="filters">
        <label>
          <span>{t("mqtt.form")}</span>
          <select value={form} onChange={(event) => setForm(event.currentTarget.value as typeof form)}>
            {FORMS.map((one) => (
              <option key={one} value={one}>
                {t(`mqtt.form_${one}`)}
              </option>
            ))}
          </select>
        </label>
        <button
          type="button"
          aria-pressed={paused.value}
          onClick={() => {
            paused.value = !paused.value;
          }}
        >
          {t(paused.value ? "mqtt.go_on" : "mqtt.pause")}
        </button>
        <button
          type="button"
          onClick={() => {
            messages.value = [];
          }}
        >
          {t("mqtt.clear")}
        </button>
      </div>
      {messages.value.length === 0 && <Empty text={t("mqtt.no_message")} />}
      <ol class="messages" tabIndex={0} aria-label={t("mqtt.title")}>
        {messages.value.map((one) => (
          <Message key={one.number} one={one} form={form} />
        ))}
      </ol>
    </Panel>
  );
}

function Message({ one, form }: { one: Received; form: (typeof FORMS)[number] }) {
  return (
    <li>
      <div class="line">
        <time>{time(one.at, true)}</time>
        <span class="mono">{one.topic}</span>
        <small>
          QoS {one.qos}
          {one.retain ? ` · ${t("mqtt.retained")}` : ""} · {bytes(one.size)}
          {one.properties.map(([name, value]) => ` · ${name}: ${value}`)}
        </small>
      </div>
      <pre>
        {lines(shown(one.payload, form))}
        {one.size > one.payload.length ? " …" : ""}
      </pre>
    </li>
  );
}

export default {
  path: "mqtt",
  title: "mqtt.title",
  menu: { group: "traffic", order: 60 },
  role: "operator",
  view: Mqtt,
} satisfies Page;
