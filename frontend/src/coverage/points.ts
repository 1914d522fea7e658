// The points of a coverage map as arrays: where they lie on an axis, and whose they are.
import { address, ApiError } from "../api";

export const NO_REGION = 255;
export const FAILED = 2;

/** Whose point each is; real points come first. */
export interface Owners {
  episode: Uint32Array;
  row: Uint32Array;
  region: Uint32Array;
  ended: Uint32Array;
}

async function numbers(path: string, params: Record<string, string>, signal: AbortSignal): Promise<ArrayBuffer> {
  const answer = await fetch(address(path, params), { credentials: "same-origin", signal });
  if (!answer.ok) throw new ApiError({ what: `the points of the map could not be loaded (status ${answer.status})`, remedy: "reload the page" }, answer.status);
  return answer.arrayBuffer();
}

export async function loadOwners(coverage: string, level: string, signal: AbortSignal): Promise<Owners> {
  const all = new Uint32Array(await numbers("/api/coverage/owners", { coverage, level }, signal));
  const count = all.length / 4;
  const part = (i: number): Uint32Array => all.subarray(i * count, (i + 1) * count);
  return { episode: part(0), row: part(1), region: part(2), ended: part(3) };
}

export async function loadColumn(coverage: string, level: string, axis: string, signal: AbortSignal): Promise<Float32Array> {
  return new Float32Array(await numbers("/api/coverage/column", { coverage, level, axis }, signal));
}

export type Corner = readonly [number, number];

/** Which points lie inside a polygon, and how many. */
export function choose(x: Float32Array, y: Float32Array, polygon: readonly Corner[], shown: (i: number) => boolean): { chosen: Uint8Array; count: number } {
  const chosen = new Uint8Array(x.length);
  const xs = polygon.map((one) => one[0]);
  const ys = polygon.map((one) => one[1]);
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  let count = 0;
  for (let i = 0; i < x.length; i++) {
    const px = x[i] as number;
    const py = y[i] as number;
    if (!(px >= left && px <= right && py >= low && py <= high) || !shown(i)) continue;
    let inside = false;
    for (let a = 0, b = polygon.length - 1; a < polygon.length; b = a++) {
      const [ax, ay] = polygon[a] as Corner;
      const [bx, by] = polygon[b] as Corner;
      if (ay > py !== by > py && px < ((bx - ax) * (py - ay)) / (by - ay) + ax) inside = !inside;
    }
    if (inside) {
      chosen[i] = 1;
      count++;
    }
  }
  return { chosen, count };
}

/** An outline with at most `most` corners: every n-th of them. */
export function thin(polygon: readonly Corner[], most: number): Corner[] {
  const step = Math.max(1, Math.ceil(polygon.length / most));
  return polygon.filter((_, i) => i % step === 0);
}

/** An outline as the API reads it. */
export const outlineText = (polygon: readonly Corner[]): string => polygon.map(([x, y]) => `${Number(x.toPrecision(7))},${Number(y.toPrecision(7))}`).join(" ");
