/** What the API answers about devices, as far as their pages use it. */

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
  /** For operators. */
  values?: Record<string, unknown>;
  /** Milliseconds since 1970. */
  times: Record<string, number>;
}

/** schema: Shadow */
export interface Shadow {
  target: string;
  reported: Half;
  desired: Half;
  /** For operators. */
  delta?: Record<string, unknown>;
}

/** schema: Command */
export interface Command {
  id: string;
  target: string;
  state: string;
  /** For operators, as the values, where it is what the device answered. */
  detail?: string;
  values?: Record<string, unknown> | null;
  accepted_at: number;
  changed_at: number;
  deadline: number | null;
  sender: string;
  attempts: number;
  times: Record<string, number>;
}

/** schema: CommandWithBody */
export interface CommandWithBody extends Command {
  /** For operators. */
  body?: string | null;
  body_base64?: string;
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
