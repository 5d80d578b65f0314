/** What the API answers about the uplink and the jobs behind it, as far as their pages use it. */

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
  sent: number;
  sent_bytes: number;
  safe: number;
  failures: number;
  lost: number;
  dead: number;
  dropped: number;
  rejected: Rejected[];
  node: string;
}

export interface Rejected {
  id: string;
  topic: string;
  reason: string;
  size: number;
  came_at: number;
  kept_in: string | null;
}

/** schema: UplinkCommands */
export interface UplinkCommands {
  state: string;
  alarms: string[];
  trouble: string | null;
  topic: string;
  joined: boolean;
  partitions: number[];
  lag: number;
  under_way: number;
  received: number;
  accepted: number;
  repeated: number;
  expired: number;
  buried: number;
  node: string;
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
  node: string;
}

/** schema: UplinkReload */
export interface Reload {
  changed: boolean;
  added: string[];
  removed: string[];
  reordered: boolean;
  waiting: number;
  notes: string[];
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

/** schema: UplinkTrial */
export interface Trial {
  messages: number;
  first_at: number | null;
  last_at: number | null;
  rules: RuleTrial[];
  unmatched: number;
  unmatched_examples: Example[];
  changed: number | null;
  differences: { now: string; then: string; messages: number; example: Example }[];
  other_keys: number;
  notes: string[];
}

/** schema: Job */
export interface Job {
  job: string;
  state: string;
  pid: number | null;
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
  node: string;
}
