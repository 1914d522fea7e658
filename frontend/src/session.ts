// Who is here and what they may do: the workspace, read-only mode, and the name that labels and decisions carry.
import { useEffect, useState } from "preact/hooks";
import { useApi } from "./api";

export interface Session {
  workspace: string;
  version: string;
  read_only: boolean;
}

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

/** The workspace that is served, and whether it may be changed. */
export function useSession(): Session | null {
  return useApi<Session>("/api/overview/studio").data;
}
