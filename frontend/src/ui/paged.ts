// Rows that come in pages: only the pages in view are asked for, and a few of them are kept.
import { useEffect, useRef, useState } from "preact/hooks";

export interface Page<T> {
  items: T[];
  total: number;
}

export interface Source<T> {
  /** What the rows depend on; another key drops what was loaded. */
  key: string;
  load: (offset: number, limit: number, signal: AbortSignal) => Promise<Page<T>>;
  onError?: (error: unknown) => void;
}

const PAGE = 200;
const KEPT = 24;

/** Pages of a source; `want` says which rows are in view. */
export function usePaged<T>(source: Source<T> | undefined) {
  const [total, setTotal] = useState(0);
  const [loading, setLoading] = useState(Boolean(source));
  const [, redraw] = useState(0);
  const pages = useRef(new Map<number, T[] | null>());
  const abort = useRef(new AbortController());
  const latest = useRef(source);
  latest.current = source;
  const load = (number: number): void => {
    const from = latest.current;
    if (!from || pages.current.has(number)) return;
    pages.current.set(number, null);
    const signal = abort.current.signal;
    from.load(number * PAGE, PAGE, signal).then(
      (page) => {
        if (signal.aborted) return;
        pages.current.set(number, page.items);
        setTotal(page.total);
        setLoading(false);
        redraw((n) => n + 1);
      },
      (error: unknown) => {
        if (signal.aborted) return;
        pages.current.delete(number);
        setLoading(false);
        from.onError?.(error);
      },
    );
  };
  useEffect(() => {
    if (!source) return;
    pages.current = new Map();
    abort.current = new AbortController();
    setLoading(true);
    setTotal(0);
    load(0);
    const mine = abort.current;
    return () => mine.abort();
  }, [source?.key]);
  const wanted = useRef<[number, number]>([0, 0]);
  const timer = useRef(0);
  const want = (first: number, last: number): void => {
    if (!source || last <= first) return;
    wanted.current = [first, last];
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => {
      const [from, to] = [Math.floor(wanted.current[0] / PAGE), Math.floor((wanted.current[1] - 1) / PAGE)];
      for (let number = from; number <= to; number++) load(number);
      for (const number of [...pages.current.keys()]) {
        if (pages.current.size <= KEPT) break;
        if ((number < from - 1 || number > to + 1) && pages.current.get(number)) pages.current.delete(number);
      }
    }, 40);
  };
  const at = (index: number): T | undefined => pages.current.get(Math.floor(index / PAGE))?.[index % PAGE];
  return { total, loading, at, want };
}
