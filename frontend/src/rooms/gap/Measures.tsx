// A measured gap: differences by dimension with intervals, success on both sides, and the episodes that were looked at.
import { useState } from "preact/hooks";
import { useApi } from "../../api";
import { number, percent, plural } from "../../format";
import { datasetTitle, episodeHref } from "../../names";
import { Link } from "../../router";
import type { DimensionLine, GapDetail, Measure, Pair } from "../../types";
import { Badge, Button, Card, ErrorBox, Icon, IntervalMark, Loading, OutcomeBadge } from "../../ui";

const MOST_RUNS = 24;

export function GapPanel({ path }: { path: string }) {
  const { data, error, reload } = useApi<GapDetail>("/api/gap/gap", { path });
  if (error) return <ErrorBox error={error} onRetry={reload} />;
  if (!data) return <Card><Loading rows={8} /></Card>;
  const measured = data.dimensions.filter((one) => one.headlines.length);
  const missing = data.dimensions.filter((one) => !one.headlines.length);
  return (
    <div class="stack">
      {data.notes.map((note) => <p key={note} class="warning-line"><Icon name="alert" />{note}</p>)}
      <Success data={data} />
      {measured.map((one) => <Dimension key={one.dimension} one={one} />)}
      {missing.length > 0 && (
        <Card title="Not evaluated" note="Never reported as zero: what each would need.">
          <dl class="facts">
            {missing.map((one) => <><dt>{one.dimension}</dt><dd>{one.not_evaluated.map((each) => each.needs).join("; ")}</dd></>)}
          </dl>
        </Card>
      )}
      <Card title="Episodes" note={`${plural(data.episodes_total, "recorded episode")}, compared with ${data.sim ?? "the twin's replay and generated episodes"}`}>
        {data.episodes.length ? (
          <ul class="runs" aria-label="Episodes">
            {data.episodes.slice(0, MOST_RUNS).map((one) => (
              <li key={one.id}>
                <Link href={episodeHref(one.dataset, one.episode)}>episode {one.episode}</Link>
                <span class="soft clip">{datasetTitle(one.dataset)}</span>
                <OutcomeBadge success={one.success} failure={one.failure} />
              </li>
            ))}
          </ul>
        ) : <p class="soft">They cannot be found in this workspace.</p>}
      </Card>
    </div>
  );
}

function Dimension({ one }: { one: DimensionLine }) {
  const [open, setOpen] = useState(false);
  const lines = open ? [...one.headlines, ...one.channels] : one.headlines;
  return (
    <Card
      title={<>{one.dimension} {one.shown ? <Badge tone="warn">gap</Badge> : <Badge>no gap shown</Badge>}</>}
      actions={one.channels.length > 0 && <Button small kind="quiet" icon={open ? "chevronDown" : "chevronRight"} aria-expanded={open} onClick={() => setOpen(!open)}>{open ? "Fewer" : `${one.channels.length} channels`}</Button>}
    >
      <div class="twin-scroll measures" tabIndex={0} role="region" aria-label={`Differences in ${one.dimension}`}>
        <table class="plain-table">
          <thead><tr><th>Measure</th><th>Simulation minus reality, 95 %</th><th class="right">Value</th><th class="right">Reality</th><th class="right">Simulation</th><th>Unit</th></tr></thead>
          <tbody>{lines.map((measure) => <Line key={`${measure.name} ${measure.channel} ${measure.unit} ${measure.against}`} measure={measure} />)}</tbody>
        </table>
      </div>
      {one.not_evaluated.map((each) => <p key={each.name} class="soft measure-note">{each.name || one.dimension}: needs {each.needs}</p>)}
    </Card>
  );
}

function Line({ measure }: { measure: Measure }) {
  const reach = 1.15 * (Math.max(Math.abs(measure.low), Math.abs(measure.high), Math.abs(measure.value)) || 1);
  return (
    <tr>
      <td>
        {measure.name}{measure.channel && measure.channel !== "all" ? `, ${measure.channel}` : ""}
        <small class="soft"> {[measure.about, `against ${measure.against}`].filter(Boolean).join("; ")}</small>
      </td>
      <td><IntervalMark value={measure.value} low={measure.low} high={measure.high} from={-reach} to={reach} mark={0} tone={measure.excludes_zero ? "warn" : "accent"} /></td>
      <td class="right measure-value"><strong>{number(measure.value)}</strong> [{number(measure.low)}, {number(measure.high)}]</td>
      <td class="right">{number(measure.real)}</td>
      <td class="right">{number(measure.sim)}</td>
      <td>{measure.unit === "1" ? "" : measure.unit}</td>
    </tr>
  );
}

function Success({ data }: { data: GapDetail }) {
  const { success } = data;
  if (!success.overall.real && !success.needs) return null;
  return (
    <Card title="Success" note={success.needs ? `needs ${success.needs}` : undefined}>
      <div class="twin-scroll" tabIndex={0} role="region" aria-label="Success rates">
        <table class="plain-table">
          <thead><tr><th>Condition</th><th class="right">{data.standin ? "Stand-in" : "Robot"}</th><th class="right">Simulation</th><th class="right">Difference, points</th></tr></thead>
          <tbody>{[success.overall, ...success.slices].map((pair) => <PairLine key={`${pair.condition} ${pair.slice}`} pair={pair} />)}</tbody>
        </table>
      </div>
    </Card>
  );
}

function PairLine({ pair }: { pair: Pair }) {
  const write = (rate: Pair["real"]): string => (rate ? `${percent(rate.value)} [${percent(rate.low)}, ${percent(rate.high)}] of ${rate.episodes}` : "–");
  const by = pair.difference;
  return (
    <tr>
      <td>{`${pair.condition} ${pair.slice}`.trim()}</td>
      <td class="right">{write(pair.real)}</td>
      <td class="right">{write(pair.sim)}</td>
      <td class="right">{by ? `${number(Math.round(100 * by.value))} [${number(Math.round(100 * by.low))}, ${number(Math.round(100 * by.high))}]` : "–"}</td>
    </tr>
  );
}
