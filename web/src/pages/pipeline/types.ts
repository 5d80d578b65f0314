/** What the API answers about single rows of the tables behind the uplink. */
/** schema: PlantAlarm */
export interface PlantAlarm {
  id: string;
  raised_at: number;
  cleared_at: number | null;
  gateway: string | null;
  device: string | null;
  tag: string | null;
  rule: string | null;
  kind: string | null;
  severity: string | null;
  value: number | null;
  threshold: number | null;
  node?: string;
}

/** schema: DeadLetter */
export interface DeadLetter {
  id: string;
  at: number;
  topic: string | null;
  device: string | null;
  reason: string;
  tag: string | null;
  tags: number | null;
  payload: string;
  size: number;
  node?: string;
}
