// How values are spread, as overlaid histograms on one axis, with marks for single values.
import { number } from "../format";

export interface Spread {
  label: string;
  edges: readonly number[];
  fractions: readonly number[];
  /** A tone such as `accent` or `sim`. */
  tone: string;
}

export interface Mark {
  label: string;
  value: number;
  tone: string;
}

interface Props {
  /** What the values are, for screen readers. */
  title: string;
  spreads: readonly Spread[];
  marks: readonly Mark[];
  unit?: string;
  /** Ends of the axis; by default what is drawn. */
  from?: number | null;
  to?: number | null;
}

const WIDTH = 420;
const HEIGHT = 120;
const FLOOR = HEIGHT - 22;

/** Spreads of a parameter: each is scaled to its own peak, because what counts is where values lie. */
export function Histogram({ title, spreads, marks, unit = "", from, to }: Props) {
  const all = [...spreads.flatMap((one) => [one.edges[0], one.edges[one.edges.length - 1]]), ...marks.map((one) => one.value)].filter((value): value is number => value !== undefined);
  if (!all.length) return <p class="soft">No values to show.</p>;
  let low = from ?? Math.min(...all);
  let high = to ?? Math.max(...all);
  if (high <= low) [low, high] = [low - (Math.abs(low) || 1) * 0.5, high + (Math.abs(high) || 1) * 0.5];
  const at = (x: number): number => 6 + ((WIDTH - 12) * (Math.min(high, Math.max(low, x)) - low)) / (high - low);
  const words = [...spreads.map((one) => `${one.label}: ${number(one.edges[0])} to ${number(one.edges[one.edges.length - 1])}`), ...marks.map((one) => `${one.label}: ${number(one.value)}`)];
  return (
    <figure class="histogram">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${title}, ${words.join("; ")}${unit ? `, in ${unit}` : ""}`}>
        <line class="histogram-axis" x1={6} x2={WIDTH - 6} y1={FLOOR} y2={FLOOR} />
        {spreads.map((one) => {
          const peak = Math.max(...one.fractions, 1e-12);
          const steps = one.fractions.map((fraction, i) => `L${at(one.edges[i] ?? 0)} ${FLOOR - (FLOOR - 8) * (fraction / peak)} L${at(one.edges[i + 1] ?? 0)} ${FLOOR - (FLOOR - 8) * (fraction / peak)}`);
          return <path key={one.label} class={`histogram-area tone-${one.tone}`} d={`M${at(one.edges[0] ?? 0)} ${FLOOR} ${steps.join(" ")} L${at(one.edges[one.edges.length - 1] ?? 0)} ${FLOOR} Z`} />;
        })}
        {marks.map((one) => <line key={one.label} class={`histogram-mark tone-${one.tone}`} x1={at(one.value)} x2={at(one.value)} y1={4} y2={FLOOR} />)}
        <text class="histogram-text" x={6} y={HEIGHT - 6}>{number(low)}</text>
        <text class="histogram-text histogram-end" x={WIDTH - 6} y={HEIGHT - 6}>{`${number(high)}${unit && unit !== "1" ? ` ${unit}` : ""}`}</text>
      </svg>
      <ul class="histogram-legend">
        {spreads.map((one) => <li key={one.label} class={`tone-${one.tone}`}>{one.label}</li>)}
        {marks.map((one) => <li key={one.label} class={`histogram-line tone-${one.tone}`}>{`${one.label} ${number(one.value)}`}</li>)}
      </ul>
    </figure>
  );
}
