// Who is here and what they may do: the workspace, read-only mode, and the name that labels and decisions carry.
import { useEffect, useState } from "preact/hooks";
import { get } from "./api";
import type { Studio } from "./types";

export type Session = Studio;

const KEY = "twinloop.name";
const listeners = new Set<() => void>();

/** The name this person gave; labels and decisions carry it. */
export function storedName(): string {
  return window.localStorage.getItem(KEY) ?? "";
}

export function setName(name: string): void {
  window.localStorage.setItem(KEY, name.trim());
  for (const listener of [...listeners]) listener();
}

export function useName(): string {
  const [name, set] = useState(storedName);
  useEffect(() => {
    const update = (): void => set(storedName());
    listeners.add(update);
    return () => {
      listeners.delete(update);
    };
  }, []);
  return name;
}

let known: Session | null = null;
let asked: Promise<Session> | null = null;

/** The workspace that is served, and whether it may be changed; asked for once. */
export function useSession(): Session | null {
  const [session, set] = useState(known);
  useEffect(() => {
    if (session) return;
    asked ??= get<Session>("/api/overview/studio");
    asked.then(
      (found) => {
        known = found;
        set(found);
      },
      () => (asked = null),
    );
  }, []);
  return session;
}
