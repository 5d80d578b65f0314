/** What the API answers about who may do what. */

export type Limits = Record<string, number | string>;

/** schema: User */
export interface User {
  name: string;
  version: number;
  enabled: boolean;
  password: string | null;
  scram: boolean;
  groups: string[];
  client_ids: string[];
  limits: Limits;
  in_chain: boolean;
}

/** schema: AclRules */
export interface Rules {
  name: string;
  version: number;
  text: string;
  rules: number;
  asked: boolean;
}

/** schema: RightAnswer */
export interface Right {
  allowed: boolean;
  detail: string;
  source: string | null;
  line: number | null;
  rule: string | null;
}

export interface SaidLimit {
  limit: string;
  value: number | string;
  of: string;
  source: string;
}

/** schema: Explanation */
export interface Explanation {
  links: { link: string; verdict: string; detail: string; known: string }[];
  verdict: string;
  detail: string;
  reason: string | null;
  user: string | null;
  groups: string[];
  limits: SaidLimit[];
}

/** schema: Token */
export interface Token {
  id: string;
  name: string;
  role: string;
  scope: string[];
  expires_at: number | null;
  expired: boolean;
  made_by: string;
  made_at: number;
  admin: string | null;
}

/** schema: MadeToken */
export interface MadeToken {
  id: string;
  name: string;
  token: string;
}

/** schema: Admin */
export interface Admin {
  name: string;
  role: string;
  must_change: boolean;
  made_at: number;
  version: number;
  tokens: number;
}

/** schema: Ban */
export interface Ban {
  id: string;
  client: string | null;
  user: string | null;
  address: string | null;
  until: number | null;
  cause: string;
  reason: string;
  made_by: string;
  made_at: number;
}

/** schema: LimitRule */
export interface LimitRule {
  name: string;
  version: number;
  user: string | null;
  client: string | null;
  group: string | null;
  limits: Limits;
}
