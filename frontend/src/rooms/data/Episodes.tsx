// Episodes of one dataset: filters that live in the address, a table that draws only what is in view, and labelling of many at once.
import { useMemo, useRef, useState } from "preact/hooks";
import { address, ApiError, get, post, useAction, useApi } from "../../api";
import { duration, plural, when } from "../../format";
import { episodeHref } from "../../names";
import { go, useLocation } from "../../router";
import { useName, useSession } from "../../session";
import type { Choice, EpisodeLine, EpisodePage, Facets, Labelled } from "../../types";
import { Badge, Button, Card, Dialog, ErrorBox, Icon, OutcomeBadge, SourceBadge, Table, TextField, toast, type Column, type Sort, type Tone } from "../../ui";
import { SaveSelection } from "./Selections";

export const FILTERS = ["source", "outcome", "failure", "quality", "site", "operator", "task", "text", "where"] as const;
const FACETS = ["outcome", "failure", "quality", "source", "site", "operator", "task"] as const;
const TITLES: Record<string, string> = { outcome: "Outcome", failure: "Failure mode", quality: "Quality", source: "Source", site: "Site", operator: "Operator", task: "Task" };
const TONES: Record<string, Tone> = { ok: "good", note: "neutral", warning: "warn", blocking: "bad" };

export type Filter = Partial<Record<(typeof FILTERS)[number], string>>;

/** The filter in the address, and how to change one part of it. */
function useFilter(): [Filter, (key: string, value: string) => void, () => void] {
  const { query } = useLocation();
  const filter: Filter = {};
  for (const key of FILTERS) {
    const value = query.get(key);
    if (value) filter[key] = value;
  }
  const change = (edit: (next: URLSearchParams) => void): void => {
    const next = new URLSearchParams(window.location.search);
    edit(next);
    const text = next.toString();
    go(window.location.pathname + (text ? `?${text}` : ""), true);
  };
  const set = (key: string, value: string): void => change((next) => (value ? next.set(key, value) : next.delete(key)));
  return [filter, set, () => change((next) => FILTERS.forEach((key) => next.delete(key)))];
}

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** The filter as an SQL condition on the table `episodes`. */
export function conditionOf(filter: Filter): string {
  const parts: string[] = [];
  for (const [key, value] of Object.entries(filter)) {
    if (key === "outcome") parts.push({ success: "success", failure: "not success", unlabelled: "success is null" }[value] ?? "true");
    else if (key === "operator") parts.push(`coalesce(actor_id, actor) = ${quoted(value)}`);
    else if (key === "text") parts.push(`concat_ws(' ', episode_id, task, failure, actor_id) ilike ${quoted(`%${value}%`)}`);
    else if (key === "where") parts.push(`(${value})`);
    else if (key !== "quality") parts.push(value === "(none)" ? `${key} is null` : `${key} = ${quoted(value)}`);
  }
  return parts.join(" and ") || "true";
}

function Facet({ name, choices, value, onValue }: { name: string; choices: readonly Choice[]; value: string; onValue: (value: string) => void }) {
  const [all, setAll] = useState(false);
  if (!value && choices.every((one) => one.value === "(none)")) return null;
  const most = Math.max(...choices.map((one) => one.episodes));
  const shown = all ? choices : choices.slice(0, 6);
  return (
    <fieldset class="facet">
      <legend>{TITLES[name]}</legend>
      {shown.map((one) => (
        <button key={one.value} type="button" class="facet-choice" aria-pressed={one.value === value} onClick={() => onValue(one.value === value ? "" : one.value)} title={one.value}>
          <span class="facet-bar" style={{ width: `${(100 * one.episodes) / most}%` }} />
          <span class="facet-value">{one.value}</span>
          <span class="facet-count">{one.episodes.toLocaleString("en-US")}</span>
        </button>
      ))}
      {choices.length > shown.length && <button type="button" class="facet-more" onClick={() => setAll(true)}>{choices.length - shown.length} more</button>}
    </fieldset>
  );
}

function columnsOf(dataset: string, chosen: ReadonlySet<number>, toggle: (row: EpisodeLine) => void, varied: ReadonlySet<string>): Column<EpisodeLine>[] {
  const columns: (Column<EpisodeLine> | false)[] = [
    { key: "chosen", title: "", width: "36px", render: (row) => <input type="checkbox" tabIndex={-1} aria-label={`Choose episode ${row.episode}`} checked={chosen.has(row.episode)} onClick={(event) => event.stopPropagation()} onChange={() => toggle(row)} /> },
    { key: "episode", title: "Episode", width: "76px", align: "right", sortable: true, render: (row) => <a href={episodeHref(dataset, row.episode)} tabIndex={-1} onClick={(event) => { event.preventDefault(); go(episodeHref(dataset, row.episode)); }}>{row.episode}</a> },
    { key: "thumbnail", title: "", width: "84px", render: (row) => <img class="thumbnail" loading="lazy" decoding="async" alt="" src={address(`/api/episode/thumbnail/${row.id}`, { dataset, episode: row.episode })} /> },
    { key: "outcome", title: "Outcome", width: "130px", sortable: true, render: (row) => <OutcomeBadge success={row.success} failure={row.failure} /> },
    { key: "duration_s", title: "Time", width: "72px", align: "right", sortable: true, render: (row) => duration(row.duration_s) },
    varied.has("source") && { key: "source", title: "Source", width: "100px", sortable: true, render: (row) => <SourceBadge source={row.source} /> },
    { key: "quality", title: "Quality", width: "96px", sortable: true, render: (row) => (row.quality === "unchecked" ? <span class="soft">unchecked</span> : <Badge tone={TONES[row.quality] ?? "neutral"}>{row.quality}</Badge>) },
    { key: "operator", title: "Operator", width: "minmax(110px, 1fr)", sortable: true, render: (row) => row.operator ?? <span class="soft">–</span> },
    varied.has("site") && { key: "site", title: "Site", width: "100px", sortable: true, render: (row) => row.site ?? <span class="soft">–</span> },
    varied.has("task") && { key: "task", title: "Task", width: "minmax(120px, 1.5fr)", render: (row) => <span title={row.task}>{row.task}</span> },
    varied.has("recorded") && { key: "recorded_at", title: "Recorded", width: "156px", sortable: true, render: (row) => (row.recorded_at ? when(row.recorded_at) : <span class="soft">–</span>) },
  ];
  return columns.filter((one) => one !== false);
}

function LabelMany({ dataset, episodes, onDone }: { dataset: string; episodes: readonly number[]; onDone: () => void }) {
  const by = useName();
  const [mode, setMode] = useState("");
  const [asking, setAsking] = useState(false);
  const label = useAction(async (values: object) => {
    const answer = await post<Labelled>("/api/episode/labels", { dataset, episodes, by, ...values });
    toast(`Labelled ${plural(answer.episodes, "episode")}`);
    setAsking(false);
    onDone();
  });
  return (
    <>
      <Button small icon="check" busy={label.running} onClick={() => void label.run({ outcome: "success" })}>Success</Button>
      <Button small icon="close" busy={label.running} onClick={() => setAsking(true)}>Failure</Button>
      <Button small kind="quiet" busy={label.running} onClick={() => void label.run({ outcome: "unknown" })}>Unknown</Button>
      <ErrorBox error={label.error} onClose={label.clear} />
      <Dialog title={`${plural(episodes.length, "failed episode")}`} open={asking} onClose={() => setAsking(false)} footer={<Button kind="primary" busy={label.running} onClick={() => void label.run({ outcome: "failure", ...(mode.trim() ? { failure: mode.trim() } : {}) })}>Label</Button>}>
        <TextField label="Failure mode" value={mode} onValue={setMode} placeholder="slipped" hint="A word or a few; empty where it is not known." autofocus />
      </Dialog>
    </>
  );
}

/** Filters beside a table of episodes. */
export function Episodes({ dataset }: { dataset: string }) {
  const [filter, setFilter, clear] = useFilter();
  const [sort, setSort] = useState<Sort | null>(null);
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set());
  const [found, setFound] = useState<EpisodePage | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [round, setRound] = useState(0);
  const [saving, setSaving] = useState(false);
  const [shown, setShown] = useState(() => window.innerWidth > 1000);
  const readOnly = useSession()?.read_only ?? true;
  const facets = useApi<Facets>("/api/data/facets", { dataset }, ["workspace"]);
  const last = useRef("");
  const params = { dataset, ...filter, ...(sort ? { sort: sort.key, descending: sort.descending } : {}) };
  const key = JSON.stringify([params, round]);
  const source = useMemo(() => ({
    key,
    load: async (offset: number, limit: number, signal: AbortSignal) => {
      const page = await get<EpisodePage>("/api/data/episodes", { ...params, offset, limit }, signal);
      if (last.current !== key || offset === 0) {
        last.current = key;
        setFound(page);
        setError(null);
      }
      return page;
    },
    onError: (failure: unknown) => failure instanceof ApiError && setError(failure),
  }), [key]);
  const toggle = (row: EpisodeLine): void => {
    const next = new Set(chosen);
    if (!next.delete(row.episode)) next.add(row.episode);
    setChosen(next);
  };
  const varied = new Set<string>(FACETS.filter((name) => (facets.data?.[name].length ?? 0) > 1));
  if (facets.data?.source.some((one) => one.value !== "sim")) varied.add("recorded");
  const filtered = Object.keys(filter).length > 0;
  const open = (row: EpisodeLine): void => go(episodeHref(dataset, row.episode));
  return (
    <div class={shown ? "episodes" : "episodes episodes-wide"}>
      {shown && (
        <aside class="facets" aria-label="Filters">
          <TextField label="Search" hideLabel type="search" placeholder="Search id, task, failure" value={filter.text ?? ""} onValue={(value) => setFilter("text", value)} />
          {facets.data && FACETS.map((name) => <Facet key={name} name={name} choices={facets.data?.[name] ?? []} value={filter[name] ?? ""} onValue={(value) => setFilter(name, value)} />)}
          <Where value={filter.where ?? ""} onValue={(value) => setFilter("where", value)} />
        </aside>
      )}
      <div class="episodes-main">
        <div class="episodes-bar">
          <Button small kind="quiet" icon="filter" aria-expanded={shown} aria-label={shown ? "Hide the filters" : "Show the filters"} onClick={() => setShown(!shown)} />
          <span>{found ? (found.total === found.all ? plural(found.all, "episode") : `${found.total.toLocaleString("en-US")} of ${plural(found.all, "episode")}`) : "…"}</span>
          {filtered && <Button small kind="quiet" icon="close" onClick={clear}>Clear filters</Button>}
          <span class="grow" />
          {chosen.size > 0 && !readOnly && (
            <>
              <span class="soft">{chosen.size} chosen</span>
              <LabelMany dataset={dataset} episodes={[...chosen]} onDone={() => { setChosen(new Set()); setRound(round + 1); facets.reload(); }} />
            </>
          )}
          <Button small icon="tag" disabled={readOnly} onClick={() => setSaving(true)}>Save as selection</Button>
        </div>
        <ErrorBox error={error} onClose={() => setError(null)} />
        <Card flush>
          <div class="episodes-table">
            <Table label="Episodes" height="fill" columns={columnsOf(dataset, chosen, toggle, varied)} source={source} rowHeight={38} onOpen={open} sort={sort} onSort={setSort} empty={filtered ? "No episode has all these properties." : "This dataset has no episodes."} />
          </div>
        </Card>
        <p class="hint"><Icon name="keyboard" size={14} /> Arrow keys move, Enter or a double click opens an episode.</p>
      </div>
      {saving && <SaveSelection parts={[{ dataset, where: conditionOf(filter), weight: 1 }]} onClose={() => setSaving(false)} />}
    </div>
  );
}

function Where({ value, onValue }: { value: string; onValue: (value: string) => void }) {
  const [text, setText] = useState(value);
  return (
    <form class="facet" onSubmit={(event) => { event.preventDefault(); onValue(text.trim()); }}>
      <TextField label="SQL condition" value={text} onValue={setText} placeholder="draw['mass_kg'] > 0.2" hint="Enter applies it." />
    </form>
  );
}
