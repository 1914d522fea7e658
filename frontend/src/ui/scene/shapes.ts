// Shapes of a twin as three.js geometries and materials.
import * as THREE from "three";
import type { SceneGeometry, SceneShape } from "./types";

const ENDLESS_M = 6;
const AROUND = 28;

function meshGeometry(mesh: SceneGeometry["meshes"][number]): THREE.BufferGeometry {
  const made = new THREE.BufferGeometry();
  made.setAttribute("position", new THREE.Float32BufferAttribute(mesh.vertices.flat(), 3));
  made.setIndex(mesh.faces.flat());
  const flat = made.toNonIndexed();
  made.dispose();
  flat.computeVertexNormals();
  return flat;
}

/** A shape in MuJoCo's sense: sizes are half lengths, and what is round turns about z. */
export function geometryOf(shape: SceneShape, scene: SceneGeometry): THREE.BufferGeometry | null {
  const [x, y, z] = shape.size;
  if (shape.kind === "plane") return new THREE.PlaneGeometry(2 * (x || ENDLESS_M), 2 * (y || ENDLESS_M));
  if (shape.kind === "box") return new THREE.BoxGeometry(2 * x, 2 * y, 2 * z);
  if (shape.kind === "sphere") return new THREE.SphereGeometry(x, AROUND, AROUND / 2);
  if (shape.kind === "ellipsoid") return new THREE.SphereGeometry(1, AROUND, AROUND / 2).scale(x, y, z);
  if (shape.kind === "cylinder") return new THREE.CylinderGeometry(x, x, 2 * y, AROUND).rotateX(Math.PI / 2);
  if (shape.kind === "capsule") return new THREE.CapsuleGeometry(x, 2 * y, 8, AROUND).rotateX(Math.PI / 2);
  const mesh = scene.meshes[shape.mesh ?? -1];
  return mesh ? meshGeometry(mesh) : null;
}

/** A texture without an image element: the page's policy lets images come from the server only. */
export function textureOf(texture: SceneGeometry["textures"][number]): THREE.DataTexture {
  const bytes = window.atob(texture.rgb);
  const rgba = new Uint8Array(texture.width * texture.height * 4);
  for (let pixel = 0; pixel < texture.width * texture.height; pixel += 1) {
    for (let channel = 0; channel < 3; channel += 1) rgba[4 * pixel + channel] = bytes.charCodeAt(3 * pixel + channel);
    rgba[4 * pixel + 3] = 255;
  }
  const made = new THREE.DataTexture(rgba, texture.width, texture.height, THREE.RGBAFormat);
  made.wrapS = made.wrapT = THREE.RepeatWrapping;
  made.magFilter = THREE.LinearFilter;
  made.minFilter = THREE.LinearMipmapLinearFilter;
  made.generateMipmaps = true;
  made.needsUpdate = true;
  return made;
}

/** The surface of a shape; a ghost is see-through and leans towards `tint`. */
export function materialOf(shape: SceneShape, textures: readonly THREE.DataTexture[], tint: THREE.Color | null): THREE.MeshPhongMaterial {
  const [r, g, b, a] = shape.rgba;
  const base = new THREE.Color(r, g, b);
  const image = textures[shape.texture ?? -1];
  const made = new THREE.MeshPhongMaterial({
    color: tint ? base.lerp(tint, 0.7) : base,
    specular: new THREE.Color().setScalar(0.35 * (shape.specular ?? 0)),
    shininess: 1 + 100 * (shape.shininess ?? 0),
    side: shape.kind === "plane" || shape.kind === "mesh" ? THREE.DoubleSide : THREE.FrontSide,
    transparent: tint !== null || a < 1,
    opacity: tint ? 0.42 : a,
    depthWrite: tint === null && a >= 1,
  });
  if (image && !tint) {
    const map = image.clone();
    const [u, v] = shape.repeat ?? [1, 1];
    if (shape.per_metre) map.repeat.set(u * 2 * (shape.size[0] || ENDLESS_M), v * 2 * (shape.size[1] || ENDLESS_M));
    else map.repeat.set(u, v);
    map.needsUpdate = true;
    made.map = map;
  }
  return made;
}
