/** Why something was refused or closed, in words: the broker's names, and MQTT's codes. */
import { tOr } from "./i18n";

/** Of the codes from 0x80 on, in their order (MQTT 5.0, section 2.4). */
export const NAMES = [
  "unspecified_error",
  "malformed_packet",
  "protocol_error",
  "implementation_specific_error",
  "unsupported_protocol_version",
  "client_identifier_not_valid",
  "bad_user_name_or_password",
  "not_authorized",
  "server_unavailable",
  "server_busy",
  "banned",
  "server_shutting_down",
  "bad_authentication_method",
  "keep_alive_timeout",
  "session_taken_over",
  "topic_filter_invalid",
  "topic_name_invalid",
  "packet_identifier_in_use",
  "packet_identifier_not_found",
  "receive_maximum_exceeded",
  "topic_alias_invalid",
  "packet_too_large",
  "message_rate_too_high",
  "quota_exceeded",
  "administrative_action",
  "payload_format_invalid",
  "retain_not_supported",
  "qos_not_supported",
  "use_another_server",
  "server_moved",
  "shared_subscriptions_not_supported",
  "connection_rate_exceeded",
  "maximum_connect_time",
  "subscription_identifiers_not_supported",
  "wildcard_subscriptions_not_supported",
];
/** Of CONNACK in MQTT 3.1.1, from 1 on. */
const OF_3 = [
  "unsupported_protocol_version",
  "client_identifier_not_valid",
  "server_unavailable",
  "bad_user_name_or_password",
  "not_authorized",
];

/** A name of the broker's; nodes write those of connections in capitals. */
export function reasonText(name: string): string {
  return tOr(`reason.${name.toLowerCase()}`, name);
}

export function codeText(code: number): string {
  const name = code >= 0x80 ? NAMES[code - 0x80] : OF_3[code - 1];
  return name === undefined ? String(code) : `${reasonText(name)} (${code})`;
}
