// What a scene is drawn from: the library's `read_geometry` and `compare_motion`, in JSON.
import type { Geometry, Shape } from "../../types";

export type SceneGeometry = Geometry;
export type SceneShape = Shape;

/** Poses over time of the bodies that move; quaternions begin with w. */
export interface SceneMotion {
  bodies: string[];
  time_s: number[];
  position: number[][][];
  quaternion: number[][][];
}

/** One robot of a scene: its geometry, how it moves, and whether it is drawn see-through over the others. */
export interface SceneRobot {
  label: string;
  geometry: SceneGeometry;
  motion?: SceneMotion | null;
  ghost?: boolean;
}
