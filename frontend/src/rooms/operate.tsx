// The page of whoever stands beside the robot: what comes next, the live camera with the wanted scene over it, and the stop.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError, get, post } from "../api";
import { plural } from "../format";
import { Link } from "../router";
import type { Operation, TrialState } from "../types";
import { Button, Empty, Icon, Page, toast } from "../ui";

type Kind = TrialState["allowed"][number];
interface Said { failure?: string; phase?: string; severity?: string; note?: string }

const STAGES: Record<string, string> = { waiting: "Please wait", placing: "Place the scene", running: "The robot moves", judging: "Did it succeed?", stopped: "The robot is stopped", paused: "Paused", ended: "Done" };
const KEYS: Record<string, Kind> = { Enter: "start", " ": "stop", x: "stop", s: "success", f: "failure", r: "redo", k: "skip", p: "pause", n: "note", q: "leave" };
const DRIVE: Record<string, readonly [number, number]> = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [1, 1], ArrowRight: [1, -1], PageUp: [2, 1], PageDown: [2, -1], "[": [3, 1], "]": [3, -1] };
const MOST_CM = 100;
const DEAD_MAN = [4, 5];
const STICK_REST = 0.12;

const minutes = (seconds: number): string => (seconds < 90 ? "about a minute" : `about ${Math.round(seconds / 60)} minutes`);
const typing = (target: EventTarget | null): boolean => target instanceof HTMLElement && ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);

/** What the server says of the session, by server-sent events; `null` before the first, and whether it is there. */
function useOperation(): { now: Operation | null; connected: boolean; missing: string } {
  const [now, setNow] = useState<Operation | null>(null);
  const [connected, setConnected] = useState(true);
  const [missing, setMissing] = useState("");
  useEffect(() => {
    let source: EventSource | null = null;
    let timer = 0;
    const open = (): void => {
      const made = new EventSource("/api/operate/events");
      source = made;
      made.onopen = () => setConnected(true);
      made.onmessage = (message: MessageEvent<string>) => {
        setConnected(true);
        setNow(JSON.parse(message.data) as Operation);
      };
      made.onerror = () => {
        setConnected(false);
        if (made.readyState !== EventSource.CLOSED) return; // else the browser tries again by itself
        const refused = (error: unknown): void => {
          if (error instanceof ApiError && error.status === 404) setMissing(error.shape.what);
          else timer = window.setTimeout(open, 1000);
        };
        get<Operation>("/api/operate").then(() => { timer = window.setTimeout(open, 200); }, refused);
      };
    };
    open();
    return () => {
      clearTimeout(timer);
      source?.close();
    };
  }, []);
  return { now, connected, missing };
}

/** The live image: the next one is asked for when the last one is there. */
function Live({ camera, ghost, fade }: { camera: string; ghost: string | null; fade: number }) {
  const image = useRef<HTMLImageElement>(null);
  useEffect(() => {
    let over = false;
    let timer = 0;
    const next = (wait: number): void => {
      timer = window.setTimeout(() => {
        if (!over && image.current) image.current.src = `/api/operate/camera/${encodeURIComponent(camera)}?at=${Date.now()}`;
      }, wait);
    };
    const shown = image.current;
    const loaded = (): void => next(120);
    const failed = (): void => next(1500);
    shown?.addEventListener("load", loaded);
    shown?.addEventListener("error", failed);
    next(0);
    return () => {
      over = true;
      clearTimeout(timer);
      shown?.removeEventListener("load", loaded);
      shown?.removeEventListener("error", failed);
    };
  }, [camera]);
  return (
    <div class="operate-live">
      <img ref={image} alt={`Live image of camera ${camera}`} />
      {ghost && <img class="operate-ghost" src={ghost} alt="" style={{ opacity: String(fade) }} />}
    </div>
  );
}

function TopView({ now }: { now: Operation }) {
  const places = Object.entries(now.places) as [string, readonly [number, number]][];
  if (places.length === 0) return null;
  const cm = (metres: number): number => 100 * metres;
  const xs = [0, ...places.map(([, [x]]) => cm(x))];
  const ys = [0, ...places.map(([, [, y]]) => cm(y))];
  const left = Math.min(Math.max(...ys) + 12, MOST_CM);
  const right = Math.max(Math.min(...ys) - 12, -MOST_CM);
  const top = Math.max(...xs) + 11;
  const bottom = Math.min(...xs) - 6;
  const at = (x: number, y: number): { x: number; y: number } => ({ x: left - cm(y), y: top - cm(x) });
  const base = at(0, 0);
  const yaw = now.trial.values?.object_yaw_rad ?? 0;
  return (
    <svg class="operate-top" viewBox={`0 0 ${left - right} ${top - bottom}`} role="img" aria-label={`From above. ${now.trial.instruction}`}>
      <circle class="operate-base" cx={base.x} cy={base.y} r={3} />
      <text x={base.x + 5} y={base.y + 1}>robot</text>
      {places.map(([name, [x, y]]) => {
        const here = at(x, y);
        const side = y >= 0 ? 1 : -1;
        return (
          <g key={name} class={`operate-${name}`}>
            <line x1={here.x} y1={base.y} x2={here.x} y2={here.y} />
            <line x1={base.x} y1={here.y} x2={here.x} y2={here.y} />
            {name === "object" ? <rect x={here.x - 2} y={here.y - 2} width={4} height={4} transform={`rotate(${(-180 * yaw) / Math.PI} ${here.x} ${here.y})`} /> : <circle cx={here.x} cy={here.y} r={4} />}
            <text x={here.x} y={here.y - 5} text-anchor="middle">{name}</text>
            <text x={here.x - 1.5 * side} y={(here.y + base.y) / 2} text-anchor={side > 0 ? "end" : "start"}>{cm(x).toFixed(1)}</text>
            <text x={(here.x + base.x) / 2} y={here.y + 3.4} text-anchor="middle">{Math.abs(cm(y)).toFixed(1)}</text>
          </g>
        );
      })}
    </svg>
  );
}

function RobotLimits({ now }: { now: Operation }) {
  const robot = now.robot;
  if (!robot) return <p class="soft">No robot is connected yet.</p>;
  const old = robot.age_s === null || robot.age_s > 2;
  return (
    <details class="operate-robot">
      <summary>
        <Icon name={old ? "alert" : "check"} /> {robot.standin ? "Stand-in" : "Robot"} {robot.serial}
        <span class="soft">{robot.age_s === null ? "no reading yet" : old ? `silent for ${robot.age_s.toFixed(0)} s` : `${robot.rate_hz} Hz`}</span>
      </summary>
      <ul>
        {robot.joints.map((one) => {
          const known = one.value !== null && one.low !== null && one.high !== null && one.high > one.low;
          const place = known ? (100 * ((one.value as number) - (one.low as number))) / ((one.high as number) - (one.low as number)) : 50;
          const near = known && (place < 3 || place > 97);
          return (
            <li key={one.name} class={near ? "operate-near" : undefined}>
              <span>{one.name}</span>
              <i class="operate-range"><b style={{ left: `${Math.min(Math.max(place, 0), 100)}%` }} /></i>
              <span class="mono">{one.value === null ? "–" : one.value.toFixed(2)} {one.unit}</span>
            </li>
          );
        })}
      </ul>
    </details>
  );
}

function Describe({ now, onSay }: { now: Operation; onSay: (said: Said) => void }) {
  const [said, setSaid] = useState<Said>({});
  const [other, setOther] = useState("");
  const failure = other.trim() || said.failure;
  const pick = (field: keyof Said, values: readonly string[], title: string) => (
    <fieldset class="operate-picks">
      <legend>{title}</legend>
      {values.map((value) => (
        <button key={value} type="button" aria-pressed={said[field] === value} onClick={() => { setSaid({ ...said, [field]: said[field] === value ? undefined : value }); if (field === "failure") setOther(""); }}>
          {value.replaceAll("_", " ")}
        </button>
      ))}
    </fieldset>
  );
  return (
    <form class="operate-describe" onSubmit={(event) => { event.preventDefault(); if (failure) onSay({ ...said, failure }); }}>
      {pick("failure", now.trial.failures, "What went wrong?")}
      <label class="field"><span>Something else</span><input value={other} maxLength={200} onInput={(event) => setOther(event.currentTarget.value)} /></label>
      {now.trial.phases.length > 0 && pick("phase", now.trial.phases, "When?")}
      {pick("severity", now.severities, "How bad?")}
      <label class="field"><span>Note</span><input value={said.note ?? ""} maxLength={1000} onInput={(event) => setSaid({ ...said, note: event.currentTarget.value || undefined })} /></label>
      <Button kind="primary" type="submit" disabled={!failure} class="operate-wide">Save the failure</Button>
    </form>
  );
}

/** What a person found who looked at the robot; nothing else lets it move again. */
function Found({ now, onSay }: { now: Operation; onSay: (found: string) => void }) {
  const [picked, setPicked] = useState("");
  const [other, setOther] = useState("");
  const found = other.trim() || picked;
  return (
    <form class="operate-describe" onSubmit={(event) => { event.preventDefault(); if (found) onSay(found); }}>
      <fieldset class="operate-picks">
        <legend>Look at the robot. What did you find?</legend>
        {now.findings.map((value) => (
          <button key={value} type="button" aria-pressed={!other && picked === value} onClick={() => { setPicked(value); setOther(""); }}>{value}</button>
        ))}
      </fieldset>
      <label class="field"><span>Something else</span><input value={other} maxLength={1000} onInput={(event) => setOther(event.currentTarget.value)} /></label>
      <Button kind="primary" type="submit" disabled={!found} class="operate-wide">Let the robot move again</Button>
    </form>
  );
}

/** A gamepad with the standard mapping: its sticks count only while one of the shoulder buttons is held. */
function readGamepad(): { motion: number[]; closes: boolean; stops: boolean; held: boolean } | null {
  const pad = navigator.getGamepads?.().find((one) => one?.connected && one.mapping === "standard");
  if (!pad) return null;
  const pressed = (button: number): boolean => pad.buttons[button]?.pressed ?? false;
  const axis = (number: number): number => {
    const value = pad.axes[number] ?? 0;
    return Math.abs(value) < STICK_REST ? 0 : -Math.sign(value) * Math.min(1, (Math.abs(value) - STICK_REST) / (1 - STICK_REST));
  };
  const held = DEAD_MAN.some(pressed);
  return { motion: held ? [axis(1), axis(0), axis(3), axis(2)] : [0, 0, 0, 0], closes: pressed(0), stops: pressed(1), held };
}

/** Keys, buttons of the page and a gamepad drive the arm while they are held: sent twenty times a second, and at once on release. */
function useDriving(active: boolean, stop: () => void): { closed: boolean; setClosed: (closed: boolean) => void; hold: (key: string, down: boolean) => void; gamepad: boolean | null } {
  const held = useRef(new Set<string>());
  const [closed, setClosed] = useState(false);
  const [gamepad, setGamepad] = useState<boolean | null>(null);
  const send = useRef(() => undefined as void);
  const gripper = useRef(closed);
  gripper.current = closed;
  const hold = useCallback((key: string, down: boolean) => {
    if (down) held.current.add(key);
    else if (held.current.delete(key)) send.current();
  }, []);
  useEffect(() => {
    if (!active) return;
    const down = (event: KeyboardEvent): void => {
      if (typing(event.target)) return;
      if (event.key in DRIVE) { event.preventDefault(); hold(event.key, true); }
      if (event.key === "g" && !event.repeat) setClosed(!gripper.current);
    };
    const up = (event: KeyboardEvent): void => hold(event.key, false);
    const release = (): void => { held.current.clear(); send.current(); };
    const before = { closes: false, stops: false, held: false };
    send.current = () => {
      const pad = readGamepad();
      const motion = pad?.motion ?? [0, 0, 0, 0];
      for (const key of held.current) {
        const [axis, sign] = DRIVE[key] as readonly [number, number];
        motion[axis] = sign;
      }
      setGamepad(pad && pad.held);
      if (pad?.stops && !before.stops) stop();
      if (pad?.closes && !before.closes) { gripper.current = !gripper.current; setClosed(gripper.current); }
      if (pad) Object.assign(before, pad);
      void post("/api/operate/drive", { motion, closed: gripper.current }).catch(() => undefined);
    };
    const timer = window.setInterval(() => send.current(), 50);
    window.addEventListener("keydown", down);
    window.addEventListener("keyup", up);
    window.addEventListener("blur", release);
    return () => {
      clearInterval(timer);
      held.current.clear();
      send.current = () => undefined;
      window.removeEventListener("keydown", down);
      window.removeEventListener("keyup", up);
      window.removeEventListener("blur", release);
    };
  }, [active, hold, stop]);
  return { closed, setClosed, hold, gamepad };
}

function Pad({ drive }: { drive: ReturnType<typeof useDriving> }) {
  const names: Record<string, string> = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", PageUp: "up", PageDown: "down", "[": "⟲", "]": "⟳" };
  const say: Record<string, string> = { ArrowUp: "ahead", ArrowDown: "back", ArrowLeft: "left", ArrowRight: "right", PageUp: "up", PageDown: "down", "[": "turn left", "]": "turn right" };
  return (
    <div class="operate-pad" role="group" aria-label="Drive the arm">
      {Object.keys(DRIVE).map((key) => (
        <button key={key} type="button" aria-label={say[key]} title={`${say[key]} (${key})`} onPointerDown={() => drive.hold(key, true)} onPointerUp={() => drive.hold(key, false)} onPointerCancel={() => drive.hold(key, false)} onPointerLeave={() => drive.hold(key, false)}>{names[key]}</button>
      ))}
      {drive.gamepad !== null && <p class="operate-gamepad" role="status">{drive.gamepad ? "The gamepad drives" : "Gamepad: hold a shoulder button to drive; A is the gripper, B stops"}</p>}
      <button type="button" aria-pressed={drive.closed} onClick={() => drive.setClosed(!drive.closed)}>{drive.closed ? "Open the gripper" : "Close the gripper"} (g)</button>
    </div>
  );
}

export default function Operate() {
  const { now, connected, missing } = useOperation();
  const [camera, setCamera] = useState("");
  const [fade, setFade] = useState(0.5);
  const [note, setNote] = useState<string | null>(null);
  const trial = now?.trial;
  const allowed = trial?.allowed;
  const describing = trial?.describing ?? false;
  const act = useCallback(async (kind: Kind, said: Said = {}) => {
    try {
      await post("/api/operate/press", { kind, ...said });
    } catch (error) {
      toast(error instanceof ApiError ? error.shape.what : String(error), { tone: "bad" });
    }
  }, []);
  const can = (kind: Kind): boolean => allowed?.includes(kind) ?? false;
  const moves = trial?.stage === "running";
  useEffect(() => { if (moves) setNote(null); }, [moves]); // the keyboard is for the stop now
  useEffect(() => {
    const key = (event: KeyboardEvent): void => {
      const kind = KEYS[event.key];
      const pressed = event.target instanceof HTMLElement && event.target.tagName === "BUTTON" && event.key === "Enter";
      if (!kind || typing(event.target) || pressed || event.repeat || event.ctrlKey || event.metaKey) return;
      const wanted = kind === "start" && allowed?.includes("resume") ? "resume" : kind;
      if (!allowed?.includes(wanted) || (describing && wanted === "success")) return;
      event.preventDefault();
      if (wanted === "note") setNote(moves ? null : "");
      else void act(wanted);
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, [allowed, describing, act, moves]);
  const robot = now?.robot ?? null;
  const stop = useCallback(() => void act("stop"), [act]);
  const drive = useDriving(Boolean(robot?.drives) && moves, stop);
  if (missing) {
    return (
      <Page title="Operate">
        <Empty icon="info" title="No robot is connected to this studio">
          <span class="mono">twinloop operate --robot ADDRESS -- gate CANDIDATE</span> serves this page beside a robot.
        </Empty>
      </Page>
    );
  }
  if (!now || !trial) return <Page title="Operate"><p class="soft">Connecting …</p></Page>;
  const seen = camera || robot?.cameras[0] || "";
  const ghost = trial.stage === "placing" && robot?.ghosts.includes(seen) ? `/api/operate/ghost/${encodeURIComponent(seen)}?scene=${trial.trial?.scene}` : null;
  const left = trial.trial ? Math.max(trial.trial.total - trial.done, 0) : 0;
  return (
    <div class="operate" data-stage={trial.describing ? "describing" : trial.stage}>
      <header class="operate-head">
        <Link href="/overview" class="operate-back" aria-label="To the studio"><Icon name="overview" /></Link>
        <div>
          <h1 aria-live="polite">{describing ? "What went wrong?" : STAGES[trial.stage]}</h1>
          <p>{trial.trial ? `Trial ${Math.min(trial.done + 1, trial.trial.total)} of ${trial.trial.total}` : "No trial yet"}{trial.void > 0 && ` · ${trial.void} void`}{left > 0 && trial.stage !== "ended" && ` · ${plural(left, "trial")} left, ${minutes(trial.seconds_left)}`}</p>
        </div>
      </header>
      {!connected && trial.stage !== "ended" && <p class="operate-offline" role="alert"><Icon name="alert" /> The page has lost the robot's computer and tries again. Use the emergency stop if you need one.</p>}
      {trial.message && <p class="operate-message" role="status">{trial.message}</p>}
      <div class="operate-body">
        {seen && trial.stage !== "ended" && robot && (
          <section class="operate-camera">
            <Live camera={seen} ghost={ghost} fade={fade} />
            <div class="row">
              {robot.cameras.length > 1 && robot.cameras.map((name) => <Button key={name} small kind={name === seen ? "primary" : "plain"} aria-pressed={name === seen} onClick={() => setCamera(name)}>{name}</Button>)}
              {ghost && <label class="operate-fade"><span>wanted</span><input type="range" min={0} max={1} step={0.05} value={fade} aria-label="How much of the wanted scene shows" onInput={(event) => setFade(Number(event.currentTarget.value))} /></label>}
            </div>
          </section>
        )}
        <section class="operate-told">
          {trial.describing ? <Describe now={now} onSay={(said) => void act("failure", said)} /> : trial.stage === "stopped" ? <Found now={now} onSay={(found) => void act("reset", { note: found })} /> : (
            <>
              {trial.instruction && trial.stage !== "ended" && <p class={moves && robot?.drives ? "operate-instruction operate-placed" : "operate-instruction"}>{trial.instruction}</p>}
              {trial.stage === "placing" && <TopView now={now} />}
              {trial.stage === "running" && robot?.drives && <Pad drive={drive} />}
              <RobotLimits now={now} />
            </>
          )}
        </section>
      </div>
      <footer class="operate-foot">
        {note !== null && can("note") && (
          <form class="row operate-note" onKeyDown={(event) => { if (event.key === "Escape") setNote(null); }} onSubmit={(event) => { event.preventDefault(); if (note.trim()) void act("note", { note: note.trim() }); setNote(null); }}>
            <input value={note} aria-label="Note" placeholder="Note" maxLength={1000} ref={(place) => place?.focus()} onInput={(event) => setNote(event.currentTarget.value)} />
            <Button type="submit" kind="primary">Keep</Button>
            <Button icon="close" aria-label="No note" onClick={() => setNote(null)} />
          </form>
        )}
        <div class="operate-main">
          {can("start") && <Button kind="primary" icon="play" hotkey="Enter" onClick={() => void act("start")}>Start</Button>}
          {can("resume") && <Button kind="primary" icon="play" hotkey="Enter" onClick={() => void act("resume")}>Go on</Button>}
          {!trial.describing && can("success") && <Button class="operate-good" icon="check" hotkey="s" onClick={() => void act("success")}>Success</Button>}
          {!trial.describing && can("failure") && <Button class="operate-bad" icon="close" hotkey="f" onClick={() => void act("failure")}>Failure</Button>}
        </div>
        <div class="operate-small">
          {can("redo") && <Button hotkey="r" onClick={() => void act("redo")}>Again</Button>}
          {can("skip") && <Button hotkey="k" onClick={() => void act("skip")}>Skip</Button>}
          {can("pause") && <Button hotkey="p" onClick={() => void act("pause")}>Pause</Button>}
          {can("note") && !moves && <Button hotkey="n" onClick={() => setNote("")}>Note</Button>}
          {can("leave") && <Button hotkey="q" onClick={() => void act("leave")}>Leave</Button>}
        </div>
        <button type="button" class="operate-stop" disabled={!can("stop")} onPointerDown={() => void act("stop")} onClick={(event) => { if (event.detail === 0) void act("stop"); }}>Stop <kbd>space</kbd></button>
      </footer>
    </div>
  );
}
