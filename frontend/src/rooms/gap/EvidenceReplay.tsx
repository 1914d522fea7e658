// One run replayed in the twin as it is and with what was measured: does the replay come closer to the recording?
import { useEffect, useState } from "preact/hooks";
import { useApi } from "../../api";
import { number } from "../../format";
import { datasetTitle, episodeHref } from "../../names";
import { Link } from "../../router";
import type { EpisodePlace, Evidence } from "../../types";
import { Badge, Button, Card, Chart, ErrorBox, Scene3D, Segmented, SelectField, type SceneMotion, type SceneRobot } from "../../ui";

const TICK_MS = 40;

export function EvidenceReplay({ path, dimension, episodes, robot }: { path: string; dimension: string; episodes: readonly EpisodePlace[]; robot: string }) {
  const [at, setAt] = useState("0");
  const run = episodes[Number(at)];
  const { data, error, loading } = useApi<Evidence>(run ? "/api/gap/evidence" : null, { path, dimension, dataset: run?.dataset, episode: run?.episode });
  if (!run) return null;
  return (
    <Card
      title={`A run with ${dimension} put into the twin`}
      note="The run's own commands, replayed open loop: a measured value is believable where it brings the twin closer to the recording."
      actions={
        <>
          <SelectField label="Run" hideLabel value={at} onValue={setAt} options={episodes.map((one, i) => ({ value: String(i), label: `episode ${one.episode} of ${datasetTitle(one.dataset)}, ${one.success === true ? "success" : (one.failure ?? "failure")}` }))} />
          <Link class="button" href={episodeHref(run.dataset, run.episode)}>Open the episode</Link>
        </>
      }
    >
      <ErrorBox error={error} />
      {loading && !data && <p role="status" class="soft">Replaying …</p>}
      {data && <Replayed key={`${run.id} ${dimension}`} data={data} robot={robot} />}
    </Card>
  );
}

function Replayed({ data, robot }: { data: Evidence; robot: string }) {
  const [which, setWhich] = useState("measured");
  const [time, setTime] = useState(0);
  const [playing, setPlaying] = useState(false);
  const gains = [...data.errors].sort((a, b) => gain(b) - gain(a));
  const [name, setName] = useState(gains[0]?.name ?? "");
  const recorded = data.recorded as unknown as SceneMotion;
  const end = recorded.time_s[recorded.time_s.length - 1] ?? 0;
  useEffect(() => {
    if (!playing) return;
    const timer = window.setInterval(() => setTime((before) => {
      const next = before + TICK_MS / 1000;
      return next >= end ? 0 : next;
    }), TICK_MS);
    return () => window.clearInterval(timer);
  }, [playing, end]);
  const ghost = (which === "measured" ? data.measured : data.nominal) as unknown as SceneMotion | null;
  const robots: SceneRobot[] = [{ label: `recorded on the ${robot}`, geometry: data.geometry, motion: recorded }, ...(ghost ? [{ label: which === "measured" ? `twin with ${data.dimension}` : "twin as it is", geometry: data.geometry, motion: ghost, ghost: true }] : [])];
  const signal = data.signals.find((one) => one.name === name) ?? data.signals[0];
  if (data.reason) return <p class="soft">It cannot be replayed: {data.reason}</p>;
  return (
    <div class="gap-replay">
      <div class="stack">
        <Segmented label="Twin in the scene" value={which} onValue={setWhich} options={[{ value: "measured", label: `with ${data.dimension}` }, { value: "nominal", label: "as it is" }]} />
        <Scene3D label={`A run recorded on the ${robot}, and ${robots[1]?.label ?? "no replay"}`} robots={robots} time={time} height={300} />
        <div class="gap-time">
          <Button small icon={playing ? "pause" : "play"} aria-label={playing ? "Pause" : "Play"} onClick={() => setPlaying(!playing)} />
          <input type="range" min={0} max={end} step={0.01} value={time} aria-label="Time of the run" onInput={(event) => { setPlaying(false); setTime(Number(event.currentTarget.value)); }} />
          <output>{time.toFixed(2)} s</output>
        </div>
        <p class="soft">{Object.entries(data.values).map(([key, value]) => `${key} ${number(value)}`).join(", ")}</p>
      </div>
      <div class="stack">
        {signal && <Chart title={`${signal.name}, ${signal.unit}`} x={recorded.time_s} xLabel="s" height={210} playhead={time} onScrub={setTime} legend series={[{ label: "recorded", values: signal.recorded, color: "--real", width: 2 }, { label: "twin as it is", values: signal.nominal, color: "--text-soft", dash: [5, 4] }, { label: `with ${data.dimension}`, values: signal.measured, color: "--sim", width: 2 }]} />}
        <div class="twin-scroll gap-errors" tabIndex={0} role="region" aria-label="Replay errors by signal">
          <table class="plain-table">
            <thead><tr><th>Signal</th><th class="right">RMS error as it is</th><th class="right">with {data.dimension}</th><th>Unit</th><th /></tr></thead>
            <tbody>
              {gains.map((one) => (
                <tr key={one.name}>
                  <td><button type="button" class="link" aria-pressed={one.name === name} onClick={() => setName(one.name)}>{one.name}</button></td>
                  <td class="right">{number(one.nominal)}</td>
                  <td class="right"><strong>{number(one.measured)}</strong></td>
                  <td>{one.unit}</td>
                  <td>{one.measured < 0.8 * one.nominal ? <Badge tone="good">closer</Badge> : one.measured > 1.25 * one.nominal ? <Badge tone="warn">farther</Badge> : null}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </div>
    </div>
  );
}

const gain = (one: { nominal: number; measured: number }): number => Math.log(Math.max(one.nominal, 1e-12) / Math.max(one.measured, 1e-12));
