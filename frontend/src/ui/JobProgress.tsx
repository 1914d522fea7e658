// A running command: how far it is, what it says, and the way to stop it or to go on with it.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, post, useAction, useApi } from "../api";
import { onEvent } from "../events";
import { duration } from "../format";
import type { Job, LogPart } from "../types";
import { Badge, type Tone } from "./Badge";
import { Button } from "./Button";
import { ErrorBox } from "./ErrorBox";

const TONES: Record<string, Tone> = { queued: "neutral", running: "accent", done: "good", failed: "bad", cancelled: "warn", interrupted: "warn" };

const waiting = (job: Job): boolean => job.state === "queued" || job.state === "running";

/** Start a `twinloop` command as a job. */
export const startJob = (command: readonly string[], by = ""): Promise<Job> => post<Job>("/api/jobs", { command, by });

/** One job, kept up to date until it ends; `onDone` is called once when it does. */
export function useJob(id: string | null, onDone?: (job: Job) => void): Job | null {
  const { data, reload } = useApi<Job>(id ? `/api/jobs/${id}` : null);
  const told = useRef<string | null>(null);
  useEffect(() => onEvent((event) => {
    if (event.type === "job" && (event.id === undefined || event.id === id)) reload();
  }), [id, reload]);
  useEffect(() => {
    if (!data || waiting(data) || told.current === data.id) return;
    told.current = data.id;
    onDone?.(data);
  }, [data]);
  const kept = useRef<Job | null>(null);
  if (data) kept.current = data;
  return data ?? (kept.current?.id === id ? kept.current : null);
}

/** What a job has written so far; grows while it runs. */
function JobLog({ job }: { job: Job }) {
  const [text, setText] = useState("");
  const offset = useRef(0);
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    let alive = true;
    let busy = false;
    const more = async (): Promise<void> => {
      if (busy) return;
      busy = true;
      try {
        const part = await get<LogPart>(`/api/jobs/${job.id}/log`, { offset: offset.current });
        if (!alive) return;
        offset.current = part.next_offset;
        if (part.text) setText((before) => (before + part.text).slice(-200_000));
      } catch {
        // the job's state says what is wrong; the log is read again at the next turn
      } finally {
        busy = false;
      }
    };
    void more();
    const timer = waiting(job) ? window.setInterval(() => void more(), 1000) : 0;
    return () => {
      alive = false;
      window.clearInterval(timer);
    };
  }, [job.id, job.state]);
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  return <pre class="job-log" ref={box} tabIndex={0} aria-label="What the job wrote">{text || "Nothing written yet."}</pre>;
}

/** A job as a line with its progress; the log opens below it. */
export function JobProgress({ id, onDone, startOpen = false }: { id: string; onDone?: (job: Job) => void; startOpen?: boolean }) {
  const job = useJob(id, onDone);
  const [open, setOpen] = useState(startOpen);
  const change = useAction((what: "cancel" | "resume") => post(`/api/jobs/${id}/${what}`));
  if (!job) return <div class="job"><span class="skeleton" /></div>;
  const fraction = job.total ? Math.min(1, (job.done ?? 0) / job.total) : null;
  const seconds = job.started_at ? ((job.ended_at ? new Date(job.ended_at).getTime() : Date.now()) - new Date(job.started_at).getTime()) / 1000 : null;
  return (
    <article class="job" aria-label={`Job ${job.command.join(" ")}`}>
      <div class="job-line">
        <Badge tone={TONES[job.state] ?? "neutral"} dot>{job.state}</Badge>
        <code class="job-command">twinloop {job.command.join(" ")}</code>
        <span class="job-time">{seconds === null ? "" : duration(seconds)}</span>
        {waiting(job) && <Button small icon="stop" busy={change.running} onClick={() => void change.run("cancel")}>Cancel</Button>}
        {job.can_resume && !waiting(job) && <Button small icon="refresh" busy={change.running} onClick={() => void change.run("resume")}>Resume</Button>}
        <Button small kind="quiet" icon={open ? "chevronDown" : "chevronRight"} aria-expanded={open} onClick={() => setOpen(!open)}>Log</Button>
      </div>
      {job.state === "running" && (
        <div class="job-progress">
          <progress max={1} {...(fraction === null ? {} : { value: fraction })} aria-label="Progress" />
          <span>{job.what ?? ""}{job.total ? ` ${job.done ?? 0} of ${job.total}` : ""}</span>
        </div>
      )}
      {job.error && <p class="field-error">{job.error}</p>}
      <ErrorBox error={change.error} onClose={change.clear} />
      {open && <JobLog job={job} />}
    </article>
  );
}
