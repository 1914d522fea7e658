// Points of two quantities, and a matrix of correlations from which a pair is chosen.
import { number } from "../format";

const SIZE = 260;
const EDGE = 30;

/** Samples of two quantities: a slanted cloud says that one makes up for the other. */
export function Scatter({ title, x, y, points }: { title: string; x: string; y: string; points: readonly (readonly [number, number])[] }) {
  const range = (k: 0 | 1): [number, number] => {
    const values = points.map((point) => point[k]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return high > low ? [low, high] : [low - 1, high + 1];
  };
  const [[x0, x1], [y0, y1]] = [range(0), range(1)];
  const atX = (value: number): number => EDGE + ((SIZE - EDGE - 8) * (value - x0)) / (x1 - x0);
  const atY = (value: number): number => SIZE - EDGE - ((SIZE - EDGE - 8) * (value - y0)) / (y1 - y0);
  return (
    <svg class="scatter" viewBox={`0 0 ${SIZE} ${SIZE}`} role="img" aria-label={title}>
      <path class="scatter-axes" d={`M${EDGE} 8 V${SIZE - EDGE} H${SIZE - 8}`} />
      {points.map((point, i) => <circle key={i} cx={atX(point[0])} cy={atY(point[1])} r={1.6} />)}
      <text x={EDGE} y={SIZE - EDGE + 12}>{number(x0)}</text>
      <text x={SIZE - 8} y={SIZE - EDGE + 12} class="scatter-end">{number(x1)}</text>
      <text x={(SIZE + EDGE) / 2} y={SIZE - 4} class="scatter-name">{x}</text>
      <text x={4} y={14}>{number(y1)}</text>
      <text x={4} y={SIZE - EDGE}>{number(y0)}</text>
      <text x={10} y={(SIZE - EDGE) / 2} class="scatter-name scatter-side">{y}</text>
    </svg>
  );
}

interface MatrixProps {
  title: string;
  names: readonly string[];
  values: readonly (readonly number[])[];
  selected: readonly [number, number];
  onSelect: (row: number, column: number) => void;
}

const CELL = 14;

/** Correlations: blue rise together, red against each other. Arrow keys move the chosen pair. */
export function Matrix({ title, names, values, selected, onSelect }: MatrixProps) {
  const [row, column] = selected;
  const count = names.length;
  const move = (event: KeyboardEvent): void => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const [down, right] = step as [number, number];
    onSelect((row + down + count) % count, (column + right + count) % count);
  };
  const now = `${names[row] ?? ""} and ${names[column] ?? ""}: ${number(values[row]?.[column] ?? 0, 2)}`;
  return (
    <svg class="matrix" viewBox={`0 0 ${count * CELL} ${count * CELL}`} role="img" tabIndex={0} aria-label={`${title}. Selected: ${now}. Arrow keys select a pair.`} onKeyDown={move}>
      {values.map((line, i) => line.map((value, j) => (
        <rect key={`${i}-${j}`} x={j * CELL} y={i * CELL} width={CELL - 1} height={CELL - 1} class={value < 0 ? "matrix-against" : "matrix-with"} fill-opacity={Math.abs(value)} onClick={() => onSelect(i, j)}>
          <title>{`${names[i] ?? ""}, ${names[j] ?? ""}: ${number(value, 2)}`}</title>
        </rect>
      )))}
      <rect class="matrix-selected" x={column * CELL} y={row * CELL} width={CELL - 1} height={CELL - 1} />
    </svg>
  );
}
