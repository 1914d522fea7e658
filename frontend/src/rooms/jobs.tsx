// Every job of the workspace, newest first, with its log; and a way to start any command that can be one.
import { useState } from "preact/hooks";
import { useAction, useApi } from "../api";
import { plural } from "../format";
import { splitWords } from "../names";
import { useName, useSession } from "../session";
import type { Job, JobCommands } from "../types";
import { Button, Card, Empty, ErrorBox, JobProgress, Loading, Page, startJob, TextField, toast } from "../ui";

function NewJob({ onStart }: { onStart: () => void }) {
  const commands = useApi<JobCommands>("/api/jobs/commands").data?.commands ?? [];
  const by = useName();
  const readOnly = useSession()?.read_only ?? true;
  const [text, setText] = useState("");
  const start = useAction(async () => {
    await startJob(splitWords(text.replace(/^\s*twinloop\s+/, "")), by);
    setText("");
    toast("The job is in the queue");
    onStart();
  });
  return (
    <Card title="Run a command" note="The same commands as in a terminal, in the workspace's folder.">
      <form class="new-job" onSubmit={(event) => { event.preventDefault(); void start.run(); }}>
        <span class="mono soft">twinloop</span>
        <span class="grow"><TextField label="Command" hideLabel value={text} onValue={setText} placeholder="generate seed.yaml" list="job-commands" /></span>
        <Button type="submit" kind="primary" icon="play" busy={start.running} disabled={readOnly || !text.trim()}>Run</Button>
      </form>
      <datalist id="job-commands">{commands.map((one) => <option key={one} value={one} />)}</datalist>
      <ErrorBox error={start.error} onClose={start.clear} />
    </Card>
  );
}

export default function JobsRoom() {
  const { data, error, reload } = useApi<{ items: Job[]; total: number }>("/api/jobs", { limit: 100 }, ["job"]);
  return (
    <Page title="Jobs" lead="Long commands run one after the other. They survive this page and the studio, and resume where they stopped.">
      <NewJob onStart={reload} />
      <ErrorBox error={error} onRetry={reload} />
      {!data && !error && <Loading />}
      {data?.items.length === 0 && <Empty icon="jobs" title="No jobs yet">What you start here, or with <code>twinloop jobs start</code>, appears in this list.</Empty>}
      {data && data.items.length > 0 && <Card title={plural(data.total, "job")}>{data.items.map((job) => <JobProgress key={job.id} id={job.id} />)}</Card>}
    </Page>
  );
}
