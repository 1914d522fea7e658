// What the studio's API says about a scene: `read_geometry` and `compare_motion` of the library, in JSON.

type Three = [number, number, number];
type Four = [number, number, number, number];

export interface SceneShape {
  kind: string;
  body: number;
  size: Three;
  position: Three;
  quaternion: Four;
  rgba: Four;
  specular: number;
  shininess: number;
  mesh: number | null;
  texture: number | null;
  repeat: [number, number];
  per_metre: boolean;
}

export interface SceneCamera {
  name: string;
  body: number;
  position: Three;
  quaternion: Four;
  fovy_deg: number;
  width: number;
  height: number;
}

export interface SceneGeometry {
  twin: string;
  version: string;
  content_hash: string;
  bodies: { name: string; position: Three; quaternion: Four }[];
  shapes: SceneShape[];
  meshes: { vertices: Three[]; faces: Three[] }[];
  textures: { width: number; height: number; rgb: string }[];
  lights: { position: Three; direction: Three; diffuse: Three; directional: boolean }[];
  cameras: SceneCamera[];
  ambient: Three;
  headlight: Three;
  centre: Three;
  extent_m: number;
}

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
