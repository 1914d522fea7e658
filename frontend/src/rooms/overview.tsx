// Where the workspace stands and what to do next: the loop, success, the champion, running jobs, and the data.
import { useState } from "preact/hooks";
import { useAction, useApi } from "../api";
import { count, duration, percent } from "../format";
import { datasetHref, datasetTitle, splitWords } from "../names";
import { Link } from "../router";
import { useName, useSession } from "../session";
import type { DatasetLine, Job, JobCommands, Overview, SourceCount } from "../types";
import { Badge, Button, Card, Empty, ErrorBox, Icon, JobProgress, Loading, Page, SourceBadge, startJob, toast } from "../ui";
import { Ring } from "./overview/Ring";
import { SuccessHistory } from "./overview/SuccessHistory";

/** The words of a command; null where it is not complete, such as one with DATASET in it. */
function wordsOf(command: string): string[] | null {
  const words = splitWords(command);
  return words[0] !== "twinloop" || words.some((word) => /^(\.\.\.|[A-Z][A-Z_.|]+)$/.test(word)) ? null : words.slice(1);
}

function NextStep({ step, reason }: { step: string; reason: string }) {
  const commands = useApi<JobCommands>("/api/jobs/commands").data?.commands ?? [];
  const name = useName();
  const readOnly = useSession()?.read_only ?? true;
  const words = wordsOf(step);
  const run = useAction(async () => {
    await startJob(words ?? [], name);
    toast("The job is in the queue");
  });
  const possible = words !== null && commands.some((one) => words.join(" ").startsWith(one));
  const copy = (): void => {
    void navigator.clipboard.writeText(step).then(() => toast("Copied"));
  };
  return (
    <Card title="Next step">
      <p class="next-reason">{reason.charAt(0).toUpperCase() + reason.slice(1)}.</p>
      <div class="command">
        <code>{step}</code>
        <Button small kind="quiet" icon="copy" aria-label="Copy the command" onClick={copy} />
        {possible && <Button small kind="primary" icon="play" busy={run.running} disabled={readOnly} onClick={() => void run.run()}>Run</Button>}
      </div>
      <ErrorBox error={run.error} onClose={run.clear} />
    </Card>
  );
}

const ALIASES = ["champion", "canary", "shadow", "candidate"];

function Registry({ registry }: { registry: Record<string, string> }) {
  const names = Object.keys(registry).filter((key) => key !== "warning" && key !== "problem");
  const warning = registry["problem"] ?? registry["warning"];
  const [words, remedy] = (warning ?? "").split(/;\s*/);
  return (
    <Card title="Policies in place" actions={<Link href="/policies" class="more">Registry<Icon name="chevronRight" size={14} /></Link>}>
      {names.length === 0 && <p class="soft">No policy is promoted yet.</p>}
      <dl class="facts">
        {names.sort((a, b) => ALIASES.indexOf(a) - ALIASES.indexOf(b)).map((alias) => (
          <>
            <dt><Badge tone={alias === "champion" ? "good" : "accent"}>{alias}</Badge></dt>
            <dd class="strong">{registry[alias]}</dd>
          </>
        ))}
      </dl>
      {warning && <p class="registry-warning" title={remedy}><Icon name={registry["problem"] ? "alert" : "lock"} size={14} /><span>{words}</span></p>}
    </Card>
  );
}

function Jobs() {
  const { data, error } = useApi<{ items: Job[]; total: number }>("/api/jobs", { limit: 5 }, ["job"]);
  const [shown, setShown] = useState(3);
  const items = data?.items ?? [];
  return (
    <Card title="Jobs" actions={<Link href="/jobs" class="more">All jobs<Icon name="chevronRight" size={14} /></Link>} note={items.length > 0 ? undefined : "Long commands run here, one after the other; they survive this page and the studio."}>
      <ErrorBox error={error} />
      {items.slice(0, shown).map((job) => <JobProgress key={job.id} id={job.id} />)}
      {items.length > shown && <Button small kind="quiet" onClick={() => setShown(5)}>Show earlier jobs</Button>}
    </Card>
  );
}

const share = (part: number, all: number) => ({ width: `${(100 * part) / Math.max(1, all)}%` });

/** Successes, failures and unknown outcomes of a dataset as one bar. */
export function OutcomeBar({ counts }: { counts: readonly SourceCount[] }) {
  const all = counts.reduce((sum, one) => sum + one.episodes, 0);
  const good = counts.reduce((sum, one) => sum + one.successes, 0);
  const bad = counts.reduce((sum, one) => sum + one.failures, 0);
  const words = `${count(good)} successes, ${count(bad)} failures, ${count(all - good - bad)} unlabelled`;
  return (
    <span class="outcome-bar" role="img" aria-label={words} title={words}>
      <span class="outcome-good" style={share(good, all)} />
      <span class="outcome-bad" style={share(bad, all)} />
    </span>
  );
}

function Datasets() {
  const { data, error, reload } = useApi<DatasetLine[]>("/api/data/datasets", {}, ["workspace"]);
  return (
    <Card title="Datasets" flush actions={<Link href="/data" class="more">All data<Icon name="chevronRight" size={14} /></Link>}>
      <ErrorBox error={error} onRetry={reload} />
      {!data && !error && <Loading />}
      {data?.length === 0 && <Empty icon="data" title="No data yet">The next step says how to make some.</Empty>}
      {data && data.length > 0 && (
        <table class="plain-table overview-datasets">
          <thead><tr><th>Dataset</th><th>Source</th><th class="number">Episodes</th><th class="number">Time</th><th>Outcomes</th><th class="number">Success</th></tr></thead>
          <tbody>
            {data.map((row) => (
              <tr key={row.path}>
                <td><Link href={datasetHref(row.path)}>{datasetTitle(row.path)}</Link>{row.problem && <p class="field-error">{row.problem}</p>}</td>
                <td>{row.by_source.map((one) => <SourceBadge key={one.source} source={one.source} />)}</td>
                <td class="number">{count(row.episodes)}</td>
                <td class="number">{duration(row.hours * 3600)}</td>
                <td><OutcomeBar counts={row.by_source} /></td>
                <td class="number">{percent(row.success)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}

export default function OverviewRoom() {
  const { data, error, reload } = useApi<Overview>("/api/overview", {}, ["workspace", "job"]);
  return (
    <Page title="Overview" lead="Where the loop stands, and what is worth doing next.">
      <ErrorBox error={error} onRetry={reload} />
      {!data && !error && <Loading rows={8} />}
      {data && (
        <>
          <div class="overview-top">
            <Card title="The loop" note={data.loop ? undefined : "Nothing of the loop has run in this workspace yet."}>
              <Ring loop={data.loop} runs={data.stages} champion={data.registry["champion"]?.replace(/ \(.*\)$/, "") ?? null} />
            </Card>
            <div class="stack overview-side">
              <NextStep step={data.next_step} reason={data.reason} />
              <Card title="Success" note="Every evaluation in order, with its exact 95 % interval.">
                {data.evaluations.length > 0 ? <SuccessHistory records={data.evaluations} /> : <p class="soft">No policy has been evaluated yet.</p>}
              </Card>
              <Registry registry={data.registry} />
            </div>
          </div>
          <Jobs />
          <Datasets />
        </>
      )}
    </Page>
  );
}
