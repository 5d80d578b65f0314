/** `/api/v1/events`, one stream for all of the page, open while somebody listens and the page is seen. */
import { effect, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { url } from "./api";
import { readJson } from "./json";
import { visible } from "./live";
import { heard } from "./pulse";

export interface BrokerEvent {
  kind: string;
  node: string;
  at: number;
  [field: string]: unknown;
}

type Listener = (event: BrokerEvent) => void;
const listeners = new Map<string, Set<Listener>>();
const wanted = signal("");
/** What a node that has no room for another stream is given until it is asked again. */
const AGAIN = 30_000;

/** Be told of events of these kinds. The function must stay the same between renders. */
export function useEvents(kinds: readonly string[], listener: Listener): void {
  const key = kinds.join(",");
  useEffect(() => {
    for (const kind of key.split(",")) {
      const those = listeners.get(kind) ?? new Set();
      listeners.set(kind, those.add(listener));
    }
    wanted.value = [...listeners.keys()].sort().join(",");
    return () => {
      for (const kind of key.split(",")) {
        const those = listeners.get(kind);
        those?.delete(listener);
        if (those?.size === 0) listeners.delete(kind);
      }
      wanted.value = [...listeners.keys()].sort().join(",");
    };
  }, [key, listener]);
}

effect(() => {
  if (wanted.value === "" || !visible.value) return;
  const kinds = wanted.value;
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const open = () => {
    source = new EventSource(url("events", { kind: kinds }));
    for (const kind of kinds.split(",")) {
      source.addEventListener(kind, (message) => {
        heard();
        const event = readJson((message as MessageEvent<string>).data) as BrokerEvent;
        for (const listener of listeners.get(kind) ?? []) listener(event);
      });
    }
    source.onerror = () => {
      // Otherwise the browser comes back by itself.
      if (source?.readyState === EventSource.CLOSED) timer = setTimeout(open, AGAIN);
    };
  };
  open();
  return () => {
    clearTimeout(timer);
    source?.close();
  };
});
