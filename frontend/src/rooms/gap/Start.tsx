// Start a diagnosis or a measurement of the gap as a job: the same commands as in a terminal.
import { useState } from "preact/hooks";
import { useAction, useApi } from "../../api";
import { duration, plural } from "../../format";
import { datasetTitle } from "../../names";
import { go, useQueryState } from "../../router";
import { storedName, useSession } from "../../session";
import type { GapResults, PolicyLine, RecordingLine, Twins } from "../../types";
import { Button, Card, Empty, ErrorBox, JobProgress, Loading, SelectField, startJob, TextField } from "../../ui";
import { shortPlace } from "../twin/links";

export function Start({ results, onDone }: { results: GapResults; onDone: () => void }) {
  const datasets = useApi<RecordingLine[]>("/api/identify/datasets");
  const twins = useApi<Twins>("/api/twins");
  const policies = useApi<PolicyLine[]>("/api/policies");
  const error = datasets.error ?? twins.error ?? policies.error;
  if (error) return <ErrorBox error={error} />;
  if (!datasets.data || !twins.data || !policies.data) return <Card><Loading /></Card>;
  if (!datasets.data.length) return <Card><Empty icon="data" title="There are no recordings of the robot yet">Record runs with <code>twinloop evaluate POLICY --robot ROBOT</code>, or bring logs in with <code>twinloop ingest</code>.</Empty></Card>;
  return (
    <div class="gap-split">
      <StartDiagnosis results={results} datasets={datasets.data} twins={twins.data} policies={policies.data} onDone={onDone} />
      <StartGap results={results} datasets={datasets.data} twins={twins.data} onDone={onDone} />
    </div>
  );
}

const recordings = (datasets: readonly RecordingLine[]) => datasets.map((one) => ({ value: one.name, label: `${datasetTitle(one.name)}: ${plural(one.episodes, "episode")}, ${duration(one.hours * 3600)}` }));
const versions = (twins: Twins) => twins.versions.map((one) => ({ value: one.twin, label: `${shortPlace(one.twin)} (${one.state})` }));

function StartDiagnosis({ results, datasets, twins, policies, onDone }: { results: GapResults; datasets: readonly RecordingLine[]; twins: Twins; policies: readonly PolicyLine[]; onDone: () => void }) {
  const folders = policies.map((one) => one.policy).filter((one) => !one.problem);
  const [policy, setPolicy] = useState(folders[0]?.folder ?? "");
  const [real, setReal] = useState(datasets[0]?.name ?? "");
  const [twin, setTwin] = useState(twins.current ?? twins.versions[0]?.twin ?? "");
  const [excitation, setExcitation] = useState("");
  const [budget, setBudget] = useState("800");
  const command = ["diagnose", "--policy", policy, "--real", real, "--twin", twin, ...(excitation ? ["--excitation", excitation] : []), "--budget", budget, "--out", results.next_diagnosis];
  return (
    <Card title="Diagnose a policy" note="What each dimension costs it in success points; simulates the policy with everything that was measured.">
      <div class="stack">
        <SelectField label="Policy" value={policy} onValue={setPolicy} options={folders.map((one) => ({ value: one.folder, label: `${one.name} (${one.folder})` }))} />
        <SelectField label="Its judged runs on the robot" value={real} onValue={setReal} options={recordings(datasets)} />
        <SelectField label="Other recordings of the same robot" value={excitation} onValue={setExcitation} options={[{ value: "", label: "none" }, ...recordings(datasets.filter((one) => one.name !== real))]} />
        <SelectField label="Twin" value={twin} onValue={setTwin} options={versions(twins)} />
        <TextField label="Simulated episodes, at most" type="number" min={64} value={budget} onValue={setBudget} />
        <Run kind="diagnose" command={command} ready={Boolean(policy && real && twin)} onDone={onDone} />
      </div>
    </Card>
  );
}

function StartGap({ results, datasets, twins, onDone }: { results: GapResults; datasets: readonly RecordingLine[]; twins: Twins; onDone: () => void }) {
  const [real, setReal] = useState(datasets[0]?.name ?? "");
  const [twin, setTwin] = useState(twins.current ?? twins.versions[0]?.twin ?? "");
  const command = ["gap", "--real", real, "--twin", twin, "--out", results.next_gap];
  return (
    <Card title="Measure the gap" note="How far the twin is from recordings, dimension by dimension; replays their commands and generates a few episodes.">
      <div class="stack">
        <SelectField label="Recordings" value={real} onValue={setReal} options={recordings(datasets)} />
        <SelectField label="Twin" value={twin} onValue={setTwin} options={versions(twins)} />
        <Run kind="gap" command={command} ready={Boolean(real && twin)} onDone={onDone} />
      </div>
    </Card>
  );
}

/** The command, the button and the job that it started. */
function Run({ kind, command, ready, onDone }: { kind: string; command: readonly string[]; ready: boolean; onDone: () => void }) {
  const readOnly = useSession()?.read_only ?? false;
  const [job, setJob] = useQueryState(`${kind}-job`);
  const [done, setDone] = useState(false);
  const start = useAction(async () => {
    setDone(false);
    setJob((await startJob(command, storedName())).id);
  });
  return (
    <>
      <pre class="identify-command" aria-label="The same in a terminal">twinloop {command.join(" ")}</pre>
      <div class="row"><Button kind="primary" icon="play" disabled={!ready || readOnly} busy={start.running} onClick={() => void start.run()}>Start</Button></div>
      <ErrorBox error={start.error} />
      {job && <JobProgress key={job} id={job} onDone={(one) => { setDone(one.state === "done"); onDone(); }} />}
      {job && done && <div class="row"><Button kind="primary" onClick={() => go(`/gap?tab=${kind === "gap" ? "gap" : "diagnosis"}`)}>Show the result</Button></div>}
    </>
  );
}
