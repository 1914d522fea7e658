// An identification: what held-out replay says, overlays with bands, every parameter in words, what cannot be told apart, the decision.
import { useState } from "preact/hooks";
import { useApi } from "../../api";
import { number, percent, plural } from "../../format";
import { datasetTitle, episodeHref } from "../../names";
import { Link } from "../../router";
import type { EstimateLine, IdentifyResult, PosteriorSamples, ReplayLines } from "../../types";
import { Badge, Button, Card, Chart, ErrorBox, Icon, IntervalMark, Loading, Matrix, Scatter, SelectField, type Tone } from "../../ui";
import { Decide, type Verb } from "../twin/Decide";
import { StateBadge } from "../twin/Versions";
import { shortPlace, twinHref } from "../twin/links";

const STATUS: Record<string, Tone> = { identifiable: "good", weak: "warn", "not identifiable": "neutral" };
const unitOf = (unit: string): string => (unit === "1" ? "" : ` ${unit}`);

export function Result({ place, deciding, readOnly, onChange }: { place: string; deciding: boolean; readOnly: boolean; onChange: () => void }) {
  const { data, error, reload } = useApi<IdentifyResult>("/api/identify/result", { twin: place }, ["workspace"]);
  const changed = (): void => {
    reload();
    onChange();
  };
  if (error) return <ErrorBox error={error} onRetry={reload} />;
  if (!data) return <Card><Loading rows={6} /></Card>;
  return (
    <div class="stack">
      <Verdict data={data} deciding={deciding} readOnly={readOnly} onChange={changed} />
      {!deciding && <Replays place={place} data={data} />}
      {!deciding && <Estimates lines={data.estimates} />}
      {!deciding && data.estimates.length > 1 && <Posterior place={place} data={data} />}
    </div>
  );
}

function Verdict({ data, deciding, readOnly, onChange }: { data: IdentifyResult; deciding: boolean; readOnly: boolean; onChange: () => void }) {
  const [verb, setVerb] = useState<Verb | null>(null);
  const { gate, version } = data;
  const counts = ["identifiable", "weak", "not identifiable"].map((status) => [status, data.estimates.filter((one) => one.status === status).length] as const);
  const waiting = version.state !== "current";
  return (
    <Card
      title={<>{shortPlace(version.twin)} <StateBadge state={version.state} /></>}
      note={<>version {version.version}, <Link href={twinHref(version.twin)}>see the twin</Link></>}
      actions={
        <>
          {waiting && <Button kind={deciding ? "primary" : "plain"} disabled={readOnly} onClick={() => setVerb("accept")}>Accept</Button>}
          {version.state !== "rejected" && <Button kind="danger" disabled={readOnly} onClick={() => setVerb("reject")}>Reject</Button>}
        </>
      }
    >
      <div class="stack">
        <p class={gate.accepted ? "verdict verdict-good" : "verdict verdict-bad"}><Icon name={gate.accepted ? "check" : "alert"} />{gate.accepted ? "It replays new episodes better: " : "It does not replay new episodes better: "}{gate.reason}</p>
        <dl class="facts">
          <dt>Fitted</dt><dd>{plural(data.fitted, "episode")}{data.fitted_s === null ? "" : `, ${number(data.fitted_s)} of ${number(data.available_s)} s`}</dd>
          <dt>Judged on</dt><dd>{plural(data.held_out, "episode")} that the fit has not seen</dd>
          <dt>Parameters</dt><dd>{counts.filter(([, n]) => n > 0).map(([status, n]) => `${n} ${status}`).join(", ")}</dd>
          {data.choice && <><dt>Model</dt><dd>{data.choice}</dd></>}
          {version.by && <><dt>Decided</dt><dd>{version.by}: {version.reason}</dd></>}
        </dl>
        {data.warnings.map((warning) => <p key={warning} class="warning-line"><Icon name="alert" />{warning}</p>)}
        {deciding && <p class="soft">Accept makes it the workspace's current twin. Reject keeps it, marked; if it is current, the twin before becomes current again. Both carry your name and a reason, and <code>twinloop twin versions</code> shows them.</p>}
      </div>
      {verb && <Decide verb={verb} twin={version.twin} refused={gate.accepted ? null : gate.reason} onClose={() => setVerb(null)} onDone={onChange} />}
    </Card>
  );
}

/** Held-out episodes: recorded, before and after, with the band that holds the given part of new readings. */
function Replays({ place, data }: { place: string; data: IdentifyResult }) {
  const { data: replays, error } = useApi<ReplayLines[]>("/api/identify/replays", { twin: place });
  const [episode, setEpisode] = useState("0");
  const [channel, setChannel] = useState("");
  const one = replays?.[Number(episode)];
  const worst = [...data.channels].sort((a, b) => b.before - b.after - (a.before - a.after))[0]?.name ?? "";
  const name = channel || worst;
  const line = one?.channels.find((each) => each.name === name) ?? one?.channels[0];
  return (
    <Card title="Replay of new episodes" note="The recorded commands, sent to the twin before and after; the band is where nine of ten readings of a new episode should lie.">
      <div class="stack">
        <ErrorBox error={error} />
        {replays && !replays.length && <p class="soft">The replays are not kept with this result: their episodes were removed, or an older version made it.</p>}
        {one && line && (
          <>
            <div class="identify-pick">
              <SelectField label="Episode" value={episode} onValue={setEpisode} options={(replays ?? []).map((each, i) => ({ value: String(i), label: each.place ? `episode ${each.place.episode} of ${datasetTitle(each.place.dataset)}` : each.episode.slice(0, 12) }))} />
              <SelectField label="Channel" value={line.name} onValue={setChannel} options={one.channels.map((each) => each.name)} />
              {one.place && <Link class="button" href={episodeHref(one.place.dataset, one.place.episode)}>Open the episode</Link>}
            </div>
            <Chart title={`${line.name}, ${line.unit}`} x={one.time_s} xLabel="s" height={240} legend series={[{ label: "recorded", values: line.real, color: "--real", width: 2 }, { label: "before", values: line.before, color: "--text-soft", dash: [5, 4] }, { label: "after", values: line.after, color: "--sim", width: 2 }]} bands={[{ label: "band", low: line.low, high: line.high }]} />
          </>
        )}
        <div class="twin-scroll" tabIndex={0} role="region" aria-label="Replay errors by channel">
          <table class="plain-table">
            <thead><tr><th>Channel</th><th class="right">RMS error before</th><th class="right">after</th><th>Unit</th><th class="right">In the 90 % band</th></tr></thead>
            <tbody>
              {data.channels.map((each) => (
                <tr key={each.name}>
                  <td>{each.name}</td>
                  <td class="right">{number(each.before)}</td>
                  <td class="right"><strong class={each.after < each.before ? "good" : "bad"}>{number(each.after)}</strong></td>
                  <td>{unitOf(each.unit).trim()}</td>
                  <td class="right">{percent(each.coverage)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </div>
    </Card>
  );
}

function Estimates({ lines }: { lines: readonly EstimateLine[] }) {
  const order = ["identifiable", "weak", "not identifiable"];
  const sorted = [...lines].sort((a, b) => order.indexOf(a.status) - order.indexOf(b.status));
  return (
    <Card title="Parameters" note="Each line has an axis of its own; the dashed mark is the value before.">
      <ul class="estimates">
        {sorted.map((one) => {
          const [from, to] = axisOf(one);
          return (
            <li key={one.name}>
              <div class="estimate-head">
                <strong class="clip" title={one.name}>{one.name}</strong>
                <Badge tone={STATUS[one.status] ?? "neutral"}>{one.status}</Badge>
                <IntervalMark value={one.value} low={one.low} high={one.high} from={from} to={to} mark={one.nominal} tone={one.status === "identifiable" ? "good" : one.status === "weak" ? "warn" : "accent"} />
                <span class="estimate-value">{number(one.value, 4)}{unitOf(one.unit)}</span>
              </div>
              <p class="soft">{one.words}</p>
            </li>
          );
        })}
      </ul>
    </Card>
  );
}

function axisOf(one: EstimateLine): [number, number] {
  const [low, high] = [Math.min(one.low, one.nominal), Math.max(one.high, one.nominal)];
  const room = (high - low || Math.abs(high) || 1) * 0.15;
  return [low - room, high + room];
}

/** What parameters trade against each other. */
function Posterior({ place, data }: { place: string; data: IdentifyResult }) {
  const names = data.estimates.map((one) => one.name);
  const [pair, setPair] = useState<[number, number]>(() => strongest(data.correlation));
  const [x, y] = [names[pair[1]] ?? "", names[pair[0]] ?? ""];
  const { data: samples, error } = useApi<PosteriorSamples>("/api/identify/posterior", { twin: place, x, y });
  return (
    <Card title="What cannot be told apart" note="Correlations of the posterior; choose a cell to see its samples.">
      <div class="posterior">
        <Matrix title="Correlations of the estimates" names={names} values={data.correlation} selected={pair} onSelect={(row, column) => setPair([row, column])} />
        <div>
          <p><strong>{y}</strong> against <strong>{x}</strong>: correlation {number(data.correlation[pair[0]]?.[pair[1]] ?? 0, 2)}</p>
          <ErrorBox error={error} />
          {samples && <Scatter title={`Samples of ${y} against ${x}`} x={x} y={y} points={samples.points} />}
        </div>
        <div class="stack-tight">
          {data.confusions.length === 0 && <p class="soft">Every parameter is separately identifiable.</p>}
          {data.confusions.map((one, i) => (
            <div key={i} class="confusion">
              <p>{one.names.map((name, k) => `${(one.weights[k] ?? 0) < 0 ? "− " : k ? "+ " : ""}${name}`).join(" ")}</p>
              <p class="soft">{one.remedy}</p>
            </div>
          ))}
        </div>
      </div>
    </Card>
  );
}

function strongest(correlation: readonly (readonly number[])[]): [number, number] {
  let found: [number, number] = [1, 0];
  let most = -1;
  correlation.forEach((line, i) => line.forEach((value, j) => {
    if (i > j && Math.abs(value) > most) [most, found] = [Math.abs(value), [i, j]];
  }));
  return found;
}
