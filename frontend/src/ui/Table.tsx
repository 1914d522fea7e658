// A table that draws only the rows in view: 100,000 rows scroll as smoothly as ten, with the whole keyboard.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { usePaged, type Source } from "./paged";

export interface Column<T> {
  key: string;
  title: string;
  /** A width of CSS grid, such as `120px` or `minmax(160px, 1fr)`. */
  width?: string;
  align?: "left" | "right";
  /** Whether a click on the title sorts by this column; the owner of the rows sorts. */
  sortable?: boolean;
  render: (row: T, index: number) => ComponentChildren;
}

export interface Sort {
  key: string;
  descending: boolean;
}

interface Props<T> {
  label: string;
  columns: readonly Column<T>[];
  /** All rows, or where pages of them come from. */
  rows?: readonly T[];
  source?: Source<T>;
  rowHeight?: number;
  /** Tallest; fewer rows make a lower table. `fill` takes the height of its container. */
  height?: number | "fill";
  selected?: number | null;
  onSelect?: (row: T, index: number) => void;
  onOpen?: (row: T, index: number) => void;
  sort?: Sort | null;
  onSort?: (sort: Sort) => void;
  empty?: ComponentChildren;
}

const SPARE = 6;
const HEAD = 34;

/** A virtualised table: arrow keys, Page Up and Down, Home and End move; Enter opens. */
export function Table<T>(props: Props<T>) {
  const { label, columns, rows, source, rowHeight = 34, height = 480, onSelect, onOpen, sort, onSort, empty } = props;
  const paged = usePaged(source);
  const total = rows ? rows.length : paged.total;
  const rowAt = (index: number): T | undefined => (rows ? rows[index] : paged.at(index));
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: typeof height === "number" ? height : 600 });
  const [own, setOwn] = useState<number | null>(null);
  const current = props.selected !== undefined ? props.selected : own;
  const first = Math.max(0, Math.floor(view.top / rowHeight) - SPARE);
  const last = Math.min(total, Math.ceil((view.top + view.height) / rowHeight) + SPARE);
  paged.want(first, last);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = (): void => setView({ top: element.scrollTop, height: element.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (box.current && source) box.current.scrollTop = 0;
    setOwn(null);
  }, [source?.key]);

  const select = (index: number): void => {
    const row = rowAt(index);
    setOwn(index);
    if (row !== undefined) onSelect?.(row, index);
    const element = box.current;
    if (!element) return;
    const top = index * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + element.clientHeight - HEAD) element.scrollTop = top + rowHeight - element.clientHeight + HEAD;
  };
  const key = (event: KeyboardEvent): void => {
    if (event.target !== box.current || total === 0) return;
    const page = Math.max(1, Math.floor((view.height - HEAD) / rowHeight) - 1);
    const at = current ?? -1;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: total - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      select(Math.min(total - 1, Math.max(0, to)));
    } else if (event.key === "Enter" && current !== null) {
      const row = rowAt(current);
      if (row !== undefined) onOpen?.(row, current);
    }
  };
  const template = columns.map((column) => column.width ?? "minmax(80px, 1fr)").join(" ");
  const shown = Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
  const size = typeof height === "number" ? { maxHeight: `${height}px` } : {};
  return (
    <div class={height === "fill" ? "table table-fill" : "table"} ref={box} style={size} role="grid" aria-label={label} aria-rowcount={total + 1} tabIndex={0} onScroll={(event) => setView({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })} onKeyDown={key}>
      <div class="table-inner">
        <div class="table-head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
          {columns.map((column) => <Head key={column.key} column={column} sort={sort ?? null} {...(onSort ? { onSort } : {})} />)}
        </div>
        <div class="table-rows" role="rowgroup" style={{ height: `${total * rowHeight}px` }}>
          {shown.map((index) => {
            const row = rowAt(index);
            return (
              <div key={index} class="table-row" role="row" aria-rowindex={index + 2} aria-selected={index === current} style={{ gridTemplateColumns: template, height: `${rowHeight}px`, transform: `translateY(${index * rowHeight}px)` }} onClick={() => select(index)} onDblClick={() => row !== undefined && onOpen?.(row, index)}>
                {columns.map((column) => (
                  <div key={column.key} role="gridcell" class={column.align === "right" ? "cell cell-right" : "cell"}>
                    {row === undefined ? <span class="skeleton" /> : column.render(row, index)}
                  </div>
                ))}
              </div>
            );
          })}
        </div>
      </div>
      {total === 0 && !paged.loading && <div class="table-empty">{empty ?? "Nothing to show."}</div>}
    </div>
  );
}

function Head<T>({ column, sort, onSort }: { column: Column<T>; sort: Sort | null; onSort?: (sort: Sort) => void }) {
  const sorted = sort?.key === column.key ? (sort.descending ? "descending" : "ascending") : "none";
  const flip = (): void => onSort?.({ key: column.key, descending: sorted === "ascending" });
  const classes = column.align === "right" ? "cell cell-right" : "cell";
  if (!column.sortable || !onSort) return <div role="columnheader" class={classes}>{column.title}</div>;
  return (
    <div role="columnheader" class={classes} aria-sort={sorted}>
      <button type="button" class="table-sort" onClick={flip}>
        {column.title}
        {sorted !== "none" && <span aria-hidden="true">{sorted === "ascending" ? "↑" : "↓"}</span>}
      </button>
    </div>
  );
}
