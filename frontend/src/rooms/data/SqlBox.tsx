// SQL over datasets: completion of tables, columns and draws; the store's own query, which reads nothing else.
import { useMemo, useRef, useState } from "preact/hooks";
import { get, useAction, useApi } from "../../api";
import { duration, number } from "../../format";
import { datasetTitle } from "../../names";
import { useQueryState } from "../../router";
import type { SqlAnswer, SqlTables } from "../../types";
import { Button, Card, Chart, CheckField, ErrorBox, Segmented, Table, type Column } from "../../ui";

const KEYWORDS = "select from where group by order by limit count(*) avg( min( max( sum( distinct as and or not is null desc asc having case when then else end between like ilike in join using with filter ( coalesce( quantile_cont( date_trunc(".split(/ (?!by|\()/);
const EXAMPLES = [
  { title: "Outcomes", sql: "select source, success, failure, count(*) as episodes\nfrom episodes group by all order by episodes desc" },
  { title: "Longest", sql: "select episode_index, duration_s, success\nfrom episodes order by duration_s desc limit 20" },
  { title: "Success over length", sql: "select round(duration_s) as seconds, avg(success::int) as success\nfrom episodes group by 1 order by 1" },
];
const MOST_SHOWN = 8;
/** Datasets that are asked at first. */
const MOST_CHOSEN = 12;

interface Word {
  text: string;
  kind: string;
}

function wordsOf(tables: SqlTables | null): Word[] {
  const words: Word[] = KEYWORDS.map((text) => ({ text, kind: "SQL" }));
  for (const [table, columns] of Object.entries(tables?.tables ?? {})) {
    words.push({ text: table, kind: "table" });
    for (const column of columns) {
      const text = /^[a-z_][a-z0-9_]*$/.test(column.name) ? column.name : `"${column.name}"`;
      if (!words.some((word) => word.text === text)) words.push({ text, kind: `${table}: ${column.type.replace(/<.*/, "")}` });
    }
  }
  for (const name of tables?.draws ?? []) words.push({ text: `draw['${name}']`, kind: "draw" });
  return words;
}

/** The word before the caret, and what it may become. */
function complete(text: string, caret: number, words: readonly Word[]): { from: number; found: Word[] } {
  const from = caret - (/[\w"'[\].]*$/.exec(text.slice(0, caret))?.[0].length ?? 0);
  const begun = text.slice(from, caret).toLowerCase();
  if (!begun) return { from, found: [] };
  const bare = begun.replace(/^"/, "");
  const score = (word: Word): number => {
    const name = word.text.toLowerCase().replace(/^"/, "");
    return name === begun ? -1 : name.startsWith(bare) ? 2 : bare.length > 2 && name.includes(bare) ? 1 : 0;
  };
  const found = words.map((word) => ({ word, rank: score(word) })).filter((one) => one.rank > 0);
  return { from, found: found.sort((a, b) => b.rank - a.rank || a.word.text.length - b.word.text.length).slice(0, MOST_SHOWN).map((one) => one.word) };
}

function Editor({ value, onValue, onRun, tables }: { value: string; onValue: (value: string) => void; onRun: () => void; tables: SqlTables | null }) {
  const box = useRef<HTMLTextAreaElement>(null);
  const words = useMemo(() => wordsOf(tables), [tables]);
  const [caret, setCaret] = useState<number | null>(null);
  const [chosen, setChosen] = useState(0);
  const { from, found } = caret === null ? { from: 0, found: [] } : complete(value, caret, words);
  const accept = (word: Word | undefined): void => {
    const element = box.current;
    if (!word || !element || caret === null) return;
    element.setRangeText(word.text, from, caret, "end");
    onValue(element.value);
    setCaret(null);
    element.focus();
  };
  const key = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      setCaret(null);
      onRun();
    } else if (found.length > 0 && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      setChosen((chosen + (event.key === "ArrowDown" ? 1 : found.length - 1)) % found.length);
    } else if (found.length > 0 && (event.key === "Tab" || event.key === "Enter")) {
      event.preventDefault();
      accept(found[chosen] ?? found[0]);
    } else if (event.key === "Escape") setCaret(null);
  };
  return (
    <div class="sql-editor">
      <textarea ref={box} class="mono" rows={6} spellcheck={false} autocomplete="off" autocapitalize="off" aria-label="SQL" aria-controls="sql-words" aria-autocomplete="list" value={value}
        onInput={(event) => { onValue(event.currentTarget.value); setCaret(event.currentTarget.selectionStart); setChosen(0); }}
        onKeyDown={key} onBlur={() => window.setTimeout(() => setCaret(null), 150)} />
      <ul id="sql-words" role="listbox" class="sql-words" hidden={found.length === 0}>
        {found.map((word, i) => (
          <li key={word.text} role="option" aria-selected={i === chosen} onMouseDown={(event) => { event.preventDefault(); accept(word); }}>
            <code>{word.text}</code><small>{word.kind}</small>
          </li>
        ))}
      </ul>
    </div>
  );
}

const isNumber = (type: string): boolean => /^(u?int|float|double|decimal|hugeint)/.test(type);

function cell(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return number(value, 6);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function Answer({ answer }: { answer: SqlAnswer }) {
  const [view, setView] = useState("table");
  const columns: Column<unknown[]>[] = answer.columns.map((one, i) => ({
    key: String(i),
    title: one.name,
    width: isNumber(one.type) ? "minmax(96px, 1fr)" : "minmax(130px, 2fr)",
    align: isNumber(one.type) ? "right" : "left",
    render: (row) => (row[i] === null ? <span class="soft">null</span> : <span title={cell(row[i])}>{cell(row[i])}</span>),
  }));
  const numeric = answer.columns.map((one, i) => ({ ...one, i })).filter((one) => isNumber(one.type));
  const [first, ...others] = numeric;
  const column = (i: number): number[] => answer.rows.map((row) => Number(row[i]));
  return (
    <Card flush title={`${answer.total.toLocaleString("en-US")} ${answer.total === 1 ? "row" : "rows"} in ${duration(answer.seconds)}`} note={answer.total > answer.rows.length ? `The first ${answer.rows.length} are shown.` : undefined}
      actions={first && others.length > 0 && answer.rows.length > 1 ? <Segmented label="View" value={view} onValue={setView} options={[{ value: "table", label: "Table" }, { value: "chart", label: "Chart" }]} /> : undefined}>
      {view === "chart" && first ? (
        <div class="sql-chart"><Chart title={`${others.map((one) => one.name).join(", ")} over ${first.name}`} x={column(first.i)} series={others.slice(0, 8).map((one) => ({ label: one.name, values: column(one.i), points: answer.rows.length < 60 }))} xLabel={first.name} height={280} /></div>
      ) : (
        <Table label="Answer" columns={columns} rows={answer.rows} rowHeight={30} height={480} empty="No row." />
      )}
    </Card>
  );
}

/** A box for one SELECT, and its answer as a table or a chart. */
export function SqlBox({ datasets }: { datasets: readonly string[] }) {
  const [sql, setSql] = useQueryState("sql", EXAMPLES[0]?.sql ?? "");
  const [text, setText] = useState(sql);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set(datasets.slice(0, MOST_CHOSEN)));
  const [answer, setAnswer] = useState<SqlAnswer | null>(null);
  const first = datasets.find((path) => chosen.has(path)) ?? null;
  const tables = useApi<SqlTables>(first === null ? null : "/api/data/tables", { dataset: first ?? "" }).data;
  const run = useAction(async () => {
    setSql(text);
    setAnswer(await get<SqlAnswer>("/api/data/query", { sql: text, dataset: [...chosen], limit: 500 }));
  });
  const toggle = (path: string, on: boolean): void => {
    const next = new Set(chosen);
    if (on) next.add(path);
    else next.delete(path);
    setChosen(next);
  };
  return (
    <div class="stack sql">
      <Card>
        <div class={datasets.length > 1 ? "sql-grid" : ""}>
          <div class="stack-tight">
            <Editor value={text} onValue={setText} onRun={() => void run.run()} tables={tables} />
            <div class="row row-wrap sql-run">
              <Button kind="primary" icon="play" busy={run.running} disabled={chosen.size === 0} onClick={() => void run.run()}>Run</Button>
              <span class="hint"><kbd>Ctrl</kbd> <kbd>Enter</kbd> runs, <kbd>Tab</kbd> completes</span>
              <span class="grow" />
              {EXAMPLES.map((one) => <Button key={one.title} small kind="quiet" onClick={() => setText(one.sql)}>{one.title}</Button>)}
            </div>
          </div>
          {datasets.length > 1 && (
            <fieldset class="sql-datasets">
              <legend>Over these datasets</legend>
              {datasets.map((path) => <CheckField key={path} label={<span title={path}>{datasetTitle(path)}</span>} checked={chosen.has(path)} onValue={(on) => toggle(path, on)} />)}
            </fieldset>
          )}
        </div>
        <p class="hint">Tables <code>episodes</code>, <code>frames</code> and <code>transitions</code>. A query reads the chosen datasets, nothing else, and cannot write.</p>
      </Card>
      <ErrorBox error={run.error} onClose={run.clear} />
      {answer && <Answer answer={answer} />}
    </div>
  );
}
