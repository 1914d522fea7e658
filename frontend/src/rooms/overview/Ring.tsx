// The loop as a ring: every stage with its state, a link to its room, and the one that comes next.
import { ago, duration } from "../../format";
import { stageTitle } from "../../names";
import { go } from "../../router";
import type { LoopStatus, StageRun } from "../../types";
import { Icon, type IconName } from "../../ui";

interface Station {
  title: string;
  href: string;
  icon: IconName;
  stages: readonly string[];
}

const STATIONS: readonly Station[] = [
  { title: "Generate", href: "/data", icon: "data", stages: ["generate", "regenerate"] },
  { title: "Train", href: "/policies", icon: "policies", stages: ["train", "retrain", "finetune"] },
  { title: "Evaluate", href: "/policies", icon: "play", stages: ["evaluate-sim", "evaluate", "reevaluate"] },
  { title: "Identify", href: "/identify", icon: "identify", stages: ["excite", "identify"] },
  { title: "Gap", href: "/gap", icon: "gap", stages: ["gap", "diagnose"] },
  { title: "Coverage", href: "/coverage", icon: "coverage", stages: ["coverage"] },
  { title: "Plan", href: "/plan", icon: "plan", stages: ["plan", "demonstrate", "demonstrate-more", "select"] },
  { title: "Twin", href: "/twin", icon: "twin", stages: ["anchor"] },
  { title: "Gate", href: "/gate", icon: "gate", stages: ["gate-first", "gate", "promote"] },
  { title: "Monitor", href: "/monitor", icon: "monitor", stages: ["monitor"] },
];

const SIZE = { width: 480, height: 400 };
const CENTRE = { x: 240, y: 200 };
const RADIUS = 146;
const NODE = 22;

type State = "done" | "next" | "open";

const angleOf = (index: number): number => (2 * Math.PI * index) / STATIONS.length - Math.PI / 2;
const pointAt = (angle: number, radius: number) => ({ x: CENTRE.x + radius * Math.cos(angle), y: CENTRE.y + radius * Math.sin(angle) });

function arc(from: number, to: number): string {
  const a = pointAt(from, RADIUS);
  const b = pointAt(to, RADIUS);
  return `M${a.x.toFixed(1)} ${a.y.toFixed(1)}A${RADIUS} ${RADIUS} 0 0 1 ${b.x.toFixed(1)} ${b.y.toFixed(1)}`;
}

function stateOf(station: Station, loop: LoopStatus): State {
  if (loop.next_stage && station.stages.includes(loop.next_stage)) return "next";
  return station.stages.some((stage) => loop.done.includes(stage)) ? "done" : "open";
}

function describe(station: Station, state: State, runs: readonly StageRun[]): string {
  const own = runs.filter((run) => station.stages.includes(run.stage));
  const words = own.map((run) => `${stageTitle(run.stage)}, ${duration(run.seconds)}, ${ago(run.finished_at)}`);
  return [`${station.title}: ${{ done: "done", next: "next", open: "not yet" }[state]}`, ...words].join("\n");
}

function Link({ index, count }: { index: number; count: boolean }) {
  const gap = (NODE + 7) / RADIUS;
  const from = angleOf(index) + gap;
  const to = angleOf(index + 1) - gap;
  const tip = pointAt(to, RADIUS);
  const turn = (to * 180) / Math.PI + 90;
  return (
    <g class={count ? "ring-link ring-link-done" : "ring-link"}>
      <path d={arc(from, to)} />
      <path class="ring-tip" d="M-5 -4 0 0 -5 4" transform={`translate(${tip.x.toFixed(1)} ${tip.y.toFixed(1)}) rotate(${turn.toFixed(1)})`} />
    </g>
  );
}

function Node({ station, index, state, runs }: { station: Station; index: number; state: State; runs: readonly StageRun[] }) {
  const angle = angleOf(index);
  const { x, y } = pointAt(angle, RADIUS);
  const side = Math.cos(angle);
  const anchor = side > 0.25 ? "start" : side < -0.25 ? "end" : "middle";
  const away = anchor === "middle" ? { dx: 0, dy: Math.sin(angle) < 0 ? -NODE - 18 : NODE + 17 } : { dx: Math.sign(side) * (NODE + 9), dy: -2 };
  const last = runs.filter((run) => station.stages.includes(run.stage)).pop();
  const below = state === "next" ? "next" : last ? ago(last.finished_at) : "–";
  const text = describe(station, state, runs);
  const open = (event: Event): void => {
    event.preventDefault();
    go(station.href);
  };
  return (
    <a href={station.href} class={`ring-node ring-${state}`} aria-label={text} onClick={open}>
      <title>{text}</title>
      {state === "next" && <circle class="ring-halo" cx={x} cy={y} r={NODE + 5} />}
      <circle class="ring-disc" cx={x} cy={y} r={NODE} />
      <g transform={`translate(${x - 9} ${y - 9})`}><Icon name={station.icon} size={18} /></g>
      <text x={x + away.dx} y={y + away.dy} text-anchor={anchor} class="ring-title">{station.title}</text>
      <text x={x + away.dx} y={y + away.dy + 14} text-anchor={anchor} class="ring-when">{below}</text>
    </a>
  );
}

/** The loop's stages in a ring; the middle says how far it is. */
export function Ring({ loop, runs, champion }: { loop: LoopStatus | null; runs: readonly StageRun[]; champion: string | null }) {
  const status = loop ?? { done: [], next_stage: null, next_step: "", reason: "" };
  const states = STATIONS.map((station) => stateOf(station, status));
  const done = states.filter((state) => state === "done").length;
  const seconds = runs.reduce((sum, run) => sum + run.seconds, 0);
  return (
    <svg class="ring" viewBox={`0 -6 ${SIZE.width} ${SIZE.height + 14}`} role="group" aria-label={`The loop: ${done} of ${STATIONS.length} stages done`}>
      {STATIONS.map((station, i) => <Link key={station.title} index={i} count={states[i] === "done" && states[(i + 1) % STATIONS.length] !== "open"} />)}
      <g class="ring-middle">
        <text x={CENTRE.x} y={CENTRE.y - 22} text-anchor="middle" class="ring-when">{champion ? "Champion" : "The loop"}</text>
        <text x={CENTRE.x} y={CENTRE.y + 4} text-anchor="middle" class="ring-big">{champion ?? `${done} of ${STATIONS.length}`}</text>
        <text x={CENTRE.x} y={CENTRE.y + 26} text-anchor="middle" class="ring-when">
          {runs.length > 0 ? `${runs.length} stages, ${duration(seconds)}` : "not started"}
        </text>
      </g>
      {STATIONS.map((station, i) => <Node key={station.title} station={station} index={i} state={states[i] ?? "open"} runs={runs} />)}
    </svg>
  );
}
