/** What keeps a name from being sent, as the key of the sentence that says so: a broker would close the connection for it. */

/** The length before a text has two bytes. */
const MOST = 65_535;

export function textFault(text: string): string | undefined {
  if (/[\0\p{Cs}]/u.test(text)) return "mqtt.bad_character";
  if (new TextEncoder().encode(text).length > MOST) return "mqtt.bad_length";
  return undefined;
}

export function topicFault(topic: string): string | undefined {
  if (topic === "") return "mqtt.bad_empty";
  if (/[+#]/.test(topic)) return "mqtt.bad_topic";
  return textFault(topic);
}

export function filterFault(filter: string): string | undefined {
  if (filter === "") return "mqtt.bad_empty";
  return textFault(filter) ?? (fits(filter) ? undefined : "mqtt.bad_filter");
}

/** Wildcards are whole levels, and `#` is the last one; of a shared filter and of a replay, behind what they begin with. */
function fits(filter: string): boolean {
  const levels = filter.split("/");
  if (levels[0] === "$share" || levels[0] === "$replay") {
    const [kind, name = ""] = levels.splice(0, 2);
    if (name === "" || levels.join("/") === "" || (kind === "$share" && /[+#]/.test(name))) return false;
  }
  return levels.every(
    (level, at) => !/[+#]/.test(level) || level === "+" || (level === "#" && at === levels.length - 1),
  );
}
