/** What the API answers about the cluster and its nodes. */

/** schema: Drain */
export interface Drain {
  state: string;
  refusing: boolean;
  moved: boolean;
  rate: number;
  began_at: number | null;
  clients: number;
  sent_away: number;
  leaving: number;
  remaining: number;
  refused: number;
  estimate: number | null;
}

/** schema: Node */
export interface Node {
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
  backlog: number;
  paused: number;
  unexplained: number;
  alarms: string[];
  uptime: number;
  drain: Drain;
}

export interface Member {
  number: number;
  node_id: string;
  boot: number;
  version: string;
  state: string;
  draining: boolean;
  clients: number;
  load: number | null;
  routes: number;
  routes_agree: boolean;
  routes_behind: number;
  unconfirmed: number;
  crowded: boolean;
  items_sent: number;
  bytes_sent: number;
  items_received: number;
  bytes_received: number;
  repairs_asked: number;
  gaps: number;
  left_at: number | null;
}

/** schema: Cluster */
export interface Cluster {
  clustered: boolean;
  node_id: string;
  number: number;
  registry: string;
  registry_trouble: string | null;
  grid_trouble: string | null;
  copies_missing: number | null;
  grid_servers: number | null;
  members: Member[];
  routes: number;
  dead: number[];
  adopted_clients: number;
  messages_forwarded: number;
  messages_from_peers: number;
  forwards_dropped: Record<string, number>;
  degraded: string[];
  node?: string;
}

/** schema: ClusterIdentity */
export interface Identity {
  unexplained: number;
  moving: number;
  waiting: number;
  uncounted: number;
  on_links: number;
  matched: number;
  restored: number;
  delivered: number;
  handed_over: number;
  lives: number;
  killed: number;
  left: number;
  found: number;
  dropped: Record<string, number>;
  estimated: string[];
}

/** schema: Log */
export interface Room {
  disk_level: string;
  disk_used: number;
  disk_limit: number;
  node?: string;
}

export interface Share {
  number: number;
  node_id: string;
  clients: number;
  mean: number;
  surplus: number;
  note: string | null;
}

/** schema: Listener */
export interface Listener {
  name: string;
  open: boolean;
  protocol: string;
  host: string;
  port: number;
  tls: boolean;
  path: string | null;
  codec: string | null;
  layer: string;
  connections: number;
  accepted: number;
  refused: number;
  most: number;
  max_connections: number;
  node?: string;
}
