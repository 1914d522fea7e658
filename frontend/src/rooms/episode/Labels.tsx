// Labelling by keyboard: outcome, failure mode, phases and the part to keep; then on to the next episode.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { get, post, useAction, useApi } from "../../api";
import { number } from "../../format";
import { episodeHref } from "../../names";
import { go } from "../../router";
import { setName, useName, useSession } from "../../session";
import type { EpisodeAnswer, EpisodePage, Facets, Labelled, PhaseRange } from "../../types";
import { Button, Card, CheckField, ErrorBox, OutcomeBadge, TextField, toast } from "../../ui";
import type { Clock } from "./clock";

const MODES = 9;
const ONWARD = "twinloop.onward";

interface Props {
  episode: EpisodeAnswer;
  clock: Clock;
  onChange: () => void;
}

export interface LabelKeys {
  success: () => void;
  failure: () => void;
  unknown: () => void;
  keepFrom: () => void;
  keepTo: () => void;
  phase: () => void;
}

const storedOnward = (): boolean => window.localStorage.getItem(ONWARD) !== "no";

/** Who labels, kept in this browser. */
function Author() {
  const name = useName();
  const [text, setText] = useState("");
  if (name) return null;
  return (
    <form class="author" onSubmit={(event) => { event.preventDefault(); setName(text); }}>
      <TextField label="Your name, which labels carry" value={text} onValue={setText} placeholder="Name" />
      <Button small type="submit" disabled={!text.trim()}>Set</Button>
    </form>
  );
}

function Failure({ modes, onLabel, onClose }: { modes: readonly string[]; onLabel: (mode: string) => void; onClose: () => void }) {
  const [text, setText] = useState("");
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => box.current?.querySelector("input")?.focus(), []);
  const key = (event: KeyboardEvent): void => {
    const mode = modes[Number(event.key) - 1];
    if (text === "" && mode) {
      event.preventDefault();
      onLabel(mode);
    } else if (event.key === "Enter") {
      event.preventDefault();
      onLabel(text.trim());
    } else if (event.key === "Escape") onClose();
    event.stopPropagation();
  };
  return (
    <div class="failure-modes" ref={box} onKeyDown={key}>
      {modes.map((mode, i) => <button key={mode} type="button" class="chip" onClick={() => onLabel(mode)}><kbd>{i + 1}</kbd> {mode}</button>)}
      <TextField label="Failure mode" hideLabel value={text} onValue={setText} placeholder={modes.length > 0 ? "A number, or another mode and Enter" : "Failure mode, then Enter"} />
    </div>
  );
}

function PhaseList({ phases, from, onRemove, onAdd, onCancel }: { phases: readonly PhaseRange[]; from: number | null; onRemove: (phase: PhaseRange) => void; onAdd: (name: string) => void; onCancel: () => void }) {
  const [text, setText] = useState("");
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (from !== null) box.current?.querySelector("input")?.focus();
  }, [from]);
  return (
    <div class="stack-tight" ref={box}>
      {phases.map((phase) => (
        <div key={`${phase.name}${phase.start_s}`} class="row small">
          <span class="grow clip">{phase.name}</span>
          <span class="soft">{number(phase.start_s)} – {number(phase.end_s)} s</span>
          <Button small kind="quiet" icon="close" aria-label={`Remove phase ${phase.name}`} onClick={() => onRemove(phase)} />
        </div>
      ))}
      {from !== null && (
        <form class="row" onSubmit={(event) => { event.preventDefault(); onAdd(text.trim()); setText(""); }}>
          <span class="grow"><TextField label="Name of the phase" hideLabel value={text} onValue={setText} placeholder="Name of the phase" onKeyDown={(event) => { event.stopPropagation(); if (event.key === "Escape") onCancel(); }} /></span>
          <Button small type="submit" disabled={!/^[\w-]+$/.test(text.trim())}>Add</Button>
        </form>
      )}
    </div>
  );
}

/** The panel; `keys` is filled with what the page's keys do. */
export function Labels({ episode, clock, onChange, keys }: Props & { keys: { current: LabelKeys | null } }) {
  const by = useName();
  const readOnly = useSession()?.read_only ?? false; // not known for a moment; the server refuses in any case
  const facets = useApi<Facets>("/api/data/facets", { dataset: episode.dataset });
  const [asking, setAsking] = useState(false);
  const [onward, setOnward] = useState(storedOnward);
  const [begun, setBegun] = useState<number | null>(null);
  const [ending, setEnding] = useState<[number, number] | null>(null);
  const modes = (facets.data?.failure ?? []).map((one) => one.value).filter((value) => value !== "(none)").slice(0, MODES);
  const allowed = !readOnly && episode.writable;
  const goOn = async (here: string): Promise<void> => {
    const next = await get<EpisodePage>("/api/data/episodes", { dataset: episode.dataset, outcome: "unlabelled", where: `episode_index > ${episode.episode}`, limit: 1 });
    const target = next.items[0]?.episode ?? episode.after;
    const left = window.location.pathname !== here; // somebody who went elsewhere meanwhile stays there
    if (!left && target !== null && target !== undefined) go(episodeHref(episode.dataset, target));
  };
  const label = useAction(async (values: object, words: string, advance: boolean) => {
    const here = window.location.pathname;
    await post<Labelled>("/api/episode/labels", { dataset: episode.dataset, episodes: [episode.episode], by, ...values });
    toast(`Episode ${episode.episode}: ${words}`);
    setAsking(false);
    if (advance && onward) await goOn(here);
    else onChange();
  });
  const outcome = (value: "success" | "failure" | "unknown", mode = ""): void => void label.run({ outcome: value, ...(mode ? { failure: mode } : {}) }, mode || value, value !== "unknown");
  const keep = (from: number, to: number): void => {
    const whole = from <= 0 && to >= clock.duration;
    void label.run({ keep: whole ? "all" : [from, to] }, whole ? "all is kept" : `${number(from)} to ${number(to)} s are kept`, false);
  };
  const [keepFrom = 0, keepTo = clock.duration] = episode.keep ?? [];
  const phases = (next: readonly PhaseRange[]): void => {
    setEnding(null);
    setBegun(null);
    void label.run({ phases: next }, `${next.length} phases`, false);
  };
  const phaseKey = (): void => {
    const now = clock.time();
    if (begun === null) setBegun(now);
    else if (now > begun) setEnding([begun, now]);
    else setBegun(null);
  };
  keys.current = allowed ? {
    success: () => outcome("success"),
    failure: () => setAsking(true),
    unknown: () => outcome("unknown"),
    keepFrom: () => clock.time() < keepTo && keep(clock.time(), keepTo),
    keepTo: () => clock.time() > keepFrom && keep(keepFrom, clock.time()),
    phase: phaseKey,
  } : null;
  return (
    <Card title="Outcome" actions={<OutcomeBadge success={episode.success} failure={episode.failure} />}>
      <div class="stack labels">
        {allowed && <Author />}
        <div class="label-buttons">
          <Button hotkey="S" disabled={!allowed || label.running} onClick={() => outcome("success")}>Success</Button>
          <Button hotkey="F" disabled={!allowed || label.running} onClick={() => setAsking(!asking)}>Failure</Button>
          <Button hotkey="U" kind="quiet" disabled={!allowed || label.running} onClick={() => outcome("unknown")}>Unknown</Button>
        </div>
        {asking && <Failure modes={modes} onLabel={(mode) => outcome("failure", mode)} onClose={() => setAsking(false)} />}
        <ErrorBox error={label.error} onClose={label.clear} />
        {!episode.writable && <p class="hint">This dataset was not written by Twinloop and is never changed in place; <code>twinloop data merge</code> makes a copy that can be labelled.</p>}
        <CheckField label="Then go to the next unlabelled episode" checked={onward} onValue={(on) => { setOnward(on); window.localStorage.setItem(ONWARD, on ? "yes" : "no"); }} />
        <div class="label-part">
          <div class="row row-spread"><h3>Phases</h3><Button small kind="quiet" hotkey="P" disabled={!allowed} onClick={phaseKey}>{begun === null ? "Begin here" : "End here"}</Button></div>
          {begun !== null && ending === null && <p class="hint">Begun at {number(begun)} s; move on and press P.</p>}
          <PhaseList phases={episode.phases} from={ending?.[0] ?? null} onRemove={(phase) => phases(episode.phases.filter((one) => one !== phase))} onAdd={(name) => ending && phases([...episode.phases, { name, start_s: ending[0], end_s: ending[1] }])} onCancel={() => { setEnding(null); setBegun(null); }} />
        </div>
        <div class="label-part">
          <div class="row row-spread">
            <h3>Part to keep</h3>
            <span class="row">
              <Button small kind="quiet" hotkey="I" disabled={!allowed} onClick={() => keys.current?.keepFrom()}>From</Button>
              <Button small kind="quiet" hotkey="O" disabled={!allowed} onClick={() => keys.current?.keepTo()}>To</Button>
            </span>
          </div>
          <p class="row small">
            <span class="grow">{episode.keep ? `${number(keepFrom)} to ${number(keepTo)} s` : "All of it"}</span>
            {episode.keep && <Button small kind="quiet" icon="undo" disabled={!allowed} onClick={() => keep(0, clock.duration)}>Keep all</Button>}
          </p>
        </div>
      </div>
    </Card>
  );
}
