// Numbers and times as people read them; one place, so that every room writes them the same way.

const MINUS = "\u2212";
const signed = (text: string): string => text.replace("-", MINUS);

/** A number with at most `digits` significant digits; a dash when there is none. */
export function number(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : `${MINUS}∞`;
  if (value === 0) return "0";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return signed(value.toLocaleString("en-US"));
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e6)) return signed(value.toExponential(Math.max(0, digits - 1)).replace(/\.?0+e/, "e"));
  return signed(Number(value.toPrecision(digits)).toLocaleString("en-US", { maximumFractionDigits: 8 }));
}

export const count = (value: number | null | undefined): string => number(value === null || value === undefined ? value : Math.round(value));

/** A fraction as per cent, such as 81 %. */
export function percent(value: number | null | undefined, digits = 0): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return `${signed((100 * value).toFixed(digits))} %`;
}

/** A value with its interval, such as `0.42 [0.40, 0.45]`. */
export function interval(value: number | null | undefined, low?: number | null, high?: number | null, digits = 3): string {
  if (low === null || low === undefined || high === null || high === undefined) return number(value, digits);
  return `${number(value, digits)} [${number(low, digits)}, ${number(high, digits)}]`;
}

/** Seconds as people say them: 850 ms, 4.2 s, 3 min 20 s, 2 h 5 min. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min${Math.round(seconds % 60) ? ` ${Math.round(seconds % 60)} s` : ""}`;
  return `${Math.floor(minutes / 60)} h${minutes % 60 ? ` ${minutes % 60} min` : ""}`;
}

/** Bytes in powers of 1000. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? size : number(size, 3)} ${units[unit]}`;
}

/** A time stamp in this browser's time zone, such as 19 Nov 2026, 03:31. */
export function when(stamp: string | number | null | undefined): string {
  if (stamp === null || stamp === undefined || stamp === "") return "–";
  const date = typeof stamp === "number" ? new Date(stamp * 1000) : new Date(stamp);
  if (Number.isNaN(date.getTime())) return String(stamp);
  return date.toLocaleString("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
}

/** How long ago, such as 3 min ago. */
export function ago(stamp: string | number | null | undefined): string {
  if (stamp === null || stamp === undefined || stamp === "") return "–";
  const then = typeof stamp === "number" ? stamp * 1000 : new Date(stamp).getTime();
  const seconds = (Date.now() - then) / 1000;
  if (Number.isNaN(seconds)) return String(stamp);
  if (seconds < 45) return "just now";
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h ago`;
  if (seconds < 30 * 86_400) return `${Math.round(seconds / 86_400)} d ago`;
  return when(stamp);
}

/** `1 episode`, `2 episodes`. */
export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;
