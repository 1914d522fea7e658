// Draws robots with three.js: on demand, in MuJoCo's colours, and freed when it goes.
import * as THREE from "three";
import { OrbitControls } from "three/examples/jsm/controls/OrbitControls.js";
import { geometryOf, materialOf, textureOf } from "./shapes";
import type { SceneGeometry, SceneMotion, SceneRobot } from "./types";

// The colours of a twin are what a screen shows, as in MuJoCo's own renderer.
THREE.ColorManagement.enabled = false;

interface Drawn {
  robot: SceneRobot;
  root: THREE.Group;
  bodies: Map<string, THREE.Group>;
  eyes: Map<string, { eye: THREE.Object3D; fovy: number }>;
}

const SPEED = 0.08;
const from = new THREE.Quaternion();
const to = new THREE.Quaternion();

/** The two rows around a time, and how far it is from the first to the second. */
function rowsAt(time_s: readonly number[], at: number): [number, number, number] {
  let low = 0;
  let high = time_s.length - 1;
  if (high <= 0 || at <= (time_s[0] ?? 0)) return [0, 0, 0];
  if (at >= (time_s[high] ?? 0)) return [high, high, 0];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((time_s[middle] ?? 0) <= at) low = middle;
    else high = middle;
  }
  const start = time_s[low] ?? 0;
  const step = (time_s[high] ?? 0) - start;
  return [low, high, step > 0 ? (at - start) / step : 0];
}

/** The box of a body's own shapes, without planes. */
function boxOfBody(body: THREE.Group): THREE.Box3 {
  const box = new THREE.Box3();
  for (const part of body.children) if (part instanceof THREE.Mesh && !part.userData["endless"]) box.expandByObject(part);
  return box;
}

/** The box of all that stands together: what an episode does not use is parked far away. */
function boxOfMost(boxes: readonly THREE.Box3[]): THREE.Box3 {
  const centres = boxes.map((box) => box.getCenter(new THREE.Vector3()));
  const middleOf = (values: number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;
  const middle = new THREE.Vector3(middleOf(centres.map((one) => one.x)), middleOf(centres.map((one) => one.y)), middleOf(centres.map((one) => one.z)));
  const usual = middleOf(centres.map((one) => one.distanceTo(middle)));
  const all = new THREE.Box3();
  boxes.forEach((box, i) => {
    if ((centres[i] ?? middle).distanceTo(middle) <= Math.max(3 * usual, 0.3)) all.union(box);
  });
  return all;
}

export class SceneView {
  private readonly renderer: THREE.WebGLRenderer;
  private readonly scene = new THREE.Scene();
  private readonly camera = new THREE.PerspectiveCamera(42, 1, 0.01, 100);
  private readonly controls: OrbitControls;
  private readonly lights = new THREE.Group();
  private drawn: Drawn[] = [];
  private pending = 0;
  private time = 0;
  private through = "";
  private home = { position: new THREE.Vector3(1, -1, 1), target: new THREE.Vector3() };

  constructor(
    readonly canvas: HTMLCanvasElement,
    private readonly onView: () => void = () => undefined,
  ) {
    const context = canvas.getContext("webgl2", { antialias: true, alpha: true, powerPreference: "low-power" });
    if (!context) throw new Error("WebGL is not available");
    this.renderer = new THREE.WebGLRenderer({ canvas, context, antialias: true, alpha: true });
    this.renderer.outputColorSpace = THREE.LinearSRGBColorSpace;
    this.renderer.setPixelRatio(Math.min(2, window.devicePixelRatio));
    this.camera.up.set(0, 0, 1);
    this.scene.add(this.lights, this.camera);
    this.controls = new OrbitControls(this.camera, canvas);
    this.controls.enableDamping = false;
    this.controls.maxPolarAngle = Math.PI * 0.52;
    this.controls.addEventListener("change", () => this.request());
    this.controls.addEventListener("start", () => this.look(""));
  }

  /** Draw these robots instead of what is there; where they stand for the same cell, the point of view stays. */
  show(robots: readonly SceneRobot[], tint: string): void {
    const same = this.drawn.length > 0 && this.drawn[0]?.robot.geometry.twin === robots[0]?.geometry.twin;
    this.clear();
    this.drawn = robots.map((robot) => this.build(robot, tint));
    const first = robots[0];
    if (first) {
      this.light(first.geometry);
      if (!same) this.frame();
    }
    this.setTime(this.time);
  }

  setTime(time_s: number): void {
    this.time = time_s;
    for (const one of this.drawn) if (one.robot.motion) this.place(one, one.robot.motion, time_s);
    this.request();
  }

  /** Look through one of the twin's cameras; an empty name is the free view. */
  look(name: string): void {
    if (name === this.through) return;
    const left = this.through !== "" && name === "";
    this.through = name;
    if (left) {
      this.camera.fov = 42;
      this.camera.up.set(0, 0, 1);
      this.onView();
    }
    if (name === "") this.resize();
    this.request();
  }

  get looksThrough(): string {
    return this.through;
  }

  /** Turn about the middle by angles in radians, or go nearer by a factor. */
  orbit(azimuth: number, polar: number, nearer = 1): void {
    this.look("");
    const away = this.camera.position.clone().sub(this.controls.target);
    const turned = new THREE.Spherical().setFromVector3(new THREE.Vector3(away.x, away.z, -away.y));
    turned.theta += azimuth;
    turned.phi = Math.min(Math.PI * 0.52, Math.max(0.05, turned.phi + polar));
    turned.radius *= nearer;
    const made = new THREE.Vector3().setFromSpherical(turned);
    this.camera.position.set(made.x, -made.z, made.y).add(this.controls.target);
    this.controls.update();
    this.request();
  }

  /** Move the point of view sideways and up, in parts of its distance. */
  pan(right: number, up: number): void {
    this.look("");
    const distance = this.camera.position.distanceTo(this.controls.target);
    const step = new THREE.Vector3(right, up, 0).multiplyScalar(distance).applyQuaternion(this.camera.quaternion);
    this.camera.position.add(step);
    this.controls.target.add(step);
    this.controls.update();
    this.request();
  }

  /** Act on a key as a person beside the scene expects; false for a key without meaning here. */
  key(event: KeyboardEvent): boolean {
    const turn = { ArrowLeft: [-SPEED, 0], ArrowRight: [SPEED, 0], ArrowUp: [0, -SPEED], ArrowDown: [0, SPEED] }[event.key];
    if (turn) {
      const [side, up] = turn as [number, number];
      if (event.shiftKey) this.pan(side, -up);
      else this.orbit(side, up);
    } else if (event.key === "+" || event.key === "=") this.orbit(0, 0, 0.9);
    else if (event.key === "-" || event.key === "_") this.orbit(0, 0, 1 / 0.9);
    else if (event.key === "Home" || event.key === "0") this.reset();
    else return false;
    return true;
  }

  reset(): void {
    this.look("");
    this.camera.position.copy(this.home.position);
    this.controls.target.copy(this.home.target);
    this.controls.update();
    this.request();
  }

  resize(): void {
    const { clientWidth, clientHeight } = this.canvas;
    if (!clientWidth || !clientHeight) return;
    this.renderer.setSize(clientWidth, clientHeight, false);
    this.camera.aspect = clientWidth / clientHeight;
    this.camera.updateProjectionMatrix();
    this.request();
  }

  dispose(): void {
    window.cancelAnimationFrame(this.pending);
    this.clear();
    this.controls.dispose();
    this.renderer.dispose();
    this.renderer.forceContextLoss();
  }

  private request(): void {
    if (!this.pending) this.pending = window.requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    this.pending = 0;
    const found = this.drawn[0]?.eyes.get(this.through);
    if (found) {
      this.scene.updateMatrixWorld();
      found.eye.getWorldPosition(this.camera.position);
      found.eye.getWorldQuaternion(this.camera.quaternion);
      this.camera.fov = found.fovy;
      this.camera.updateProjectionMatrix();
    }
    this.renderer.render(this.scene, this.camera);
    this.canvas.dataset["drawn"] = String(Number(this.canvas.dataset["drawn"] ?? 0) + 1);
  }

  private build(robot: SceneRobot, tint: string): Drawn {
    const { geometry } = robot;
    const root = new THREE.Group();
    const tinted = robot.ghost ? new THREE.Color(tint) : null;
    const textures = geometry.textures.map(textureOf);
    const groups = geometry.bodies.map((body) => {
      const group = new THREE.Group();
      group.position.fromArray(body.position);
      const [w, x, y, z] = body.quaternion;
      group.quaternion.set(x, y, z, w);
      root.add(group);
      return group;
    });
    const moving = robot.ghost && robot.motion ? new Set(robot.motion.bodies) : null;
    for (const shape of geometry.shapes) {
      const name = geometry.bodies[shape.body]?.name ?? "";
      // A ghost of what stands still would only cover what it is compared with.
      if (robot.ghost && (shape.kind === "plane" || (moving && !moving.has(name)))) continue;
      const made = geometryOf(shape, geometry);
      if (!made) continue;
      const mesh = new THREE.Mesh(made, materialOf(shape, textures, tinted));
      mesh.position.fromArray(shape.position);
      const [w, x, y, z] = shape.quaternion;
      mesh.quaternion.set(x, y, z, w);
      mesh.userData["endless"] = shape.kind === "plane";
      groups[shape.body]?.add(mesh);
    }
    for (const texture of textures) texture.dispose();
    const eyes = new Map(geometry.cameras.map((one) => {
      const eye = new THREE.Object3D();
      const [w, x, y, z] = one.quaternion;
      eye.position.fromArray(one.position);
      eye.quaternion.set(x, y, z, w);
      root.add(eye);
      groups[one.body]?.attach(eye);
      return [one.name, { eye, fovy: one.fovy_deg }] as const;
    }));
    this.scene.add(root);
    return { robot, root, bodies: new Map(geometry.bodies.map((body, i) => [body.name, groups[i] as THREE.Group])), eyes };
  }

  private place({ bodies }: Drawn, motion: SceneMotion, time_s: number): void {
    const [low, high, part] = rowsAt(motion.time_s, time_s);
    motion.bodies.forEach((name, body) => {
      const group = bodies.get(name);
      const [a, b] = [motion.position[low]?.[body], motion.position[high]?.[body]];
      const [p, q] = [motion.quaternion[low]?.[body], motion.quaternion[high]?.[body]];
      if (!group || !a || !b || !p || !q) return;
      group.position.fromArray(a).lerp(new THREE.Vector3().fromArray(b), part);
      from.set(p[1] ?? 0, p[2] ?? 0, p[3] ?? 0, p[0] ?? 1);
      to.set(q[1] ?? 0, q[2] ?? 0, q[3] ?? 0, q[0] ?? 1);
      group.quaternion.slerpQuaternions(from, to, part);
    });
  }

  private light(geometry: SceneGeometry): void {
    this.lights.clear();
    for (const old of [...this.camera.children]) this.camera.remove(old);
    // Three.js divides what a matt surface gives back by pi; MuJoCo's colours do not.
    this.lights.add(new THREE.AmbientLight(new THREE.Color(...geometry.ambient), Math.PI));
    for (const one of geometry.lights) {
      const light = new THREE.DirectionalLight(new THREE.Color(...one.diffuse), Math.PI);
      light.position.fromArray(one.direction).multiplyScalar(-10);
      this.lights.add(light);
    }
    const head = new THREE.DirectionalLight(new THREE.Color(...geometry.headlight), Math.PI);
    head.position.set(0, 0, 1);
    head.target.position.set(0, 0, -1);
    this.camera.add(head, head.target);
  }

  /** Look at all that moves or stands on the ground, from the front and a little above. */
  private frame(): void {
    const box = boxOfMost(this.drawn.flatMap(({ root, bodies }) => {
      root.updateMatrixWorld(true);
      return [...bodies.values()].map(boxOfBody).filter((one) => !one.isEmpty());
    }));
    if (box.isEmpty()) box.set(new THREE.Vector3(-0.5, -0.5, 0), new THREE.Vector3(0.5, 0.5, 1));
    const sphere = box.getBoundingSphere(new THREE.Sphere());
    const distance = (0.92 * sphere.radius) / Math.sin(THREE.MathUtils.degToRad(this.camera.fov / 2));
    this.home.target.copy(sphere.center);
    this.home.position.set(0.82, -0.9, 0.5).normalize().multiplyScalar(distance).add(sphere.center);
    this.camera.near = distance / 200;
    this.camera.far = distance * 20;
    this.controls.minDistance = distance / 20;
    this.controls.maxDistance = distance * 4;
    this.reset();
    this.resize();
  }

  private clear(): void {
    for (const { root } of this.drawn) {
      root.traverse((part) => {
        if (!(part instanceof THREE.Mesh)) return;
        (part.geometry as THREE.BufferGeometry).dispose();
        const material = part.material as THREE.MeshPhongMaterial;
        material.map?.dispose();
        material.dispose();
      });
      this.scene.remove(root);
    }
    this.drawn = [];
  }
}
