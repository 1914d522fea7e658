// Deployed episodes: the success band over time, drift by kind, and alerts with the next step.
import { useMemo, useState } from "preact/hooks";
import { useApi } from "../api";
import { ago, count, number, percent, plural } from "../format";
import { useQueryState } from "../router";
import type { Alert, ReportAnswer, ReportLine, Shift } from "../types";
import { Badge, Card, Chart, Command, DatasetField, Empty, ErrorBox, Loading, Page, RunJob, SelectField, TextField, type Tone } from "../ui";

const GROUPS: Record<string, { title: string; note: string }> = {
  actuator: { title: "Joints", note: "how they answer commands: an aged actuator shows here" },
  scene: { title: "Scene", note: "where things lie before the robot touches anything" },
  camera: { title: "Cameras", note: "brightness, colour, sharpness and place of the image" },
};
const SHOWN = 4;

function SuccessBand({ answer }: { answer: ReportAnswer }) {
  const { band, report } = answer;
  const { success } = report;
  const series = useMemo(() => [
    { label: "success so far", values: band.rate.map((v) => 100 * v), color: "--accent", width: 2 },
    ...(success.expected !== null ? [{ label: `expected at least ${percent(success.expected)}`, values: band.episodes.map(() => 100 * (success.expected as number)), color: "--text-soft", dash: [4, 4] }] : []),
  ], [answer]);
  const bands = useMemo(() => [{ label: "95 % at all times", low: band.low.map((v) => 100 * v), high: band.high.map((v) => 100 * v) }], [answer]);
  if (!band.episodes.length && success.episodes > 0) return <p class="soft">This report was written before the outcome of each episode was kept. Look again to see how success came about.</p>;
  if (!band.episodes.length) return <p class="soft">The outcomes of these episodes are not known. Label them to follow the success rate.</p>;
  return <Chart title="Success rate over deployed episodes, per cent" x={band.episodes} series={series} bands={bands} yRange={[0, 100]} xLabel="labelled episode" height={260} spans={success.fell === null ? [] : [{ from: success.fell + 1, to: band.episodes.at(-1) ?? 0, color: "--bad-soft" }]} />;
}

function ShiftChart({ shift, episodes }: { shift: Shift; episodes: number }) {
  const first = episodes - shift.values.length;
  const x = useMemo(() => shift.values.map((_, i) => first + i + 1), [shift]);
  const series = useMemo(() => [
    { label: "value", values: shift.values, color: "--series-2", points: shift.values.length < 200, width: 1.5 },
    { label: "before", values: x.map(() => shift.before), color: "--text-soft", dash: [4, 4] },
  ], [shift]);
  return (
    <div class="stack-tight">
      <Chart title={shift.feature} x={x} series={series} xLabel="deployed episode" height={150} legend={false} spans={[{ from: shift.began + 1, to: episodes }]} />
      <small class="soft">{number(shift.before)} before, {number(shift.after)} since episode {count(shift.began + 1)}: {number(shift.size, 2)} standard deviations; noticed at episode {count(shift.noticed + 1)}</small>
    </div>
  );
}

function Drift({ answer }: { answer: ReportAnswer }) {
  const { report } = answer;
  const groups = Object.entries(GROUPS).map(([group, words]) => ({ group, ...words, shifts: report.shifts.filter((one) => one.group === group) }));
  return (
    <>
      {groups.map(({ group, title, note, shifts }) => (
        <Card key={group} title={<span class="row">{title}{shifts.length ? <Badge tone={report.group === group ? "bad" : "warn"}>{plural(shifts.length, "change")}</Badge> : <Badge tone="good">as before</Badge>}</span>} note={note}>
          {shifts.length ? (
            <div class="grid-2">{shifts.slice(0, SHOWN).map((one) => <ShiftChart key={one.feature} shift={one} episodes={report.episodes} />)}</div>
          ) : <p class="soft small">Nothing that is watched has moved beyond chance.</p>}
          {shifts.length > SHOWN && <p class="soft small">Also: {shifts.slice(SHOWN).map((one) => one.feature).join(", ")}</p>}
        </Card>
      ))}
    </>
  );
}

function Alerts({ alerts }: { alerts: readonly Alert[] }) {
  return (
    <Card title="Alerts" flush>
      {alerts.map((one) => {
        const tone: Tone = one.changes_twin ? "bad" : "warn";
        return (
          <article key={`${one.kind}${one.since}${one.dataset}`} class="alert-card">
            <div class="row row-wrap"><Badge tone={tone}>{one.kind}</Badge><span class="soft small">{one.dataset}, {ago(one.at)}</span></div>
            <p>{one.what}</p>
            <p class="strong">Next: {one.next_step}</p>
            <Command text={one.command} />
            {one.changes_twin && <p class="soft small">The twin no longer matches the robot: the gate refuses until it is identified again.</p>}
          </article>
        );
      })}
      {!alerts.length && <p class="pad soft">No alert was raised.</p>}
    </Card>
  );
}

function OneReport({ path }: { path: string }) {
  const { data, error, reload } = useApi<ReportAnswer>("/api/monitor/report", { report: path }, ["workspace"]);
  if (error) return <ErrorBox error={error} onRetry={reload} />;
  if (!data) return <Loading rows={6} />;
  const { report } = data;
  const fell = report.success.fell !== null;
  const words = [report.kind, fell ? "success fell" : null].filter(Boolean).join(", ");
  return (
    <>
      <div class={`verdict ${report.kind || fell ? "verdict-bad" : "verdict-good"}`}>
        <strong>{words ? words.replace(/^./, (c) => c.toUpperCase()) : "As expected"}</strong>
        <span>{plural(report.episodes, "deployed episode")} compared with {plural(report.reference, "reference episode")}; {report.success.episodes ? `${count(report.success.successes)} of ${count(report.success.episodes)} succeeded, ${percent(report.success.low)} to ${percent(report.success.high)} at all times` : "outcomes unknown"}.</span>
      </div>
      <Card><SuccessBand answer={data} /></Card>
      <Drift answer={data} />
    </>
  );
}

/** One more pass over a dataset, as a job. */
function Pass({ onDone, primary = false }: { onDone: () => void; primary?: boolean }) {
  const [dataset, setDataset] = useState("");
  const [reference, setReference] = useState("");
  const [baseline, setBaseline] = useState("30");
  const compared = reference ? ["--reference", reference] : ["--baseline", baseline];
  return (
    <RunJob button="Look again …" title="One pass of the monitor" command={dataset ? ["monitor", dataset, ...compared, "--once"] : null} onDone={onDone} primary={primary}>
      <DatasetField label="Deployed episodes" value={dataset} onValue={setDataset} wanted="robot" />
      <DatasetField label="Compared with" value={reference} onValue={setReference} wanted="robot" none="the first deployed episodes" />
      {!reference && <TextField label="How many of the first" type="number" min={5} value={baseline} onValue={setBaseline} />}
      <p class="soft small">A pass with an alert ends as failed, as the command does.</p>
    </RunJob>
  );
}

export default function MonitorRoom() {
  const reports = useApi<ReportLine[]>("/api/monitor", {}, ["workspace"]);
  const alerts = useApi<Alert[]>("/api/monitor/alerts", {}, ["workspace"]);
  const [chosen, setChosen] = useQueryState("report");
  const readable = (reports.data ?? []).filter((one) => !one.problem);
  const path = readable.find((one) => one.path === chosen)?.path ?? readable[0]?.path;
  const choice = readable.length > 1 && path && <SelectField label="Report" hideLabel value={path} onValue={setChosen} options={readable.map((one) => ({ value: one.path, label: `${one.dataset}, ${ago(one.at)}` }))} />;
  const again = (): void => {
    reports.reload();
    alerts.reload();
  };
  return (
    <Page title="Monitor" lead="What the policy in use does on the robot: whether it still succeeds, and what has changed since." actions={path ? <>{choice}<Pass onDone={again} /></> : undefined}>
      <ErrorBox error={reports.error ?? alerts.error} onRetry={again} />
      {!reports.data && !reports.error && <Loading />}
      {reports.data && !path && (
        <Empty icon="monitor" title="Nothing is monitored yet" action={<Pass onDone={again} primary />}>
          The monitor compares deployed episodes with a reference, and says what changed and what to do.
          <Command text="twinloop monitor data/DEPLOYED --reference data/REAL --once" />
        </Empty>
      )}
      {path && alerts.data && <Alerts alerts={alerts.data} />}
      {path && <OneReport key={path} path={path} />}
    </Page>
  );
}
