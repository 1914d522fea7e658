// Addresses to rooms: deep links, history, and rooms that are fetched when first needed.
import type { ComponentChildren, ComponentType, TargetedMouseEvent } from "preact";
import { useEffect, useState } from "preact/hooks";

export interface Location {
  path: string;
  query: URLSearchParams;
}

const listeners = new Set<() => void>();
const here = (): Location => ({ path: window.location.pathname, query: new URLSearchParams(window.location.search) });

function announce(): void {
  for (const listener of [...listeners]) listener();
}

window.addEventListener("popstate", announce);

/** Go to an address of the studio; `replace` leaves no step in the history. */
export function go(to: string, replace = false): void {
  if (to === window.location.pathname + window.location.search) return;
  window.history[replace ? "replaceState" : "pushState"](null, "", to);
  announce();
}

export function useLocation(): Location {
  const [location, setLocation] = useState(here);
  useEffect(() => {
    const update = (): void => setLocation(here());
    listeners.add(update);
    return () => {
      listeners.delete(update);
    };
  }, []);
  return location;
}

/** One key of the address's query as state: what a page shows can be linked to. */
export function useQueryState(key: string, initial = ""): [string, (value: string) => void] {
  const { query } = useLocation();
  const set = (value: string): void => {
    const next = new URLSearchParams(window.location.search);
    if (value && value !== initial) next.set(key, value);
    else next.delete(key);
    const text = next.toString();
    go(window.location.pathname + (text ? `?${text}` : ""), true);
  };
  return [query.get(key) ?? initial, set];
}

interface LinkProps {
  href: string;
  class?: string | undefined;
  title?: string | undefined;
  tabIndex?: number;
  "aria-current"?: "page" | undefined;
  "aria-label"?: string | undefined;
  onClick?: (event: TargetedMouseEvent<HTMLAnchorElement>) => void;
  onMouseEnter?: () => void;
  onFocus?: () => void;
  children?: ComponentChildren;
}

/** A link inside the studio: no page load, and everything else a link does. */
export function Link({ href, onClick, ...rest }: LinkProps) {
  const click = (event: TargetedMouseEvent<HTMLAnchorElement>): void => {
    onClick?.(event);
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(href);
  };
  return <a href={href} onClick={click} {...rest} />;
}

/** Values of `:names` in a pattern such as `/episode/:dataset/:index`; null when the path is another one. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/").filter(Boolean);
  const got = path.split("/").filter(Boolean);
  if (wanted.length !== got.length) return null;
  const values: Record<string, string> = {};
  for (const [i, part] of wanted.entries()) {
    const value = got[i] ?? "";
    if (part.startsWith(":")) {
      try {
        values[part.slice(1)] = decodeURIComponent(value);
      } catch {
        return null;
      }
    } else if (part !== value) return null;
  }
  return values;
}

export type RoomProps = { params: Record<string, string> };
export type RoomModule = { default: ComponentType<RoomProps> };

/** A room that is fetched when first shown; `preload` fetches it before. */
export function lazyRoom(load: () => Promise<RoomModule>) {
  let found: ComponentType<RoomProps> | null = null;
  let pending: Promise<void> | null = null;
  const preload = (): Promise<void> => {
    pending ??= load().then((module) => {
      found = module.default;
    });
    pending.catch(() => (pending = null));
    return pending;
  };
  function Room(props: RoomProps) {
    const [, redraw] = useState(0);
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      if (found) return;
      let alive = true;
      preload().then(
        () => alive && redraw((n) => n + 1),
        () => alive && setFailed(true),
      );
      return () => {
        alive = false;
      };
    }, []);
    if (found) {
      const Found = found;
      return <Found {...props} />;
    }
    if (failed) return <p class="room-loading">This page could not be loaded. Reload to try again.</p>;
    return <div class="room-loading" aria-busy="true" />;
  }
  return { Room, preload };
}
