// A diagnosis: one bar for each dimension, the unknown part, and behind a bar what was measured, the runs and their replays.
import { useApi } from "../../api";
import { number, plural } from "../../format";
import { datasetTitle, episodeHref } from "../../names";
import { Link, useQueryState } from "../../router";
import type { CostBar, DiagnosisDetail, Interval, Rule } from "../../types";
import { Badge, Card, ErrorBox, Icon, Loading, OutcomeBadge } from "../../ui";
import { EvidenceReplay } from "./EvidenceReplay";

const points = (value: number): string => number(Math.round(100 * value));
const range = (one: Interval): string => `${points(one.value)} [${points(one.low)}, ${points(one.high)}]`;
const UNKNOWN = "unknown";

export function DiagnosisPanel({ path }: { path: string }) {
  const { data, error, reload } = useApi<DiagnosisDetail>("/api/gap/diagnosis", { path }, ["workspace"]);
  const [chosen, setChosen] = useQueryState("dimension");
  if (error) return <ErrorBox error={error} onRetry={reload} />;
  if (!data) return <Card><Loading rows={8} /></Card>;
  const selected = chosen === UNKNOWN || data.bars.some((one) => one.dimension === chosen) ? chosen : (data.bars[0]?.dimension ?? UNKNOWN);
  const bar = data.bars.find((one) => one.dimension === selected);
  const robot = data.standin ? "stand-in" : "robot";
  return (
    <div class="stack">
      <Card title={`${data.policy}: success in the twin, on the ${robot}, and in the twin with everything measured`}>
        <div class="stack">
          <div class="rates">
            <Rate title="In the twin" rate={data.in_twin} tone="sim" />
            <Rate title={`On the ${robot}`} rate={data.on_robot} tone="real" note={`${data.successes} of ${data.trials} judged runs`} />
            <Rate title="In the twin with everything measured" rate={data.predicted} tone="accent" note={`${data.scenes} scenes, ${data.evaluations} simulated trials`} />
          </div>
          <p class="strong">{data.verdict}</p>
          {data.notes.map((note) => <p key={note} class="warning-line"><Icon name="alert" />{note}</p>)}
        </div>
      </Card>
      <div class="gap-split">
        <Card title="Points lost" note={`Of a drop of ${range(data.drop)} points; whiskers are 95 % intervals. Choose a bar to see its evidence.`}>
          <Bars data={data} selected={selected} onSelect={setChosen} />
        </Card>
        {bar ? <Measured bar={bar} robot={robot} /> : <UnknownPart data={data} />}
      </div>
      {bar && bar.parameters.length > 0 && <EvidenceReplay key={`${path} ${bar.dimension}`} path={path} dimension={bar.dimension} episodes={data.episodes} robot={robot} />}
      <div class="gap-split">
        <Runs data={data} robot={robot} />
        <Rules rules={data.rules} />
      </div>
    </div>
  );
}

function Rate({ title, rate, tone, note }: { title: string; rate: Interval; tone: string; note?: string }) {
  return (
    <div class={`rate tone-${tone}`}>
      <span class="soft">{title}</span>
      <strong>{points(rate.value)} %</strong>
      <span class="rate-bar" role="img" aria-label={`${title}: ${points(rate.value)} per cent, interval ${points(rate.low)} to ${points(rate.high)}`}>
        <svg viewBox="0 0 100 8" preserveAspectRatio="none">
          <rect class="rate-axis" x={0} y={3} width={100} height={2} />
          <rect class="rate-range" x={100 * rate.low} y={2} width={Math.max(0.5, 100 * (rate.high - rate.low))} height={4} />
          <rect class="rate-value" x={Math.min(98.5, 100 * rate.value)} y={0} width={1.5} height={8} />
        </svg>
      </span>
      <small class="soft">95 %: {points(rate.low)} to {points(rate.high)}{note ? `; ${note}` : ""}</small>
    </div>
  );
}

const ROW = 30;
const LABEL = 110;
const WIDTH = 560;
const VALUE = 104;

/** The bars; up and down choose one. */
function Bars({ data, selected, onSelect }: { data: DiagnosisDetail; selected: string; onSelect: (dimension: string) => void }) {
  const lines = [...data.bars.map((one) => ({ name: one.dimension, lost: one.lost, words: one.words, tone: one.kind !== "cost" ? "none" : one.named ? "bad" : "warn" })), { name: UNKNOWN, lost: data.unknown, words: range(data.unknown), tone: "plain" }];
  const most = Math.max(0.1, data.drop.high, ...lines.map((one) => one.lost?.high ?? 0));
  const at = (value: number): number => LABEL + (WIDTH - LABEL - VALUE) * (Math.max(0, value) / most);
  const move = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (lines.findIndex((one) => one.name === selected) + step + lines.length) % lines.length;
    onSelect(lines[next]?.name ?? selected);
  };
  return (
    <div role="listbox" aria-label="Success points lost by dimension" tabIndex={0} class="cost-bars" aria-activedescendant={`bar-${selected}`} onKeyDown={move}>
      {lines.map((one) => (
        <div key={one.name} id={`bar-${one.name}`} role="option" aria-selected={one.name === selected} class="cost-bar" aria-label={`${one.name}: ${one.words}`} onClick={() => onSelect(one.name)}>
          <svg viewBox={`0 0 ${WIDTH} ${ROW}`} aria-hidden="true" class={`tone-${one.tone}`}>
            <text x={6} y={ROW / 2 + 4} class="cost-name">{one.name}</text>
            <line class="cost-axis" x1={LABEL} x2={LABEL} y1={0} y2={ROW} />
            {one.lost && <rect class="cost-value" x={LABEL} y={7} width={Math.max(0, at(one.lost.value) - LABEL)} height={ROW - 14} rx={2} />}
            {one.lost && one.lost.high > one.lost.low && <path class="cost-whisker" d={`M${at(one.lost.low)} ${ROW / 2} H${at(one.lost.high)} M${at(one.lost.low)} ${ROW / 2 - 4} v8 M${at(one.lost.high)} ${ROW / 2 - 4} v8`} />}
            <text x={one.lost ? WIDTH - 6 : LABEL + 8} y={ROW / 2 + 4} class={one.lost ? "cost-words cost-end" : "cost-words"}>{one.lost && one.lost.value < 0.005 && one.name !== UNKNOWN ? "none shown" : one.lost ? range(one.lost) : one.words}</text>
          </svg>
        </div>
      ))}
    </div>
  );
}

/** What was measured of a dimension: the twin's value beside the robot's. */
function Measured({ bar, robot }: { bar: CostBar; robot: string }) {
  const shown = [...bar.quantities].sort((a, b) => Number(b.differs) - Number(a.differs));
  return (
    <Card title={<>Evidence: {bar.dimension} {bar.named && <Badge tone="bad">named</Badge>}</>} note={bar.kind === "cost" ? `${bar.words} points with the others${bar.alone === null ? "" : `, ${points(bar.alone)} alone`}` : bar.words}>
      <div class="stack">
        {shown.length > 0 && (
          <div class="twin-scroll" tabIndex={0} role="region" aria-label={`What was measured of ${bar.dimension}`}>
            <table class="plain-table">
              <thead><tr><th>Quantity</th><th class="right">Twin</th><th class="right">{robot}, 95 %</th><th>Unit</th></tr></thead>
              <tbody>
                {shown.map((one) => (
                  <tr key={one.name}>
                    <td>{one.name} {one.differs && <Badge tone="warn">differs</Badge>}</td>
                    <td class="right">{number(one.twin)}</td>
                    <td class="right"><strong>{number(one.real)}</strong> [{number(one.low)}, {number(one.high)}]</td>
                    <td>{one.unit === "1" ? "" : one.unit}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
        {bar.missing.map((one) => <p key={one} class="soft">Not measured: {one}</p>)}
        {!shown.length && !bar.missing.length && <p class="soft">These recordings say nothing of this dimension.</p>}
      </div>
    </Card>
  );
}

function UnknownPart({ data }: { data: DiagnosisDetail }) {
  const gaps = data.bars.flatMap((one) => one.missing.map((text) => `${one.dimension}: ${text}`));
  return (
    <Card title="Evidence: unknown" note={`${range(data.unknown)} points that nothing measured explains`}>
      <div class="stack">
        <p>Everything measured together, put into the twin, explains {range(data.explained)} of {range(data.drop)} points. The rest may be what could not be measured:</p>
        <ul class="dots">{gaps.map((one) => <li key={one}>{one}</li>)}</ul>
      </div>
    </Card>
  );
}

/** The runs it was made from, failures first, and how they failed in both places. */
function Runs({ data, robot }: { data: DiagnosisDetail; robot: string }) {
  const title = (place: string): string => (place === "on_robot" ? `on the ${robot}` : place.replaceAll("_", " "));
  return (
    <Card title="Runs behind it" note={`${plural(data.trials, "judged run")} of ${data.policy}; each opens in the Episode room.`}>
      <div class="stack">
        {Object.entries(data.failures).map(([place, counts]) => (
          <p key={place}><span class="soft">Failures {title(place)}: </span>{Object.entries(counts).map(([reason, n]) => `${reason.replaceAll("_", " ")} ${n}`).join(", ") || "none"}</p>
        ))}
        <ul class="runs" aria-label="Runs">
          {data.episodes.map((one) => (
            <li key={one.id}>
              <Link href={episodeHref(one.dataset, one.episode)}>episode {one.episode}</Link>
              <span class="soft clip">{datasetTitle(one.dataset)}</span>
              <OutcomeBadge success={one.success} failure={one.failure} />
            </li>
          ))}
        </ul>
        {data.episodes_missing > 0 && <p class="soft">{plural(data.episodes_missing, "run")} of it cannot be found in this workspace.</p>}
      </div>
    </Card>
  );
}

function Rules({ rules }: { rules: readonly Rule[] }) {
  const order = [...rules].sort((a, b) => weight(b) - weight(a));
  return (
    <Card title="Rules of thumb" note="What practice says about such runs, and whether it applies here.">
      <ul class="stack">
        {order.map((one) => (
          <li key={one.name} class="rule">
            <Badge tone={one.applies === true ? "warn" : "neutral"}>{one.applies === true ? "applies" : one.applies === false ? "does not apply" : "to check"}</Badge>
            <div>
              <p class="strong">{one.name}</p>
              <p class="soft">{one.because}</p>
              {one.applies !== false && <p>{one.advice}</p>}
            </div>
          </li>
        ))}
      </ul>
    </Card>
  );
}

const weight = (rule: Rule): number => (rule.applies === true ? 2 : rule.applies === null ? 1 : 0);
