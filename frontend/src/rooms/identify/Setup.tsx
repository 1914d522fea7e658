// The steps before the result: what to identify from, whether that is possible, which parameters, and the run itself.
import type { ApiError, Loaded } from "../../api";
import { duration, number, plural } from "../../format";
import { datasetTitle } from "../../names";
import { Link, useQueryState } from "../../router";
import type { RecordingLine, FindingLine, IdentifyCheck, TwinDetail, TwinParameter, TwinVersion, Twins } from "../../types";
import { Badge, Button, Card, CheckField, Empty, ErrorBox, Icon, JobProgress, Loading, Segmented, SelectField, SourceBadge, Table, TextField, type Column, type Tone } from "../../ui";
import { StateBadge } from "../twin/Versions";
import { shortPlace } from "../twin/links";

export interface Choice {
  dataset: string;
  twin: string;
  /** Parameters of one's own instead of the usual ones. */
  own: boolean;
  names: string[];
  priors: Record<string, [string, string]>;
  seconds: string;
}

type SetChoice = (choice: Choice) => void;
type Checked = Loaded<IdentifyCheck>;

export function DataStep({ datasets, twins, choice, onChoice, results }: { datasets: readonly RecordingLine[] | null; twins: Twins; choice: Choice; onChoice: SetChoice; results: readonly TwinVersion[] }) {
  if (!datasets) return <Card><Loading rows={6} /></Card>;
  if (!datasets.length) return <Card><Empty icon="data" title="There are no recordings of the robot yet">Record excitation runs with <code>twinloop excite</code>, or bring logs in with <code>twinloop ingest</code>.</Empty></Card>;
  return (
    <div class="identify-data">
      <Card title="Recordings" note="What the robot did. Excitation runs tell most: they move every joint slowly, quickly and both ways.">
        <div class="choices" role="radiogroup" aria-label="Recordings">
          {datasets.map((one) => (
            <button key={one.name} type="button" role="radio" aria-checked={one.name === choice.dataset} class="choice" onClick={() => onChoice({ ...choice, dataset: one.name })}>
              <span class="choice-title">{datasetTitle(one.name)} {one.sources.map((source) => <SourceBadge key={source} source={source} />)}</span>
              <span class="soft">{plural(one.episodes, "episode")}, {duration(one.hours * 3600)}</span>
              <code class="soft">{one.name}</code>
            </button>
          ))}
        </div>
      </Card>
      <div class="stack">
        <Card title="Twin" note="What is calibrated; its version stays as it is, a new one is made.">
          <SelectField label="Twin" hideLabel value={choice.twin} onValue={(twin) => onChoice({ ...choice, twin })} options={twins.versions.map((one) => ({ value: one.twin, label: `${shortPlace(one.twin)} (${one.state})` }))} />
        </Card>
        {results.length > 0 && (
          <Card title="Earlier results">
            <ul class="plain-list">
              {results.map((one) => <li key={one.twin} class="row row-spread"><Link href={`/identify?result=${encodeURIComponent(one.twin)}`}>{shortPlace(one.twin)}</Link><StateBadge state={one.state} /></li>)}
            </ul>
          </Card>
        )}
      </div>
    </div>
  );
}

const SEVERITY: Record<string, Tone> = { blocking: "bad", warning: "warn", note: "neutral" };

export function CheckStep({ check }: { check: Checked }) {
  const { data, error, loading } = check;
  return (
    <Card title="Check" note="Whether these recordings can identify this twin, before anything is computed.">
      <div class="stack">
        <ErrorBox error={error} onRetry={check.reload} />
        {loading && !data && <><p role="status">Checking every episode …</p><Loading /></>}
        {data && (
          <>
            <p class={data.ready ? "verdict verdict-good" : "verdict verdict-bad"} role="status"><Icon name={data.ready ? "check" : "alert"} />{data.ready ? "These recordings can identify this twin." : "It cannot start yet."}</p>
            {data.reasons.map((reason) => <p key={reason} class="reason">{reason}</p>)}
            <dl class="facts">
              <dt>Recordings</dt><dd>{plural(data.episodes, "episode")}, {duration(data.seconds)}</dd>
              <dt>Left out</dt><dd>{data.left_out.length ? `episodes ${data.left_out.slice(0, 12).join(", ")}, which the quality check blocks` : "none"}</dd>
              <dt>Read</dt><dd>{data.channels.map(([name, unit]) => `${name} (${unit})`).join(", ") || "nothing"}</dd>
              {data.notes.map((note) => <><dt>Note</dt><dd>{note}</dd></>)}
            </dl>
            <Findings lines={data.findings} />
          </>
        )}
      </div>
    </Card>
  );
}

function Findings({ lines }: { lines: readonly FindingLine[] }) {
  const shown = lines.filter((one) => one.finding.severity !== "note");
  if (!shown.length) return <p class="soft">The quality check found nothing to warn of.</p>;
  return (
    <div class="twin-scroll" tabIndex={0} role="region" aria-label="Findings of the quality check">
      <table class="plain-table">
        <thead><tr><th>Finding</th><th>Channel</th><th>What</th><th class="right">Episodes</th></tr></thead>
        <tbody>
          {shown.map(({ finding, episodes, overridden }) => (
            <tr key={`${finding.code} ${finding.channel} ${finding.severity}`}>
              <td><Badge tone={SEVERITY[finding.severity] ?? "neutral"}>{overridden ? "overridden" : finding.severity}</Badge> {finding.code}</td>
              <td>{finding.channel}</td>
              <td>{finding.message}{finding.severity === "blocking" && <small class="soft"> {finding.remedy}</small>}</td>
              <td class="right">{episodes.length}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function ParametersStep({ detail, choice, onChoice, check }: { detail: TwinDetail | null; choice: Choice; onChoice: SetChoice; check: Checked }) {
  return (
    <Card title="Parameters" note="What the fit may change. The rest of the twin keeps its values.">
      <div class="stack">
        <Segmented label="Which parameters" value={choice.own ? "own" : "usual"} onValue={(value) => onChoice({ ...choice, own: value === "own" })} options={[{ value: "usual", label: "The usual ones" }, { value: "own", label: "My choice" }]} />
        {!choice.own && (
          <dl class="facts">
            {Object.entries(check.data?.models ?? {}).map(([label, names]) => <><dt>{label}</dt><dd>{plural(names.length, "parameter")}: {names.join(", ")}</dd></>)}
          </dl>
        )}
        {choice.own && (detail ? <OwnParameters detail={detail} choice={choice} onChoice={onChoice} /> : <Loading />)}
        {choice.own && !choice.names.length && <p class="soft">Choose at least one.</p>}
        <ErrorBox error={check.error} />
        {choice.own && check.data && !check.data.ready && check.data.reasons.map((reason) => <p key={reason} class="reason">{reason}</p>)}
      </div>
    </Card>
  );
}

const FITTED = ["model", "imperfect"];

function OwnParameters({ detail, choice, onChoice }: { detail: TwinDetail; choice: Choice; onChoice: SetChoice }) {
  const [text, setText] = useQueryState("find");
  const rows = detail.parameters.filter((one) => FITTED.includes(one.stage) && !one.choices.length && (!text || `${one.name} ${one.description}`.toLowerCase().includes(text.toLowerCase())));
  const flip = (name: string): void => onChoice({ ...choice, names: choice.names.includes(name) ? choice.names.filter((one) => one !== name) : [...choice.names, name] });
  const columns: Column<TwinParameter>[] = [
    { key: "name", title: "Parameter", width: "minmax(200px, 1.5fr)", render: (one) => <CheckField label={one.name} checked={choice.names.includes(one.name)} onValue={() => flip(one.name)} /> },
    { key: "nominal", title: "Now", width: "90px", align: "right", render: (one) => (typeof one.nominal === "number" ? number(one.nominal, 4) : one.nominal) },
    { key: "bounds", title: "Bounds", width: "130px", align: "right", render: (one) => `${number(one.low)} to ${number(one.high)}` },
    { key: "unit", title: "Unit", width: "80px", render: (one) => (one.unit === "1" ? "" : one.unit) },
  ];
  const prior = (name: string, end: 0 | 1, value: string): void => {
    const before = choice.priors[name] ?? ["", ""];
    onChoice({ ...choice, priors: { ...choice.priors, [name]: end === 0 ? [value, before[1]] : [before[0], value] } });
  };
  return (
    <div class="identify-own">
      <div class="stack">
        <TextField label="Search parameters" hideLabel type="search" placeholder="Search parameters" value={text} onValue={setText} />
        <Table label="Parameters to choose from" columns={columns} rows={rows} rowHeight={32} height={320} onOpen={(one) => flip(one.name)} empty="No parameter matches." />
      </div>
      <div class="stack" aria-label="Chosen parameters" role="group">
        <h3>{plural(choice.names.length, "chosen parameter")}</h3>
        {choice.names.map((name) => {
          const [low, high] = choice.priors[name] ?? ["", ""];
          return (
            <div key={name} class="identify-prior">
              <span class="clip" title={name}>{name}</span>
              <TextField label={`Lowest ${name}`} hideLabel type="number" step="any" placeholder="from" value={low} onValue={(value) => prior(name, 0, value)} />
              <TextField label={`Highest ${name}`} hideLabel type="number" step="any" placeholder="to" value={high} onValue={(value) => prior(name, 1, value)} />
              <Button small kind="quiet" icon="close" aria-label={`Leave out ${name}`} onClick={() => flip(name)} />
            </div>
          );
        })}
        <TextField label="Seconds of recordings to fit" type="number" min={1} value={choice.seconds} onValue={(seconds) => onChoice({ ...choice, seconds })} hint="Of more, windows from every episode are taken." />
      </div>
    </div>
  );
}

interface RunProps {
  choice: Choice;
  command: readonly string[];
  ready: boolean;
  check: Checked;
  job: string | null;
  running: boolean;
  error: ApiError | null;
  found: boolean;
  onRun: () => void;
  onDone: () => void;
  onResult: () => void;
}

export function RunStep({ command, ready, check, job, running, error, found, onRun, onDone, onResult }: RunProps) {
  return (
    <Card title="Run" note="A job: it goes on when this page or the studio is closed, and the command line sees it too.">
      <div class="stack">
        <pre class="identify-command" aria-label="The same in a terminal">twinloop {command.join(" ")}</pre>
        <div class="row">
          <Button kind="primary" icon="play" disabled={!ready} busy={running} onClick={onRun}>Run</Button>
          {!ready && <span class="soft">{check.loading ? "Checking …" : check.data || check.error ? "Run waits until the check passes." : "Choose recordings and a twin first."}</span>}
        </div>
        <ErrorBox error={error} />
        {job && <JobProgress key={job} id={job} onDone={onDone} startOpen />}
        {job && found && <div class="row"><Button kind="primary" onClick={onResult}>Show the result</Button></div>}
      </div>
    </Card>
  );
}
