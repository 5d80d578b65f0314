/**
 * What the API answers, as far as pages use it. The comment above each names the schema of the API's description;
 * a test holds every field against it.
 */
/** schema: Me */
export interface Me {
  name: string;
  role: string;
  must_change: boolean;
  csrf: string;
}

/** schema: Status */
export interface Status {
  node_id: string;
  version: string;
  started_at: number;
  ready: boolean;
  state: string;
  clients: number;
  sessions: number;
  subscriptions: number;
  retained: number;
  waiting: number;
  inflight: number;
  unexplained: number;
  alarms: string[];
  uptime: number;
  counters: Counters;
}

export interface Counters {
  messages_received: number;
  messages_delivered: number;
  messages_unmatched: number;
  bytes_received: number;
  bytes_sent: number;
  connects_accepted: number;
  connects_refused: Record<string, number>;
  disconnects: Record<string, number>;
  dropped: Record<string, number>;
  forwards_dropped: Record<string, number>;
  messages_refused: Record<string, number>;
  limited: Record<string, number>;
  denied: Record<string, number>;
  /** By upper bound in seconds. */
  acknowledgement_wait: Record<string, number>;
}

/** schema: Client */
export interface Client {
  client_id: string;
  username: string | null;
  claimed_user: string | null;
  peer: string;
  listener: string;
  protocol: string;
  keep_alive: number;
  connected_at: number;
  bytes_received: number;
  bytes_sent: number;
  outbox_bytes: number;
  writable: boolean;
  subscriptions: number;
  inflight: number;
  queued: number;
  paused: string | null;
  node?: string;
}

/** schema: Session */
export interface Session {
  client_id: string;
  connected: boolean;
  durable: boolean;
  expiry_interval: number;
  created_at: number;
  disconnected_at: number | null;
  subscriptions: number;
  inflight: number;
  queued: number;
  backlog: number;
  lag: number;
  delivered: number;
  dropped: Record<string, number>;
  denied: Record<string, number>;
  state: string;
  node?: string;
}

/** schema: Subscription */
export interface Subscription {
  client_id: string;
  filter: string;
  qos: number;
  node?: string;
}

export interface Finding {
  code: string;
  weight: number;
  text: string;
  since: number | null;
  node: string;
  helps: string | null;
}

/** schema: Why */
export interface Why {
  client_id: string;
  /** Which has the client, or its session; any, if none has. */
  node?: string;
  findings: Finding[];
  slowest_hop: string | null;
  client: Client | null;
  session: Session | null;
  subscriptions: Subscription[];
}

/** schema: RecordedPacket */
export interface Packet {
  at: number;
  direction: string;
  packet: string;
  text: string;
  packets: number;
  bytes: number;
  node?: string;
}

export interface Series {
  name: string;
  unit: string;
  over_nodes: "sum" | "max";
  values: (number | null)[];
}

/** schema: History */
export interface History {
  begin: number;
  step: number;
  series: Series[];
  node?: string;
}

export interface Branch {
  topic: string;
  topics: number;
  leaf: boolean;
  deeper: boolean;
  retained: boolean;
  messages_per_second: number;
  bytes_per_second: number;
}

export interface BusyTopic {
  topic: string;
  messages_per_second: number;
  bytes_per_second: number;
  publishers: string[];
  receivers: number;
}

/** schema: BusyTopics */
export interface BusyTopics {
  seconds: number;
  items: BusyTopic[];
}

/** schema: TopicValue */
export interface TopicValue {
  topic: string;
  source: string | null;
  at: number | null;
  qos: number;
  publisher: string;
  size: number;
  payload?: string | null;
  payload_base64?: string;
}

/** schema: TopicWhy */
export interface TopicWhy {
  topic: string;
  findings: Finding[];
  subscriptions: number;
  subscribers: { client_id: string; filter: string; qos: number }[];
  publishers: { client_id: string; at: number }[];
}

/** What did not arrive: of one client, for one reason, with one topic. */
export interface DroppedItem {
  kind: string;
  code: string;
  client_id: string;
  publisher: string;
  topic: string;
  count: number;
  first: number;
  last: number;
  detail: string;
  user: string | null;
  claimed_user: string | null;
  peer: string;
  node: string;
}

/** schema: Dropped */
export interface Dropped {
  items: DroppedItem[];
  totals: Record<"dropped" | "refused" | "denied" | "connect", Record<string, number>>;
}

/** schema: SharedGroup */
export interface SharedGroup {
  filter: string;
  group: string;
  topics: string;
  members: number;
  connected: number;
  waiting: number;
  node?: string;
}

/** schema: Log */
export interface LogFigures {
  end: number;
  messages: number;
  bytes: number;
  generations: number;
  streams: number;
  messages_appended: number;
  damaged_pages: number;
  disk_level: string;
  disk_used: number;
  disk_limit: number;
  disk_free: number;
  inodes: number;
  inodes_free: number;
  uncommitted_bytes: number;
  trouble: string | null;
  node?: string;
}

/** schema: LogGeneration */
export interface Generation {
  generation: number;
  began_at: number;
  messages: number;
  bytes: number;
  streams: number;
  closed: boolean;
  node?: string;
}

/** schema: LogStream */
export interface Stream {
  generation: number;
  stream: number;
  shard: number;
  structure: string;
  pages: number;
  messages: number;
  bytes: number;
  node?: string;
}

/** schema: LoggedMessage */
export interface Logged {
  came_at: number;
  writer: number;
  position: number;
  topic: string;
  publisher: string;
  qos: number;
  size: number;
  payload: string | null;
  payload_base64: string;
  node: string | null;
}

/** schema: Backlog */
export interface Backlog {
  messages: number | null;
  bytes: number;
  complete: boolean;
  claims: Claim[];
}

export interface Claim {
  filter: string;
  kind: string;
  since: number | null;
  until: number | null;
  position: number;
  messages: number | null;
}

export interface PluginVersion {
  label: string;
  version: string;
  current: boolean;
  loaded: boolean;
  connections: number;
}

/** schema: Plugin */
export interface Plugin {
  name: string;
  state: string;
  reason: string | null;
  isolation: string;
  bundled: boolean;
  version: string | null;
  schema_version: number | null;
  connections: number;
  versions: PluginVersion[];
  faults: Record<string, number>;
  quarantine: number | null;
  quarantines: number;
  restarts: number;
  pid: number | null;
  unconfined: Record<string, string>;
  turned_away: Record<string, number>;
  slow: Record<string, number>;
  slowest: number;
  held_off: { kind: string; name: string; seconds: number; reason: string }[];
  counters: Record<string, number>;
  node?: string;
}

/** schema: CheckReport */
export interface CheckReport {
  name: string;
  label: string;
  version: string;
  ok: boolean;
  checks: { name: string; verdict: string; figure: string; complaints: string[]; seconds: number }[];
}

/** schema: Capture */
export interface Capture {
  id: string;
  codec: string;
  gateway: string | null;
  bytes: number;
  connections: number;
  state: string;
  node?: string;
}

export interface CapturedFrame {
  ms: number | null;
  connection: number | null;
  kind: string;
  text: string | null;
  hex: string | null;
  cut: boolean;
  event: Record<string, unknown> | null;
}

/** schema: CapturedFrames */
export interface CapturedFrames {
  capture: Capture;
  items: CapturedFrame[];
  next: number;
}
