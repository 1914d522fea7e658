// A twin in 3D: turned by mouse, touch or keys; several robots are drawn over each other. three.js is fetched when first needed.
import { useEffect, useRef, useState } from "preact/hooks";
import { colour, useDark } from "../theme";
import { Button } from "./Button";
import type { SceneRobot } from "./scene/types";
import type { SceneView } from "./scene/view";

export type { SceneGeometry, SceneMotion, SceneRobot } from "./scene/types";

interface Props {
  /** What the scene shows, for screen readers. */
  label: string;
  /** The robots; the first lights the scene and brings its cameras. */
  robots: readonly SceneRobot[];
  /** When, in seconds from the start of the motions. */
  time?: number;
  height?: number;
}

const KEYS = "Arrow keys turn the scene, with Shift they move it; plus and minus zoom; Home goes back.";

/** A scene of one or more robots; ghosts are see-through in the colour of simulation. */
export function Scene3D({ label, robots, time = 0, height = 420 }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const view = useRef<SceneView | null>(null);
  const [ready, setReady] = useState(false);
  const [failed, setFailed] = useState("");
  const [through, setThrough] = useState("");
  const dark = useDark();
  useEffect(() => {
    let alive = true;
    let observer: ResizeObserver | null = null;
    import("./scene/view")
      .then(({ SceneView: View }) => {
        if (!alive || !canvas.current) return;
        const made = new View(canvas.current, () => setThrough(""));
        view.current = made;
        observer = new ResizeObserver(() => made.resize());
        observer.observe(canvas.current);
        setReady(true);
      })
      .catch(() => alive && setFailed("This browser cannot draw in 3D: WebGL is not available."));
    return () => {
      alive = false;
      observer?.disconnect();
      view.current?.dispose();
      view.current = null;
    };
  }, []);
  useEffect(() => {
    view.current?.show(robots, colour("--sim"));
  }, [ready, dark, ...robots.flatMap((robot) => [robot.geometry, robot.motion, robot.ghost])]);
  useEffect(() => {
    view.current?.setTime(time);
  }, [ready, time]);
  const look = (name: string): void => {
    setThrough(name);
    view.current?.look(name);
  };
  const cameras = robots[0]?.geometry.cameras ?? [];
  if (failed) return <p class="scene-failed" role="img" aria-label={label}>{failed}</p>;
  return (
    <div class="scene">
      <canvas
        ref={canvas}
        class="scene-canvas"
        style={{ height: `${height}px` }}
        tabIndex={0}
        role="img"
        aria-label={`${label}. ${KEYS}`}
        onKeyDown={(event) => {
          if (!event.ctrlKey && !event.metaKey && !event.altKey && view.current?.key(event)) event.preventDefault();
        }}
      />
      <div class="scene-tools">
        {cameras.length > 0 && (
          <label class="scene-camera">
            <span>View</span>
            <select value={through} onChange={(event) => look(event.currentTarget.value)}>
              <option value="">free</option>
              {cameras.map((one) => <option key={one.name} value={one.name}>{one.name}</option>)}
            </select>
          </label>
        )}
        <Button small kind="quiet" icon="refresh" aria-label="Reset the view" onClick={() => view.current?.reset()} />
      </div>
      {robots.length > 1 && (
        <ul class="scene-legend" aria-label="Robots in the scene">
          {robots.map((robot) => <li key={robot.label} class={robot.ghost ? "scene-ghost" : "scene-solid"}>{robot.label}</li>)}
        </ul>
      )}
    </div>
  );
}
