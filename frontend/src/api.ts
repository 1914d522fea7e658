// Requests to the studio's API: one error shape in, one error class out, and the header that unsafe methods need.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { onEvent, type EventKind } from "./events";

/** What the API says when it refuses: what was got, what was expected, what there is, and the remedy. */
export interface ErrorShape {
  what: string;
  got?: string | null;
  expected?: string | null;
  available?: string[] | null;
  remedy?: string | null;
  kind?: string | null;
}

export class ApiError extends Error {
  constructor(
    readonly shape: ErrorShape,
    readonly status: number,
  ) {
    super(shape.what);
    this.name = "ApiError";
  }
}

export type Params = Record<string, string | number | boolean | null | undefined | readonly (string | number)[]>;

/** The address of a resource: missing parameters are left out, lists are repeated. */
export function address(path: string, params: Params = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) search.append(key, String(one));
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

function shapeOf(content: unknown, status: number): ErrorShape {
  const found = (content as { error?: ErrorShape } | null)?.error;
  if (found && typeof found.what === "string") return found;
  return { what: `the server answered with status ${status}`, remedy: "see the terminal that runs twinloop studio" };
}

async function request<T>(method: string, path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (method !== "GET") headers["X-Twinloop"] = "1";
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options: RequestInit = { method, headers, credentials: "same-origin" };
  if (body !== undefined) options.body = JSON.stringify(body);
  if (signal) options.signal = signal;
  let answer: Response;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (signal?.aborted) throw error;
    const remedy = "start it again with twinloop studio; this page reconnects by itself";
    throw new ApiError({ what: "the studio's server does not answer", remedy }, 0);
  }
  const text = await answer.text();
  let content: unknown = null;
  try {
    content = text ? JSON.parse(text) : null;
  } catch {
    throw new ApiError(shapeOf(null, answer.status), answer.status);
  }
  if (!answer.ok) throw new ApiError(shapeOf(content, answer.status), answer.status);
  return content as T;
}

export const get = <T>(path: string, params?: Params, signal?: AbortSignal): Promise<T> =>
  request<T>("GET", address(path, params), undefined, signal);
export const post = <T>(path: string, body: unknown = {}): Promise<T> => request<T>("POST", path, body);
export const put = <T>(path: string, body: unknown = {}): Promise<T> => request<T>("PUT", path, body);
export const del = <T>(path: string): Promise<T> => request<T>("DELETE", path, undefined);

export interface Loaded<T> {
  data: T | null;
  error: ApiError | null;
  loading: boolean;
  reload: () => void;
}

const asApiError = (error: unknown): ApiError =>
  error instanceof ApiError ? error : new ApiError({ what: String(error) }, 0);

/**
 * Load a resource and keep it fresh.
 *
 * @param path The resource; null loads nothing yet.
 * @param params Its query.
 * @param refreshOn Kinds of events after which it is loaded again.
 */
export function useApi<T>(path: string | null, params?: Params, refreshOn: readonly EventKind[] = []): Loaded<T> {
  const where = path === null ? null : address(path, params);
  const [state, setState] = useState<{ where: string | null; data: T | null; error: ApiError | null; loading: boolean }>({
    where,
    data: null,
    error: null,
    loading: where !== null,
  });
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (where === null) return;
    const abort = new AbortController();
    setState((before) => ({ ...before, data: before.where === where ? before.data : null, where, error: null, loading: true }));
    get<T>(where, undefined, abort.signal)
      .then((data) => setState({ where, data, error: null, loading: false }))
      .catch((error: unknown) => {
        if (!abort.signal.aborted) setState((before) => ({ ...before, where, error: asApiError(error), loading: false }));
      });
    return () => abort.abort();
  }, [where, round]);
  const reload = useCallback(() => setRound((n) => n + 1), []);
  const kinds = refreshOn.join(" ");
  useEffect(() => {
    if (!kinds) return;
    return onEvent((event) => kinds.split(" ").includes(event.type) && reload());
  }, [kinds, reload]);
  const stale = state.where !== where;
  return { data: stale ? null : state.data, error: stale ? null : state.error, loading: stale ? where !== null : state.loading, reload };
}

/** A request that a person starts: whether it runs, what went wrong, and `run`, which returns null when refused. */
export function useAction<A extends unknown[], T>(action: (...args: A) => Promise<T>) {
  const [running, setRunning] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const latest = useRef(action);
  latest.current = action;
  const run = useCallback(async (...args: A): Promise<T | null> => {
    setRunning(true);
    setError(null);
    try {
      return await latest.current(...args);
    } catch (failure) {
      setError(asApiError(failure));
      return null;
    } finally {
      setRunning(false);
    }
  }, []);
  return { running, error, run, clear: useCallback(() => setError(null), []) };
}
