// The time line: play, step, speed, and a track with events, phases and the part that is kept.
import { useRef } from "preact/hooks";
import { number } from "../../format";
import type { EpisodeAnswer } from "../../types";
import { Button, Segmented } from "../../ui";
import { useTime, type Clock } from "./clock";

export const SPEEDS = ["0.25", "0.5", "1", "2", "4"] as const;

export interface Window {
  from: number;
  to: number;
}

interface Props {
  episode: EpisodeAnswer;
  clock: Clock;
  view: Window;
  onView: (view: Window) => void;
}

const phaseTone = (index: number): string => `phase phase-${(index % 6) + 1}`;

/** The window of half or twice the length around a time. */
export function zoomed(view: Window, around: number, factor: number, duration: number): Window {
  const length = Math.min(duration, Math.max(0.2, (view.to - view.from) * factor));
  const from = Math.min(duration - length, Math.max(0, around - length / 2));
  return { from, to: from + length };
}

function Track({ episode, clock, view }: Omit<Props, "onView">) {
  const bar = useRef<HTMLDivElement>(null);
  const time = useTime(clock);
  const at = (seconds: number): string => `${(100 * seconds) / Math.max(1e-9, clock.duration)}%`;
  const scrub = (event: PointerEvent): void => {
    const box = bar.current?.getBoundingClientRect();
    if (!box || event.buttons !== 1) return;
    if (event.type === "pointerdown") bar.current?.setPointerCapture(event.pointerId);
    clock.play(false);
    clock.set((clock.duration * (event.clientX - box.left)) / box.width);
  };
  const zoomedIn = view.to - view.from < clock.duration - 1e-6;
  return (
    <div class="track" ref={bar} role="slider" tabIndex={0} aria-label="Time" aria-valuemin={0} aria-valuemax={clock.duration} aria-valuenow={time} aria-valuetext={`${number(time, 4)} of ${number(clock.duration, 4)} seconds`} onPointerDown={scrub} onPointerMove={scrub}>
      <div class="track-rail" />
      {episode.keep && <div class="track-keep" style={{ left: at(episode.keep[0] ?? 0), width: at((episode.keep[1] ?? 0) - (episode.keep[0] ?? 0)) }} title="The part that is kept" />}
      {zoomedIn && <div class="track-view" style={{ left: at(view.from), width: at(view.to - view.from) }} />}
      {episode.phases.map((phase, i) => (
        <div key={`${phase.name}${phase.start_s}`} class={phaseTone(i)} style={{ left: at(phase.start_s), width: at(phase.end_s - phase.start_s) }} title={`${phase.name}, ${number(phase.start_s)} to ${number(phase.end_s)} s`}>{phase.name}</div>
      ))}
      {episode.events.map((event, i) => <button key={i} type="button" class="track-event" tabIndex={-1} style={{ left: at(event.time_s) }} title={`${event.kind} ${event.detail}, ${number(event.time_s)} s`} aria-label={`${event.kind} at ${number(event.time_s)} s`} onClick={() => clock.set(event.time_s)} />)}
      <div class="track-head" style={{ left: at(time) }} />
    </div>
  );
}

/** Buttons and the track. */
export function Transport({ episode, clock, view, onView }: Props) {
  const time = useTime(clock);
  const row = Math.min(episode.rows - 1, Math.round(time * episode.rate_hz));
  const step = (rows: number): void => {
    clock.play(false);
    clock.set(time + rows / episode.rate_hz);
  };
  const zoomedIn = view.to - view.from < clock.duration - 1e-6;
  return (
    <section class="card transport" aria-label="Time line">
      <div class="transport-bar">
        <Button small kind="quiet" icon="stepBack" aria-label="One step back (Left)" onClick={() => step(-1)} />
        <Button small kind="primary" icon={clock.playing() ? "pause" : "play"} aria-label={clock.playing() ? "Pause (Space)" : "Play (Space)"} onClick={() => clock.play(!clock.playing())} />
        <Button small kind="quiet" icon="stepForward" aria-label="One step forward (Right)" onClick={() => step(1)} />
        <output class="transport-time"><strong>{time.toFixed(2)}</strong> / {clock.duration.toFixed(2)} s</output>
        <span class="soft transport-row">row {row} of {episode.rows}</span>
        <span class="grow" />
        <Segmented label="Speed" value={String(clock.speed())} onValue={(value) => clock.setSpeed(Number(value))} options={SPEEDS.map((value) => ({ value, label: `${value.replace(/^0/, "")}×` }))} />
        <Button small kind="quiet" icon="minus" aria-label="Show more time (-)" disabled={!zoomedIn} onClick={() => onView(zoomed(view, time, 2, clock.duration))} />
        <Button small kind="quiet" icon="plus" aria-label="Show less time (+)" onClick={() => onView(zoomed(view, time, 0.5, clock.duration))} />
      </div>
      <Track episode={episode} clock={clock} view={view} />
    </section>
  );
}
