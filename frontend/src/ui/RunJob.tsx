// A command as a job: a dialog that asks for its inputs, then shows its progress.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { useAction, useApi } from "../api";
import { storedName, useSession } from "../session";
import type { DatasetLine, Job } from "../types";
import { Button } from "./Button";
import { Dialog } from "./Dialog";
import { ErrorBox } from "./ErrorBox";
import { SelectField } from "./Field";
import { JobProgress, startJob } from "./JobProgress";

interface Props {
  button: string;
  title: string;
  /** The words of the command, without `twinloop`; null while something is missing. */
  command: readonly string[] | null;
  children: ComponentChildren;
  onDone: (job: Job) => void;
  primary?: boolean;
}

/** A button that opens the dialog; nothing where the studio is read-only. */
export function RunJob({ button, title, command, children, onDone, primary = false }: Props) {
  const locked = useSession()?.read_only ?? false;
  const [open, setOpen] = useState(false);
  const [job, setJob] = useState<string | null>(null);
  const start = useAction(() => startJob(command ?? [], storedName()));
  const run = async (event: Event): Promise<void> => {
    event.preventDefault();
    const started = await start.run();
    if (started) setJob(started.id);
  };
  const close = (): void => {
    setOpen(false);
    setJob(null);
    start.clear();
  };
  if (locked) return null;
  return (
    <>
      <Button icon="play" kind={primary ? "primary" : "plain"} onClick={() => setOpen(true)}>{button}</Button>
      <Dialog title={title} open={open} onClose={close}>
        <form class="stack" onSubmit={(event) => void run(event)}>
          {job === null ? children : <JobProgress id={job} onDone={onDone} startOpen />}
          <ErrorBox error={start.error} />
          <div class="row row-end">
            {job === null
              ? <Button kind="primary" type="submit" disabled={command === null} busy={start.running}>Start</Button>
              : <Button kind="primary" onClick={close}>Close</Button>}
          </div>
          {job !== null && <p class="soft small">It goes on when this is closed; the overview shows all jobs.</p>}
        </form>
      </Dialog>
    </>
  );
}

/** A choice among the workspace's datasets; the empty choice is allowed where `none` names it. */
export function DatasetField({ label, value, onValue, wanted, none, hint }: { label: string; value: string; onValue: (path: string) => void; wanted: "robot" | "simulation" | "any"; none?: string; hint?: string }) {
  const { data, error } = useApi<DatasetLine[]>("/api/data/datasets");
  const fits = (one: DatasetLine): boolean => {
    const simulated = one.by_source.every((count) => count.source === "sim");
    return !one.problem && one.episodes > 0 && (wanted === "any" || simulated === (wanted === "simulation"));
  };
  const options = (data ?? []).filter(fits).map((one) => ({ value: one.path, label: `${one.path} (${one.episodes} episodes)` }));
  const first = none === undefined ? { value: "", label: "Choose …" } : { value: "", label: none };
  return <SelectField label={label} value={value} onValue={onValue} options={[first, ...options]} {...(hint ? { hint } : {})} error={error ? error.shape.what : null} />;
}
