// Signals over time: one chart for each signal and unit, on one time axis, with another episode dashed over them.
import { useMemo } from "preact/hooks";
import { useApi } from "../../api";
import { useQueryState } from "../../router";
import type { EpisodeAnswer, SeriesLine, SignalsAnswer } from "../../types";
import { Card, Chart, ErrorBox, Loading, type Series, type Span } from "../../ui";
import { useTime, type Clock } from "./clock";
import type { Window } from "./Transport";

const POINTS = 1200;
const MOST_SERIES = 16;
const FIRST = ["observation.state", "action", "observation.effort", "observation.velocity"];

interface Props {
  episode: EpisodeAnswer;
  other: EpisodeAnswer | null;
  clock: Clock;
  view: Window;
}

interface Group {
  key: string;
  title: string;
  unit: string;
  lines: { line: SeriesLine; index: number }[];
}

const shortName = (name: string): string => name.replace(/^observation\./, "");

/** Elements of the same signal and unit belong into one chart. */
function groupsOf(series: readonly SeriesLine[]): Group[] {
  const groups = new Map<string, Group>();
  series.forEach((line, index) => {
    const key = `${line.signal} ${line.unit}`;
    const group = groups.get(key) ?? { key, title: shortName(line.signal), unit: line.unit, lines: [] };
    if (group.lines.length < MOST_SERIES) group.lines.push({ line, index });
    groups.set(key, group);
  });
  return [...groups.values()];
}

/** Values of another recording at the times of this one; null where it has none. */
function at(times: readonly number[], answer: SignalsAnswer, values: readonly (number | null)[]): (number | null)[] {
  let place = 0;
  const last = answer.time_s.length - 1;
  return times.map((time) => {
    while (place < last && (answer.time_s[place + 1] ?? Infinity) <= time) place += 1;
    return time > (answer.time_s[last] ?? -1) + 0.1 ? null : (values[place] ?? null);
  });
}

function SignalChart({ group, answer, other, clock, spans }: { group: Group; answer: SignalsAnswer; other: SignalsAnswer | null; clock: Clock; spans: readonly Span[] }) {
  const time = useTime(clock);
  const series = useMemo(() => {
    const own: Series[] = group.lines.map(({ line }, i) => ({ label: line.element || shortName(line.signal), values: line.values, color: `--series-${(i % 8) + 1}` }));
    if (!other) return own;
    const dashed = group.lines.flatMap(({ line }, i): Series[] => {
      const same = other.series.find((one) => one.signal === line.signal && one.element === line.element);
      return same ? [{ label: `${line.element || shortName(line.signal)}, other`, values: at(answer.time_s, other, same.values), color: `--series-${(i % 8) + 1}`, dash: [4, 4], width: 1 }] : [];
    });
    return [...own, ...dashed];
  }, [group, answer, other]);
  return <Chart title={`${group.title}${group.unit && group.unit !== "1" ? `, ${group.unit}` : ""}`} x={answer.time_s} series={series} spans={spans} height={140} sync="episode" playhead={time} onScrub={(x) => { clock.play(false); clock.set(x); }} legend={series.length > 1 && series.length <= 8} />;
}

/** Charts of the chosen signals. */
export function Signals({ episode, other, clock, view }: Props) {
  const names = episode.signals.map((signal) => signal.name);
  const usual = FIRST.filter((name) => names.includes(name)).slice(0, 3);
  const [chosen, setChosen] = useQueryState("signals", (usual.length > 0 ? usual : names.slice(0, 2)).join(","));
  const picked = chosen.split(",").filter((name) => names.includes(name));
  const params = { signal: picked, from_s: view.from, to_s: view.to, points: POINTS };
  const own = useApi<SignalsAnswer>(picked.length > 0 ? "/api/episode/signals" : null, { ...params, dataset: episode.dataset, episode: episode.episode });
  const shared = picked.filter((name) => other?.signals.some((signal) => signal.name === name));
  const beside = useApi<SignalsAnswer>(other && shared.length > 0 ? "/api/episode/signals" : null, { ...params, signal: shared, dataset: other?.dataset, episode: other?.episode });
  const groups = useMemo(() => groupsOf(own.data?.series ?? []), [own.data]);
  const spans = useMemo((): Span[] => {
    const phases = episode.phases.map((phase, i): Span => ({ from: phase.start_s, to: phase.end_s, color: `--phase-${(i % 6) + 1}-soft` }));
    const [from = 0, to = clock.duration] = episode.keep ?? [];
    const cut: Span[] = episode.keep ? [{ from: -1, to: from, color: "--cut" }, { from: to, to: clock.duration + 1, color: "--cut" }] : [];
    return [...phases, ...cut];
  }, [episode.phases, episode.keep]);
  const toggle = (name: string): void => setChosen(names.filter((one) => (one === name ? !picked.includes(one) : picked.includes(one))).join(",") || "none");
  return (
    <Card title="Signals" note={own.data && own.data.rows > own.data.time_s.length ? `${own.data.rows.toLocaleString("en-US")} rows drawn as ${own.data.time_s.length} points; every extreme is kept.` : undefined}>
      <div class="chips" role="group" aria-label="Signals shown">
        {names.map((name) => <button key={name} type="button" class="chip" aria-pressed={picked.includes(name)} onClick={() => toggle(name)}>{shortName(name)}</button>)}
      </div>
      <ErrorBox error={own.error ?? beside.error} onRetry={own.reload} />
      {!own.data && own.loading && <Loading rows={6} />}
      <div class="signal-charts">
        {own.data && groups.map((group) => <SignalChart key={group.key} group={group} answer={own.data as SignalsAnswer} other={beside.data} clock={clock} spans={spans} />)}
      </div>
    </Card>
  );
}
