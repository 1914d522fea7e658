// Success rates of policies in the order in which they were evaluated, each with its exact interval.
import { percent, when } from "../../format";
import type { SuccessRecord } from "../../types";

const WIDTH = 520;
const HEIGHT = 216;
const PAD = { left: 46, right: 14, top: 14, bottom: 46 };
const KINDS: Record<string, string> = { sim: "in simulation", standin: "on the stand-in", real: "on the robot" };
const SHOWN = 12;

const yOf = (rate: number): number => PAD.top + (1 - rate) * (HEIGHT - PAD.top - PAD.bottom);

function Point({ record, x }: { record: SuccessRecord; x: number }) {
  const { rate, low, high } = record;
  const kind = KINDS[record.kind] ?? record.kind;
  const words = `${record.policy} ${kind}: ${percent(rate)} of ${record.trials} trials, 95 % interval ${percent(low)} to ${percent(high)}, ${when(record.at)}`;
  if (rate === null) return null;
  const above = yOf(rate) - PAD.top > 24;
  return (
    <g class={`history-point history-${record.kind}`} role="img" aria-label={words}>
      <title>{words}</title>
      <line class="history-interval" x1={x} x2={x} y1={yOf(high)} y2={yOf(low)} />
      <line class="history-cap" x1={x - 5} x2={x + 5} y1={yOf(high)} y2={yOf(high)} />
      <line class="history-cap" x1={x - 5} x2={x + 5} y1={yOf(low)} y2={yOf(low)} />
      {record.kind === "sim" ? <rect class="history-mark" x={x - 5} y={yOf(rate) - 5} width={10} height={10} rx={1.5} /> : <circle class="history-mark" cx={x} cy={yOf(rate)} r={5.5} />}
      <text class="history-rate" x={x + 11} y={yOf(rate) + (above ? -3 : 13)}>{percent(rate)}</text>
      <text class="history-name" x={x} y={HEIGHT - 24} text-anchor="middle">{record.policy}</text>
      <text class="history-kind" x={x} y={HEIGHT - 10} text-anchor="middle">{`${record.successes} of ${record.trials}`}</text>
    </g>
  );
}

const WORDS: Record<string, string> = { sim: "simulation", standin: "stand-in for the robot", real: "robot" };

function Legend({ kinds }: { kinds: readonly string[] }) {
  return (
    <ul class="history-legend">
      {kinds.map((kind) => (
        <li key={kind} class={`history-${kind}`}><svg width={10} height={10} viewBox="0 0 10 10" aria-hidden="true">{kind === "sim" ? <rect class="history-mark" width={9} height={9} rx={1.5} /> : <circle class="history-mark" cx={5} cy={5} r={4.6} />}</svg>{WORDS[kind] ?? kind}</li>
      ))}
    </ul>
  );
}

/** Success in simulation and on the robot, one mark for each evaluation. */
export function SuccessHistory({ records }: { records: readonly SuccessRecord[] }) {
  const shown = records.filter((record) => record.rate !== null).slice(-SHOWN);
  const step = (WIDTH - PAD.left - PAD.right) / Math.max(1, shown.length);
  return (
    <>
    <Legend kinds={[...new Set(shown.map((record) => record.kind))]} />
    <svg class="history" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="group" aria-label="Success rates with 95 % intervals">
      {[0, 0.25, 0.5, 0.75, 1].map((rate) => (
        <g key={rate}>
          <line class="history-grid" x1={PAD.left} x2={WIDTH - PAD.right} y1={yOf(rate)} y2={yOf(rate)} />
          <text class="history-tick" x={PAD.left - 8} y={yOf(rate) + 4} text-anchor="end">{percent(rate)}</text>
        </g>
      ))}
      {shown.map((record, i) => <Point key={`${record.folder}${i}`} record={record} x={PAD.left + step * (i + 0.5)} />)}
    </svg>
    </>
  );
}
