// Identify: from recordings to a calibrated twin in six steps; Run waits until the check passes, and a person decides at the end.
import { useState } from "preact/hooks";
import { useAction, useApi } from "../api";
import { useLocation, go, type RoomProps } from "../router";
import { storedName, useSession } from "../session";
import type { RecordingLine, IdentifyCheck, TwinDetail, TwinVersion, Twins } from "../types";
import { Button, Card, ErrorBox, Loading, Page, startJob } from "../ui";
import { Result } from "./identify/Result";
import { CheckStep, DataStep, ParametersStep, RunStep, type Choice } from "./identify/Setup";

const STEPS = ["data", "check", "parameters", "run", "result", "decide"] as const;
type Step = (typeof STEPS)[number];
const TITLES: Record<Step, string> = { data: "Data", check: "Check", parameters: "Parameters", run: "Run", result: "Result", decide: "Decide" };

const START: Choice = { dataset: "", twin: "", own: false, names: [], priors: {}, seconds: "60" };

/** The command that does the same in a terminal. */
export function commandOf(choice: Choice, out: string): string[] {
  const priors = Object.entries(choice.priors).filter(([name, [low, high]]) => choice.names.includes(name) && low !== "" && high !== "");
  return [
    "identify", "--real", choice.dataset, "--twin", choice.twin, "--candidate", "--out", out, "--seconds", choice.seconds,
    ...(choice.own ? ["--parameters", choice.names.join(",")] : []),
    ...(choice.own ? priors.flatMap(([name, [low, high]]) => ["--prior", `${name}=${low}:${high}`]) : []),
  ];
}

export default function Identify(_: RoomProps) {
  const { query } = useLocation();
  const twins = useApi<Twins>("/api/twins", {}, ["workspace"]);
  const datasets = useApi<RecordingLine[]>("/api/identify/datasets", {}, ["workspace"]);
  const results = useApi<TwinVersion[]>("/api/identify/results", {}, ["workspace"]);
  const failed = twins.error ?? datasets.error ?? results.error;
  if (failed) return <Page title="Identify"><ErrorBox error={failed} /></Page>;
  if (!twins.data || !results.data) return <Page title="Identify"><Card><Loading rows={6} /></Card></Page>;
  const wanted = query.get("result");
  const found = wanted ? results.data.find((one) => one.twin === wanted || one.twin === `${wanted}-rejected`) : undefined;
  return <Guide twins={twins.data} datasets={datasets.data} results={results.data} result={found ?? null} job={query.get("job")} out={wanted} onChange={() => { twins.reload(); results.reload(); }} />;
}

interface GuideProps {
  twins: Twins;
  datasets: RecordingLine[] | null;
  results: TwinVersion[];
  result: TwinVersion | null;
  job: string | null;
  out: string | null;
  onChange: () => void;
}

function Guide({ twins, datasets, results, result, job, out, onChange }: GuideProps) {
  const { query } = useLocation();
  const session = useSession();
  const readOnly = session?.read_only ?? false;
  const [choice, setChoice] = useState<Choice>({ ...START, dataset: query.get("dataset") ?? "", twin: query.get("twin") ?? twins.current ?? "" });
  const asked = query.get("step") as Step | null;
  const step: Step = asked && STEPS.includes(asked) ? asked : result ? "result" : job ? "run" : "data";
  const names = choice.own ? choice.names : [];
  const ready = choice.dataset && choice.twin && (!choice.own || names.length > 0);
  const check = useApi<IdentifyCheck>(ready && step !== "data" ? "/api/identify/check" : null, { dataset: choice.dataset, twin: choice.twin, parameters: names });
  const detail = useApi<TwinDetail>(choice.twin ? "/api/twins/detail" : null, { twin: choice.twin });
  const passed = Boolean(check.data?.ready);
  const open: Record<Step, boolean> = { data: true, check: Boolean(choice.dataset), parameters: Boolean(choice.dataset) && (passed || choice.own), run: passed || Boolean(job), result: Boolean(result), decide: Boolean(result) };
  const to = (next: Step, more: Record<string, string> = {}): void => {
    const search = new URLSearchParams({ ...(choice.dataset ? { dataset: choice.dataset } : {}), ...(choice.twin ? { twin: choice.twin } : {}), ...(job ? { job } : {}), ...(out ? { result: out } : {}), step: next, ...more });
    go(`/identify?${search.toString()}`);
  };
  const run = useAction(async () => {
    const folder = check.data?.out ?? "";
    const started = await startJob(commandOf(choice, folder), storedName());
    to("run", { job: started.id, result: folder });
  });
  const at = STEPS.indexOf(step);
  const next = STEPS[at + 1];
  return (
    <Page title="Identify" lead="From recordings to a calibrated twin that knows how sure it is. Nothing changes until you accept the result.">
      <nav class="steps" aria-label="Steps of an identification">
        <ol>
          {STEPS.map((one, i) => (
            <li key={one} class={i < at ? "step-done" : undefined}>
              <button type="button" disabled={!open[one]} aria-current={one === step ? "step" : undefined} onClick={() => to(one)}>
                <span class="step-number" aria-hidden="true">{i + 1}</span>
                {TITLES[one]}
              </button>
            </li>
          ))}
        </ol>
      </nav>
      {step === "data" && <DataStep datasets={datasets} twins={twins} choice={choice} onChoice={setChoice} results={results} />}
      {step === "check" && <CheckStep check={check} />}
      {step === "parameters" && <ParametersStep detail={detail.data} choice={choice} onChoice={setChoice} check={check} />}
      {step === "run" && <RunStep choice={choice} command={commandOf(choice, check.data?.out ?? "twins/NAME")} ready={passed && !readOnly} check={check} job={job} running={run.running} error={run.error} onRun={() => void run.run()} onDone={() => { onChange(); }} found={Boolean(result)} onResult={() => to("result")} />}
      {(step === "result" || step === "decide") && result && <Result key={result.twin} place={result.twin} deciding={step === "decide"} readOnly={readOnly} onChange={onChange} />}
      {(step === "result" || step === "decide") && !result && <Card><p class="soft">This result is not in the workspace.</p></Card>}
      <div class="row row-end">
        {at > 0 && <Button icon="chevronLeft" onClick={() => to(STEPS[at - 1] ?? "data")}>Back</Button>}
        {next && step !== "run" && <Button kind="primary" disabled={!open[next]} onClick={() => to(next)}>{`Next: ${TITLES[next]}`}</Button>}
      </div>
    </Page>
  );
}
