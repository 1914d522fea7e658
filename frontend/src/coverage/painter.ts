// Paints a hundred thousand points into one pixel buffer, so that they pan and zoom smoothly without a graphics card.
import { number } from "../format";
import { colour } from "../theme";
import { FAILED, NO_REGION, type Corner, type Owners } from "./points";

export interface View {
  x0: number;
  x1: number;
  y0: number;
  y1: number;
}

export interface Scene {
  x: Float32Array;
  y: Float32Array;
  owners: Owners;
  /** Real points come first: so many of them. */
  real: number;
  showReal: boolean;
  showSim: boolean;
  /** The region that stands out; other real points are faint. */
  only: number | null;
  by: "region" | "outcome";
  chosen: Uint8Array | null;
}

/** In the order of `.swatch-0` and its followers, so that the table shows the same. */
const REGION_COLOURS = ["--series-5", "--series-4", "--series-3", "--series-2", "--series-6", "--series-7", "--series-1", "--series-8"] as const;

/** A colour of the style sheet as a pixel, ABGR; `share` mixes it with the background. */
function pixel(name: string, share = 1): number {
  const parts = (hex: string): number[] => {
    const long = hex.length === 4 ? hex.replace(/[0-9a-f]/gi, "$&$&") : hex;
    return [1, 3, 5].map((i) => Number.parseInt(long.slice(i, i + 2), 16) || 0);
  };
  const [own, back] = [parts(colour(name)), parts(colour("--surface"))];
  const [r, g, b] = own.map((value, i) => Math.round(share * value + (1 - share) * (back[i] as number)));
  return (0xff000000 | ((b as number) << 16) | ((g as number) << 8) | (r as number)) >>> 0;
}

export interface Palette {
  back: number;
  sim: number;
  real: number;
  faint: number;
  chosen: number;
  good: number;
  bad: number;
  regions: number[];
}

export const palette = (): Palette => ({
  back: pixel("--surface"),
  sim: pixel("--sim", 0.4),
  real: pixel("--real"),
  faint: pixel("--real", 0.35),
  chosen: pixel("--text"),
  good: pixel("--good"),
  bad: pixel("--bad"),
  regions: REGION_COLOURS.map((name) => pixel(name)),
});

let buffer: { image: ImageData; pixels: Uint32Array } | null = null;

function blank(context: CanvasRenderingContext2D, width: number, height: number, back: number): { image: ImageData; pixels: Uint32Array } {
  if (!buffer || buffer.image.width !== width || buffer.image.height !== height) {
    const image = context.createImageData(width, height);
    buffer = { image, pixels: new Uint32Array(image.data.buffer) };
  }
  buffer.pixels.fill(back);
  return buffer;
}

/** Whether a point is drawn. */
export function shown(scene: Scene, i: number): boolean {
  if (i >= scene.real) return scene.showSim;
  return scene.showReal;
}

export function paint(canvas: HTMLCanvasElement, scene: Scene, view: View, colours: Palette): void {
  const context = canvas.getContext("2d", { alpha: false });
  if (!context) return;
  const { width, height } = canvas;
  const { image, pixels } = blank(context, width, height, colours.back);
  const { x, y, owners, chosen } = scene;
  const ratio = window.devicePixelRatio || 1;
  const few = x.length < 400 ? 4 : x.length < 3000 ? 2 : 0;
  const kx = width / (view.x1 - view.x0);
  const ky = height / (view.y1 - view.y0);
  const draw = (from: number, to: number, size: number, sim: boolean): void => {
    const half = size >> 1;
    for (let i = from; i < to; i++) {
      const px = ((x[i] as number) - view.x0) * kx - half;
      const py = height - ((y[i] as number) - view.y0) * ky - half;
      if (!(px >= 0 && py >= 0 && px < width - size && py < height - size)) continue;
      const region = owners.region[i] as number;
      const faint = !sim && scene.only !== null && region !== scene.only;
      let ink = sim ? colours.sim : faint ? colours.faint : colours.real;
      if (!sim && !faint && scene.by === "region" && region !== NO_REGION) ink = colours.regions[region % colours.regions.length] as number;
      if (!sim && !faint && scene.by === "outcome" && owners.ended[i]) ink = owners.ended[i] === FAILED ? colours.bad : colours.good;
      if (chosen?.[i]) ink = colours.chosen;
      for (let row = (py | 0) * width + (px | 0), last = row + size * width; row < last; row += width) for (let k = 0; k < size; k++) pixels[row + k] = ink;
    }
  };
  if (scene.showSim) draw(scene.real, x.length, Math.round((2 + few) * ratio), true);
  if (scene.showReal) draw(0, scene.real, Math.round((3 + few) * ratio), false);
  context.putImageData(image, 0, 0);
}

function ticks(low: number, high: number, most: number): number[] {
  const rough = (high - low) / most;
  if (!(rough > 0) || !Number.isFinite(rough)) return [];
  const base = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * base).find((one) => one >= rough) ?? 10 * base;
  const found: number[] = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) found.push(Math.abs(value) < step * 1e-6 ? 0 : value);
  return found;
}

export interface AxisName {
  name: string;
  unit: string;
  /** Places on the map have no scale. */
  scaled: boolean;
}

/** Axes, the outline that is being drawn, and the picked point, over the points. */
export function paintOverlay(canvas: HTMLCanvasElement, view: View, across: AxisName, up: AxisName, outline: readonly Corner[], picked: Corner | null): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  const { width, height } = canvas;
  const ratio = window.devicePixelRatio || 1;
  const px = (x: number): number => ((x - view.x0) / (view.x1 - view.x0)) * width;
  const py = (y: number): number => height - ((y - view.y0) / (view.y1 - view.y0)) * height;
  context.clearRect(0, 0, width, height);
  context.font = `${11 * ratio}px system-ui, sans-serif`;
  context.fillStyle = colour("--text-soft");
  if (across.scaled) {
    for (const value of ticks(view.x0, view.x1, 6)) {
      context.fillRect(px(value), height - 4 * ratio, ratio, 4 * ratio);
      context.fillText(number(value), px(value) + 3 * ratio, height - 5 * ratio);
    }
  }
  if (up.scaled) {
    for (const value of ticks(view.y0, view.y1, 6)) {
      context.fillRect(0, py(value), 4 * ratio, ratio);
      context.fillText(number(value), 6 * ratio, py(value) - 3 * ratio);
    }
  }
  context.fillStyle = colour("--text-2");
  const named = (axis: AxisName): string => (axis.unit && axis.unit !== "1" ? `${axis.name}, ${axis.unit}` : axis.name);
  context.textAlign = "right";
  context.fillText(`${named(across)} →`, width - 8 * ratio, height - 20 * ratio);
  context.textAlign = "left";
  context.fillText(`↑ ${named(up)}`, 30 * ratio, 16 * ratio);
  if (outline.length > 1) {
    context.beginPath();
    outline.forEach(([x, y], i) => (i ? context.lineTo(px(x), py(y)) : context.moveTo(px(x), py(y))));
    context.closePath();
    context.fillStyle = colour("--band");
    context.strokeStyle = colour("--accent");
    context.lineWidth = 1.5 * ratio;
    context.fill();
    context.stroke();
  }
  if (picked) {
    context.beginPath();
    context.arc(px(picked[0]), py(picked[1]), 8 * ratio, 0, 2 * Math.PI);
    context.strokeStyle = colour("--text");
    context.lineWidth = 2 * ratio;
    context.stroke();
  }
}
