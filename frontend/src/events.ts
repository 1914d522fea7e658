// Server-sent events: one connection for the page, shared by everything that listens.
import { useEffect, useState } from "preact/hooks";

export type EventKind = "job" | "workspace";

export interface StudioEvent {
  type: EventKind;
  id?: string;
  [key: string]: unknown;
}

type Listener = (event: StudioEvent) => void;

const listeners = new Set<Listener>();
const watchers = new Set<(connected: boolean) => void>();
let source: EventSource | null = null;
let connected = true;

function setConnected(value: boolean): void {
  if (value === connected) return;
  connected = value;
  for (const watcher of watchers) watcher(value);
}

function open(): void {
  source = new EventSource("/api/events");
  source.onopen = () => setConnected(true);
  source.onerror = () => setConnected(false); // the browser connects again by itself
  const hear = (message: MessageEvent<string>): void => {
    let event: StudioEvent;
    try {
      event = JSON.parse(message.data) as StudioEvent;
    } catch {
      return;
    }
    for (const listener of [...listeners]) listener(event);
  };
  source.onmessage = hear;
  for (const kind of ["job", "workspace"]) source.addEventListener(kind, hear as EventListener);
}

/** Call `listener` for every event; returns what stops it. */
export function onEvent(listener: Listener): () => void {
  if (!source) open();
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Whether the server is reachable; false while the browser tries to connect again. */
export function useConnected(): boolean {
  const [value, setValue] = useState(connected);
  useEffect(() => {
    watchers.add(setValue);
    return () => {
      watchers.delete(setValue);
    };
  }, []);
  return value;
}
