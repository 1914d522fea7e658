import { number, percent } from "../format";

interface Props {
  value: number | null | undefined;
  low?: number | null | undefined;
  high?: number | null | undefined;
  /** Ends of the axis that intervals beside each other share. */
  from: number;
  to: number;
  /** A line across, such as zero or a threshold. */
  mark?: number | null;
  tone?: "accent" | "good" | "bad" | "warn" | "real" | "sim";
  as?: "number" | "percent";
  /** Write the numbers beside the line. */
  words?: boolean;
}

const WIDTH = 160;
const HEIGHT = 18;

/** A value with its interval as a dot on a line, to be read down a column. */
export function IntervalMark({ value, low, high, from, to, mark, tone = "accent", as = "number", words = false }: Props) {
  const at = (x: number): number => 4 + ((WIDTH - 8) * (Math.min(to, Math.max(from, x)) - from)) / (to - from || 1);
  const write = as === "percent" ? percent : number;
  const known = value !== null && value !== undefined;
  const text = known ? `${write(value)}${low !== null && low !== undefined && high !== null && high !== undefined ? ` [${write(low)}, ${write(high)}]` : ""}` : "not measured";
  return (
    <span class="interval">
      <svg class={`interval-mark tone-${tone}`} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={text}>
        <line class="interval-axis" x1={4} x2={WIDTH - 4} y1={HEIGHT / 2} y2={HEIGHT / 2} />
        {mark !== null && mark !== undefined && <line class="interval-zero" x1={at(mark)} x2={at(mark)} y1={2} y2={HEIGHT - 2} />}
        {low !== null && low !== undefined && high !== null && high !== undefined && <line class="interval-range" x1={at(low)} x2={at(high)} y1={HEIGHT / 2} y2={HEIGHT / 2} />}
        {known && <circle cx={at(value)} cy={HEIGHT / 2} r={4} />}
      </svg>
      {words && <span class="interval-words">{text}</span>}
    </span>
  );
}

/** A fraction as a bar with its interval. */
export function Bar({ value, tone = "accent", label }: { value: number; tone?: string; label?: string }) {
  const width = Math.min(1, Math.max(0, value)) * 100;
  return (
    <span class={`bar tone-${tone}`} role="img" aria-label={label ?? percent(value)}>
      <span style={{ width: `${width}%` }} />
    </span>
  );
}
