// The time that everything on the page shows: one value, moved by the transport, charts and keys; only what shows it draws again.
import { useEffect, useMemo, useState } from "preact/hooks";

export interface Clock {
  readonly duration: number;
  time: () => number;
  set: (time: number) => void;
  playing: () => boolean;
  play: (on: boolean) => void;
  speed: () => number;
  setSpeed: (speed: number) => void;
  listen: (listener: () => void) => () => void;
  stop: () => void;
}

/** A clock from 0 to `duration` seconds. */
export function makeClock(duration: number): Clock {
  const listeners = new Set<() => void>();
  let now = 0;
  let running = false;
  let rate = 1;
  let frame = 0;
  let last = 0;
  const tell = (): void => listeners.forEach((listener) => listener());
  const set = (time: number): void => {
    const next = Math.min(duration, Math.max(0, time));
    if (next === now) return;
    now = next;
    tell();
  };
  const tick = (stamp: number): void => {
    const step = (stamp - last) / 1000;
    last = stamp;
    if (now + step * rate >= duration) running = false;
    set(now + step * rate);
    if (running) frame = window.requestAnimationFrame(tick);
    else tell();
  };
  const play = (on: boolean): void => {
    if (on === running) return;
    running = on;
    if (on) {
      if (now >= duration) now = 0;
      last = performance.now();
      frame = window.requestAnimationFrame(tick);
    } else window.cancelAnimationFrame(frame);
    tell();
  };
  return {
    duration,
    time: () => now,
    set,
    playing: () => running,
    play,
    speed: () => rate,
    setSpeed: (value) => {
      rate = value;
      tell();
    },
    listen: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    stop: () => {
      window.cancelAnimationFrame(frame);
      running = false;
    },
  };
}

/** A clock for a page; it stops with the page. */
export function useClock(duration: number): Clock {
  const clock = useMemo(() => makeClock(duration), [duration]);
  useEffect(() => clock.stop, [clock]);
  return clock;
}

/** Draw again when the clock moves; returns its time. */
export function useTime(clock: Clock): number {
  const [, redraw] = useState(0);
  useEffect(() => {
    const stop = clock.listen(() => redraw((n) => n + 1));
    redraw((n) => n + 1);
    return () => {
      stop();
    };
  }, [clock]);
  return clock.time();
}
