/** What the API answers about devices, plugins, the uplink and the log, as far as these pages use it. */

/** schema: Device */
export interface Device {
  target: string;
  gateway: string;
  device: string | null;
  online: boolean;
  codec: string | null;
  version: string | null;
  address: string | null;
  first_seen: number;
  last_seen: number;
  logins: number;
  readings: number;
}

export interface Half {
  version: number;
  values: Record<string, unknown>;
  /** Milliseconds since 1970. */
  times: Record<string, number>;
}

/** schema: Shadow */
export interface Shadow {
  target: string;
  reported: Half;
  desired: Half;
  delta: Record<string, unknown>;
}

/** schema: Command */
export interface Command {
  id: string;
  target: string;
  state: string;
  detail: string;
  values: Record<string, unknown> | null;
  accepted_at: number;
  changed_at: number;
  deadline: number | null;
  sender: string;
  attempts: number;
  times: Record<string, number>;
}

/** schema: CommandWithBody */
export interface CommandWithBody extends Command {
  body: string | null;
  body_base64: string;
}

/** schema: Capture */
export interface Capture {
  id: string;
  codec: string;
  gateway: string | null;
  file: string;
  bytes: number;
  connections: number;
  state: string;
  node?: string;
}

export interface PluginVersion {
  label: string;
  version: string;
  current: boolean;
  loaded: boolean;
  connections: number;
}

export interface HeldOff {
  [field: string]: unknown;
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
  held_off: HeldOff[];
  counters: Record<string, number>;
  node?: string;
}

/** schema: Uplink */
export interface Uplink {
  kind: string;
  state: string;
  alarms: string[];
  trouble: string | null;
  spool: string;
  position: number;
  end: number;
  lag_messages: number;
  lag_bytes: number;
  lag_seconds: number;
  unread_messages: number;
  in_flight_messages: number;
  recorded: number;
  sent: number;
  sent_bytes: number;
  safe: number;
  failures: number;
  lost: number;
  dead: number;
  dropped: number;
  node?: string;
}

export interface Rule {
  number: number;
  filter: string;
  gateway: string | null;
  device: string | null;
  codec: string | null;
  when: string | null;
  qos: number;
  to: string;
  mode: string;
  key: string;
  matched: number;
  sent: number;
}

/** schema: UplinkRules */
export interface Rules {
  items: Rule[];
  earlier: number;
  names: number;
  turned_away: number;
  node?: string;
}

export interface Example {
  topic: string;
  client: string;
  qos: number;
  payload: string;
  to: string;
  key: string;
}

export interface RuleTrial {
  number: number;
  rule: string;
  matched: number;
  sent: number;
  to: Record<string, number>;
  examples: Example[];
}

export interface Difference {
  now: string;
  then: string;
  messages: number;
  example: Example;
}

/** schema: UplinkTrial */
export interface Trial {
  messages: number;
  first_at: number | null;
  last_at: number | null;
  rules: RuleTrial[];
  unmatched: number;
  unmatched_examples: Example[];
  changed: number | null;
  differences: Difference[];
  other_keys: number;
  notes: string[];
  node?: string;
}

/** schema: Job */
export interface Job {
  job: string;
  state: string;
  started_at: number | null;
  updated_at: number | null;
  batch: number | null;
  input_rows_per_second: number | null;
  processed_rows_per_second: number | null;
  batch_seconds: number | null;
  totals: Record<string, number>;
  named: Record<string, Record<string, number>>;
  lag: number | null;
  watermark: string | null;
  error: string | null;
  node?: string;
}

/** schema: Log */
export interface LogInfo {
  end: number;
  messages: number;
  bytes: number;
  generations: number;
  streams: number;
  messages_appended: number;
  bytes_appended: number;
  pages_read: number;
  damaged_pages: number;
  disk_level: string;
  disk_used: number;
  disk_limit: number;
  disk_free: number;
  uncommitted_bytes: number;
  uncommitted_operations: number;
  trouble: string | null;
  node?: string;
}

/** schema: LogGeneration */
export interface Generation {
  generation: number;
  retention_class: number;
  began_at: number;
  first: number;
  end: number;
  messages: number;
  bytes: number;
  streams: number;
  closed: boolean;
  node?: string;
}

/** schema: LogStream */
export interface LogStream {
  generation: number;
  stream: number;
  shard: number;
  structure: string;
  bucket: number;
  buckets: number;
  pages: number;
  messages: number;
  bytes: number;
  node?: string;
}

/** schema: LogVerification */
export interface Verification {
  running: boolean;
  began_at: number | null;
  ended_at: number | null;
  failure: string | null;
  damaged: number;
  node?: string;
}

/** schema: Session */
export interface Reader {
  client_id: string;
  connected: boolean;
  position: number | null;
  backlog: number | null;
  lag: number;
  state: string;
  node?: string;
}

export interface Claim {
  filter: string;
  kind: string;
  since: number;
  until: number | null;
  position: number;
  live: boolean;
  messages: number;
}
