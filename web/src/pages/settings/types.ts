/** What the API answers about the configuration, and about what was changed. */

/** schema: Key */
export interface Key {
  key: string;
  value: unknown;
  layer: string;
  where: string;
  live: boolean;
  restart: boolean;
  written: unknown;
  default: unknown;
  node?: string;
}

/** schema: KeyDetail */
export interface KeyDetail {
  key: string;
  value: unknown;
  layer: string;
  where: string;
  live: boolean;
  restart: boolean;
  written: unknown;
  default: unknown;
  means: string;
  layers: { layer: string; where: string; value: unknown }[];
  node?: string;
}

/** schema: Changes */
export interface Changes {
  changed: { key: string; before: unknown; now: unknown }[];
  opened: string[];
  closed: string[];
  restart: string[];
  notes: string[];
  node?: string;
}

export interface AuditRecord {
  seq: number;
  time: string;
  node: string;
  who: string;
  /** Not in records of before. */
  kind?: "user" | "token" | "root";
  token?: string;
  role: string;
  address: string;
  method: string;
  path: string;
  status: number;
  body: string;
  hash: string;
}

/** From when on the records of a chain are there. */
export interface Kept {
  chain: string;
  since: string;
  complete: boolean;
}

/** schema: AuditPage */
export interface AuditPage {
  items: AuditRecord[];
  after: string | null;
  kept: (Kept & { node: string })[];
}

export interface NodeVerified {
  node: string;
  whole: boolean;
  records: number;
  first: number;
  last: number;
  head: string;
  fault: string;
  kept: Kept[];
}

/** schema: AuditVerified */
export interface Verified {
  whole: boolean;
  fault: string;
  items: NodeVerified[];
}

export interface Alarm {
  code: string;
  text: string;
  since: number;
  until: number | null;
  helps: string | null;
  node: string;
}
