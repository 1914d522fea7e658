// One episode: cameras, signals and the twin's replay on one time line, its origin, and labelling by keyboard.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useAction, useApi } from "../api";
import { duration } from "../format";
import { datasetHref, datasetTitle, episodeHref } from "../names";
import { go, Link, useQueryState, type RoomProps } from "../router";
import { useName, useSession } from "../session";
import type { EpisodeAnswer } from "../types";
import { Button, Dialog, ErrorBox, Loading, Page, SourceBadge, startJob, TextField, toast } from "../ui";
import { Cameras } from "./episode/Cameras";
import { useClock, type Clock } from "./episode/clock";
import { CompareDialog, parseOther } from "./episode/Compare";
import { Facts } from "./episode/Facts";
import { Labels, type LabelKeys } from "./episode/Labels";
import { Replay } from "./episode/Replay";
import { Signals } from "./episode/Signals";
import { SPEEDS, Transport, zoomed, type Window } from "./episode/Transport";

const KEYS: readonly [string, string][] = [
  ["Space", "play or pause"], ["← →", "one row back or on"], ["Shift ← →", "ten rows"], ["Home End", "first or last row"], ["< >", "slower or faster"], ["+ −", "show less or more time"],
  ["J K", "next or previous episode"], ["S", "success"], ["F", "failure, then a number or a mode"], ["U", "unknown"], ["P", "begin and end a phase"], ["I O", "keep from here, keep to here"], ["C", "compare with another episode"],
];

const typing = (target: EventTarget | null): boolean => target instanceof HTMLElement && ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);

interface Doing {
  episode: EpisodeAnswer;
  clock: Clock;
  view: Window;
  onView: (view: Window) => void;
  labels: { current: LabelKeys | null };
  onCompare: () => void;
  onHelp: () => void;
}

/** What each key does on this page. */
function actionOf(event: KeyboardEvent, doing: Doing): (() => void) | undefined {
  const { episode, clock, view, onView, labels } = doing;
  const step = (rows: number) => () => {
    clock.play(false);
    clock.set((Math.round(clock.time() * episode.rate_hz) + rows) / episode.rate_hz);
  };
  const faster = (by: number) => () => clock.setSpeed(Number(SPEEDS[Math.min(SPEEDS.length - 1, Math.max(0, SPEEDS.indexOf(String(clock.speed()) as (typeof SPEEDS)[number]) + by))]));
  const open = (number: number | null) => () => number !== null && go(episodeHref(episode.dataset, number));
  const rows = event.shiftKey ? 10 : 1;
  return {
    " ": () => clock.play(!clock.playing()),
    ArrowLeft: step(-rows),
    ArrowRight: step(rows),
    Home: () => clock.set(0),
    End: () => clock.set(clock.duration),
    "<": faster(-1),
    ">": faster(1),
    "+": () => onView(zoomed(view, clock.time(), 0.5, clock.duration)),
    "-": () => onView(zoomed(view, clock.time(), 2, clock.duration)),
    j: open(episode.after),
    k: open(episode.before),
    s: () => labels.current?.success(),
    f: () => labels.current?.failure(),
    u: () => labels.current?.unknown(),
    p: () => labels.current?.phase(),
    i: () => labels.current?.keepFrom(),
    o: () => labels.current?.keepTo(),
    c: doing.onCompare,
    "?": doing.onHelp,
  }[event.key];
}

/** Keys work unless somebody types, a dialog is open, or the 3D view or a button has them. */
function useKeys(doing: Doing): void {
  const latest = useRef(doing);
  latest.current = doing;
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent): void => {
      const target = event.target instanceof HTMLElement ? event.target : null;
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || typing(target) || document.querySelector("dialog[open]")) return;
      if (target?.tagName === "CANVAS" || (event.key === " " && target?.tagName === "BUTTON") || (event.key.startsWith("Arrow") && target?.closest("[role=tablist], [role=grid]"))) return;
      const action = actionOf(event, latest.current);
      if (!action) return;
      event.preventDefault();
      action();
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);
}

function TrimDialog({ episode, onClose }: { episode: EpisodeAnswer; onClose: () => void }) {
  const by = useName();
  const [out, setOut] = useState("data/trimmed");
  const run = useAction(async () => {
    await startJob(["data", "trim", episode.dataset, "--out", out.trim()], by);
    toast("The job is in the queue; Overview shows it");
    onClose();
  });
  return (
    <Dialog title="Write a trimmed dataset" open onClose={onClose} footer={<><Button onClick={onClose}>Cancel</Button><Button kind="primary" busy={run.running} onClick={() => void run.run()}>Write</Button></>}>
      <div class="stack">
        <p class="soft">Every episode of {datasetTitle(episode.dataset)} that has a part to keep is cut to it, the others are copied whole. The original stays as it is.</p>
        <TextField label="New dataset" value={out} onValue={setOut} hint="A folder of the workspace that does not exist yet." />
        <ErrorBox error={run.error} onClose={run.clear} />
      </div>
    </Dialog>
  );
}

function Loaded({ episode, onChange }: { episode: EpisodeAnswer; onChange: () => void }) {
  const clock = useClock(episode.duration_s);
  const [view, setView] = useState<Window>({ from: 0, to: episode.duration_s });
  const [otherText, setOther] = useQueryState("with");
  const [asking, setAsking] = useState<"compare" | "keys" | "trim" | null>(null);
  const readOnly = useSession()?.read_only ?? true;
  const wanted = parseOther(otherText);
  const other = useApi<EpisodeAnswer>(wanted ? "/api/episode" : null, { dataset: wanted?.dataset, episode: wanted?.episode });
  const labels = useRef<LabelKeys | null>(null);
  useKeys({ episode, clock, view, onView: setView, labels, onCompare: () => setAsking("compare"), onHelp: () => setAsking("keys") });
  return (
    <>
      {otherText && (
        <div class="comparing">
          Compared with {other.data ? <Link href={episodeHref(other.data.dataset, other.data.episode)}>{datasetTitle(other.data.dataset)} #{other.data.episode}</Link> : "…"}, dashed
          <Button small kind="quiet" icon="close" aria-label="Stop comparing" onClick={() => setOther("")} />
          <ErrorBox error={other.error} />
        </div>
      )}
      <div class="episode">
        <div class="episode-main">
          <Cameras episode={episode} clock={clock} />
          {other.data && <Cameras episode={other.data} clock={clock} />}
          <Transport episode={episode} clock={clock} view={view} onView={setView} />
          <Replay episode={episode} clock={clock} />
          <Signals episode={episode} other={other.data} clock={clock} view={view} />
        </div>
        <div class="episode-side">
          <Labels episode={episode} clock={clock} onChange={onChange} keys={labels} />
          <Facts episode={episode} clock={clock} />
          <div class="row row-wrap">
            <Button small icon="compare" hotkey="C" onClick={() => setAsking("compare")}>Compare</Button>
            <Button small icon="cut" disabled={readOnly || !episode.writable} onClick={() => setAsking("trim")}>Trim the dataset</Button>
            <Button small kind="quiet" icon="keyboard" hotkey="?" onClick={() => setAsking("keys")}>Keys</Button>
          </div>
        </div>
      </div>
      {asking === "compare" && <CompareDialog dataset={episode.dataset} onChoose={(text) => { setOther(text); setAsking(null); }} onClose={() => setAsking(null)} />}
      {asking === "trim" && <TrimDialog episode={episode} onClose={() => setAsking(null)} />}
      <Dialog title="Keys" open={asking === "keys"} onClose={() => setAsking(null)}>
        <dl class="facts">{KEYS.map(([key, what]) => <><dt>{key.split(" ").map((one) => <kbd key={one}>{one}</kbd>)}</dt><dd>{what}</dd></>)}</dl>
      </Dialog>
    </>
  );
}

export default function EpisodeRoom({ params }: RoomProps) {
  const dataset = params["dataset"] ?? "";
  const number = Number(params["index"]);
  const { data, error, reload } = useApi<EpisodeAnswer>("/api/episode", { dataset, episode: number });
  const kept = useRef<EpisodeAnswer | null>(null);
  if (data) kept.current = data;
  const shown = data ?? (kept.current?.dataset === dataset && kept.current.episode === number ? kept.current : null);
  const lead = shown && <><SourceBadge source={String(shown.provenance["source"])} /> {(shown.task || "No task").replace(/\.$/, "")}, {duration(shown.duration_s)}, {shown.rows.toLocaleString("en-US")} rows at {shown.rate_hz} Hz</>;
  const open = (to: number | null | undefined) => () => to !== null && to !== undefined && go(episodeHref(dataset, to));
  return (
    <Page title={shown || error ? `Episode ${params["index"]}` : `Opening episode ${params["index"]} …`} back={{ href: datasetHref(dataset), title: datasetTitle(dataset) }} lead={lead ?? undefined}
      actions={<><Button icon="chevronLeft" hotkey="K" disabled={shown?.before === null || !shown} onClick={open(shown?.before)}>Previous</Button><Button icon="chevronRight" hotkey="J" disabled={shown?.after === null || !shown} onClick={open(shown?.after)}>Next</Button></>}>
      <ErrorBox error={error} onRetry={reload} />
      {!shown && !error && <Loading rows={10} />}
      {shown && <Loaded key={shown.id} episode={shown} onChange={reload} />}
    </Page>
  );
}
