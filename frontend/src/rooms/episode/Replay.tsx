// The recorded robot and the twin's replay of the same commands, over each other in 3D, and how far they are apart.
import { useMemo } from "preact/hooks";
import { useApi } from "../../api";
import { number } from "../../format";
import { useQueryState } from "../../router";
import type { EpisodeAnswer, TwinChoice } from "../../types";
import { Card, Chart, Empty, ErrorBox, Loading, Scene3D, SelectField, type SceneGeometry, type SceneMotion, type SceneRobot, type Series } from "../../ui";
import { useTime, type Clock } from "./clock";

interface MotionPair {
  twin: string;
  recorded: SceneMotion;
  replayed: SceneMotion | null;
  signals: { name: string; unit: string; recorded: number[]; replayed: number[] }[];
  reason: string;
}

/** Largest distance between the same bodies of two motions at each time, mm. */
function distances(a: SceneMotion, b: SceneMotion): (number | null)[] {
  return a.position.map((bodies, t) => {
    const others = b.position[t];
    if (!others) return null;
    return 1000 * Math.max(...bodies.map((p, i) => Math.hypot(...p.map((value, axis) => value - (others[i]?.[axis] ?? value)))));
  });
}

function Differences({ pair, clock }: { pair: MotionPair; clock: Clock }) {
  const time = useTime(clock);
  const scrub = (x: number): void => {
    clock.play(false);
    clock.set(x);
  };
  const times = pair.recorded.time_s;
  const apart = useMemo(() => (pair.replayed ? distances(pair.recorded, pair.replayed) : []), [pair]);
  const units = [...new Set(pair.signals.map((signal) => signal.unit))];
  const joints = useMemo(() => units.map((unit) => {
    const series: Series[] = pair.signals.filter((signal) => signal.unit === unit).map((signal) => ({ label: signal.name, values: signal.replayed.map((value, i) => value - (signal.recorded[i] ?? value)) }));
    return { unit, series };
  }), [pair]);
  const worst = Math.max(0, ...apart.map((value) => value ?? 0));
  return (
    <div class="differences">
      <Chart title={`Largest distance between twin and recording, mm (at most ${number(worst, 3)})`} x={times} series={[{ label: "distance", values: apart, color: "--series-5" }]} height={128} sync="episode" playhead={time} onScrub={scrub} />
      {joints.map(({ unit, series }) => <Chart key={unit} title={`Joints, twin − recording, ${unit}`} x={times} series={series} height={128} sync="episode" playhead={time} onScrub={scrub} legend={series.length > 1} />)}
    </div>
  );
}

function View({ geometry, pair, clock, label }: { geometry: SceneGeometry; pair: MotionPair; clock: Clock; label: string }) {
  const time = useTime(clock);
  const robots = useMemo((): SceneRobot[] => {
    const recorded: SceneRobot = { label: "recorded", geometry, motion: pair.recorded };
    return pair.replayed ? [recorded, { label: "twin's replay", geometry, motion: pair.replayed, ghost: true }] : [recorded];
  }, [geometry, pair]);
  return <Scene3D label={label} robots={robots} time={time} height={340} />;
}

/** The scene with a choice of twins, and the differences below it. */
export function Replay({ episode, clock }: { episode: EpisodeAnswer; clock: Clock }) {
  const [twin, setTwin] = useQueryState("twin");
  const where = { dataset: episode.dataset, episode: episode.episode };
  const twins = useApi<TwinChoice[]>("/api/episode/twins", where);
  const chosen = twins.data?.find((one) => one.place === twin)?.place ?? twins.data?.[0]?.place;
  const params = { ...where, twin: chosen };
  const geometry = useApi<SceneGeometry>(chosen ? "/api/episode/geometry" : null, params);
  const pair = useApi<MotionPair>(chosen ? "/api/episode/motion" : null, params);
  const error = twins.error ?? geometry.error ?? pair.error;
  const choice = twins.data && twins.data.length > 1 && chosen && (
    <SelectField label="Twin" hideLabel value={chosen} onValue={setTwin} options={twins.data.map((one) => ({ value: one.place, label: one.title }))} />
  );
  return (
    <Card title="Recording and twin" note={pair.data?.reason ? `No replay: ${pair.data.reason}` : "The twin starts where the recording does and gets the same commands."} actions={choice}>
      {twins.data?.length === 0 && <Empty icon="twin" title="No twin to replay in">This workspace has no twin of the robot: <code>twinloop init DIR --twin NAME</code></Empty>}
      <ErrorBox error={error} onRetry={pair.reload} />
      {chosen && !error && !(geometry.data && pair.data) && <div class="scene-wait"><Loading rows={3} /></div>}
      {geometry.data && pair.data && (
        <>
          <View geometry={geometry.data} pair={pair.data} clock={clock} label={`Episode ${episode.episode} and its replay in ${pair.data.twin}`} />
          {pair.data.replayed && <Differences pair={pair.data} clock={clock} />}
        </>
      )}
    </Card>
  );
}
