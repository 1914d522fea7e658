// Where real data lies outside what simulation covers: the map, its regions, and what an outline on it selects.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, useApi } from "../api";
import { PointMap, type Handle, type Tool } from "../coverage/PointMap";
import type { Scene } from "../coverage/painter";
import { choose, FAILED, loadColumn, loadOwners, NO_REGION, outlineText, thin, type Corner, type Owners } from "../coverage/points";
import { Selected } from "../coverage/Selected";
import { ago, count, percent, plural } from "../format";
import { Link, useQueryState } from "../router";
import type { CoverageAnswer, CoverageLevel, CoverageLine, Region } from "../types";
import { Badge, Button, Card, CheckField, Command, DatasetField, Empty, ErrorBox, Loading, OutcomeBadge, Page, RunJob, Segmented, SelectField } from "../ui";

const MOST_CORNERS = 400;

/** Arrays of the chosen level and axes; null while they load. */
function usePoints(coverage: string, level: string, across: string, up: string) {
  const [found, set] = useState<{ key: string; owners: Owners; x: Float32Array; y: Float32Array } | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const key = [coverage, level, across, up].join("\n");
  useEffect(() => {
    const abort = new AbortController();
    setError(null);
    Promise.all([loadOwners(coverage, level, abort.signal), loadColumn(coverage, level, across, abort.signal), loadColumn(coverage, level, up, abort.signal)]).then(
      ([owners, x, y]) => set({ key, owners, x, y }),
      (failure: unknown) => {
        if (!abort.signal.aborted) setError(failure instanceof ApiError ? failure : new ApiError({ what: String(failure) }, 0));
      },
    );
    return () => abort.abort();
  }, [key]);
  return { points: found?.key === key ? found : null, error };
}

function Regions({ answer, selected, onSelect }: { answer: CoverageAnswer; selected: number | null; onSelect: (index: number | null) => void }) {
  if (!answer.regions.length) return <p class="pad soft">No region of the real data lies outside simulation.</p>;
  const row = (region: Region, index: number, lead = "") => (
    <tr key={lead + region.name} class={lead ? "faint" : undefined} aria-selected={selected === index}>
      <td>
        {lead ? <span class="region-part">{lead}{region.name}</span> : (
          <button type="button" class="region-name" onClick={() => onSelect(selected === index ? null : index)} aria-pressed={selected === index}>
            <span class={`swatch swatch-${index % 8}`} />
            <span>{region.name}{region.offset && <span class="soft"> (offset of all data)</span>}</span>
          </button>
        )}
      </td>
      <td class="number">{percent(region.fraction, 1)}</td>
      <td class="number">{count(region.episodes.length)}</td>
      <td class="number">{count(region.sim_episodes)}</td>
      <td class="number">
        {region.outcomes.known_inside ? `${region.outcomes.failed_inside} of ${region.outcomes.known_inside}` : "–"}
        {region.outcomes.worse && <> <Badge tone="bad">fails more</Badge></>}
      </td>
    </tr>
  );
  return (
    <div class="scroll-x">
      <table class="plain-table">
        <thead><tr><th>Region</th><th class="number">Real data</th><th class="number">Real episodes</th><th class="number">Simulated</th><th class="number">Failed inside</th></tr></thead>
        <tbody>{answer.regions.flatMap((region, i) => [row(region, i), ...(region.worst ? [row(region.worst, i, "mostly where ")] : [])])}</tbody>
      </table>
    </div>
  );
}

/** The picked point: whose it is, and the way to its episode. */
function Picked({ answer, owners, index, real }: { answer: CoverageAnswer; owners: Owners; index: number; real: number }) {
  const side = index < real ? answer.real : answer.sim;
  const episode = owners.episode[index] as number;
  const region = owners.region[index] as number;
  const ended = owners.ended[index] as number;
  const row = owners.row[index] as number;
  return (
    <Card title={`Episode ${episode}, row ${row}`} note={`${index < real ? "real" : "simulated"}, ${side.summary.dataset}`}>
      <div class="stack">
        <div class="row row-wrap">
          {ended ? <OutcomeBadge success={ended !== FAILED} /> : <Badge>outcome unknown</Badge>}
          {region !== NO_REGION && <Badge tone="warn">outside simulation</Badge>}
        </div>
        {region !== NO_REGION && <p class="soft small">{answer.regions[region]?.name}</p>}
        {side.path && <Link class="button button-plain button-small" href={`/episode/${encodeURIComponent(side.path)}/${episode}`}>Open the episode</Link>}
      </div>
    </Card>
  );
}

/** Another axis of the same thing, such as `object.y` beside `object.x`, or any other. */
function kin(names: readonly string[], across: string): string | undefined {
  const stem = across.split(".")[0] ?? "";
  const others = names.filter((name) => name !== across);
  return (across.includes(".") ? others.find((name) => name.startsWith(`${stem}.`)) : undefined) ?? others[0];
}

function Map({ answer, level, onLevel, region, onRegion }: { answer: CoverageAnswer; level: CoverageLevel; onLevel: (level: string) => void; region: number | null; onRegion: (index: number | null) => void }) {
  const names = level.axes.map((axis) => axis.name);
  const [acrossText, setAcross] = useQueryState("across");
  const [upText, setUp] = useQueryState("up");
  const wanted = region === null ? [] : (answer.regions[region]?.conditions ?? []).map((one) => ("variable" in one ? one.variable : "")).filter((name) => names.includes(name));
  const across = names.includes(acrossText) ? acrossText : (wanted[0] ?? names[0] ?? "");
  const up = names.includes(upText) && upText !== across ? upText : (wanted.find((name) => name !== across) ?? kin(names, across) ?? across);
  const { points, error } = usePoints(answer.path, level.name, across, up);
  const [tool, setTool] = useState<Tool>("move");
  const [by, setBy] = useState<"region" | "outcome">("region");
  const [showReal, setShowReal] = useState(true);
  const [showSim, setShowSim] = useState(true);
  const [outline, setOutline] = useState<Corner[]>([]);
  const [done, setDone] = useState<{ corners: Corner[]; count: number } | null>(null);
  const [chosen, setChosen] = useState<Uint8Array | null>(null);
  const [picked, setPicked] = useState<number | null>(null);
  const handle = useRef<Handle | null>(null);
  const only = region !== null && answer.regions[region]?.level === level.name ? region : null;
  const scene: Scene | null = useMemo(
    () => points && { x: points.x, y: points.y, owners: points.owners, real: level.real, showReal, showSim, only, by, chosen },
    [points, showReal, showSim, only, by, chosen, level],
  );
  useEffect(() => {
    setOutline([]);
    setDone(null);
    setChosen(null);
    setPicked(null);
  }, [answer.path, level.name, across, up, region]);
  const drawn = useCallback((corners: Corner[], finished: boolean): void => {
    const few = thin(corners, MOST_CORNERS);
    setOutline(few);
    if (!finished || !scene) return;
    const found = choose(scene.x, scene.y, few, (i) => (i < scene.real ? scene.showReal : scene.showSim));
    setChosen(found.count ? found.chosen : null);
    setDone({ corners: few, count: found.count });
  }, [scene]);
  const clear = (): void => {
    setOutline([]);
    setDone(null);
    setChosen(null);
  };
  const axisOf = (name: string) => {
    const axis = level.axes.find((one) => one.name === name);
    return { name, unit: axis?.unit ?? "", scaled: !name.startsWith("map ") };
  };
  return (
    <div class="map-layout">
      <div class="card card-flush map-card">
        <div class="map-tools">
          <SelectField label="Points" value={level.name} onValue={onLevel} options={answer.levels.map((one) => ({ value: one.name, label: one.name === "moment" ? "during episodes" : "start of episodes" }))} />
          <SelectField label="Across" value={across} onValue={setAcross} options={names} />
          <SelectField label="Up" value={up} onValue={setUp} options={names} />
          <div class="map-buttons">
            <Segmented label="Tool" value={tool} onValue={(value) => setTool(value as Tool)} options={[{ value: "move", label: "Move" }, { value: "lasso", label: "Lasso", title: "Draw around points; Shift and drag does the same" }]} />
            <Segmented label="Colours" value={by} onValue={(value) => setBy(value as "region" | "outcome")} options={[{ value: "region", label: "Regions" }, { value: "outcome", label: "Outcomes" }]} />
            <Button small kind="quiet" aria-label="Zoom in" icon="plus" onClick={() => handle.current?.zoom(0.8)} />
            <Button small kind="quiet" aria-label="Zoom out" icon="minus" onClick={() => handle.current?.zoom(1.25)} />
            <Button small kind="quiet" onClick={() => handle.current?.fit()}>Fit</Button>
          </div>
        </div>
        <div class="map-stage">
          {scene ? <PointMap scene={scene} across={axisOf(across)} up={axisOf(up)} tool={tool} outline={outline} picked={picked} onOutline={drawn} onPick={setPicked} handle={handle} /> : !error && <div class="pad"><Loading /></div>}
          <ErrorBox error={error} />
        </div>
        <div class="map-legend">
          <CheckField checked={showReal} onValue={setShowReal} label={<><span class="swatch swatch-real" /> {count(level.real)} real</>} />
          <CheckField checked={showSim} onValue={setShowSim} label={<><span class="swatch swatch-sim" /> {count(level.sim)} simulated</>} />
          <span class="soft small grow right">Drag to move, wheel to zoom, Shift and drag to outline.</span>
        </div>
      </div>
      <div class="stack map-side">
        {done && <Selected coverage={answer.path} level={level.name} across={across} up={up} polygon={outlineText(done.corners)} points={done.count} dataset={answer.real.path} onClear={clear} />}
        {!done && (
          <Card title="Outline a region">
            <p class="soft">Draw around points with the lasso. They become a saved query, or an item of the plan that says what to record there.</p>
          </Card>
        )}
        {picked !== null && points && <Picked answer={answer} owners={points.owners} index={picked} real={level.real} />}
        {region !== null && <Button small onClick={() => onRegion(null)}>Show all regions</Button>}
      </div>
    </div>
  );
}

function OneCoverage({ path }: { path: string }) {
  const { data, error, reload } = useApi<CoverageAnswer>("/api/coverage/coverage", { coverage: path }, ["workspace"]);
  const [levelName, setLevel] = useQueryState("level");
  const [regionText, setRegion] = useQueryState("region");
  if (error) return <ErrorBox error={error} onRetry={reload} />;
  if (!data) return <Loading rows={6} />;
  const region = regionText !== "" && data.regions[Number(regionText)] ? Number(regionText) : null;
  const asked = levelName || (region !== null ? data.regions[region]?.level : "") || "moment";
  const level = data.levels.find((one) => one.name === asked) ?? data.levels[0];
  const choose = (index: number | null): void => {
    setRegion(index === null ? "" : String(index));
    const own = index === null ? undefined : data.regions[index]?.level;
    if (own) setLevel(own);
  };
  const outside = data.regions.filter((one) => !one.offset).length;
  return (
    <>
      <div class={outside ? "verdict verdict-warn" : "verdict verdict-good"}>
        <strong>{outside ? `${percent(data.outside)} of the real data is outside simulation` : "Covered"}</strong>
        <span>{outside ? `in ${plural(outside, "region")}` : "no region of the real data lies outside simulation"}; {plural(data.real.summary.episodes, "real episode")}, {plural(data.sim.summary.episodes, "simulated one")}.</span>
      </div>
      <Card title="Regions" flush><Regions answer={data} selected={region} onSelect={choose} /></Card>
      {level ? (
          <Map key={level.name} answer={data} level={level} onLevel={setLevel} region={region} onRegion={choose} />
      ) : (
        <Card title="No map"><p class="soft">This coverage was measured before maps were kept. Measure it again to look at its points.</p></Card>
      )}
      {data.missing.map((line) => <p key={line} class="soft small">Not compared: {line}</p>)}
    </>
  );
}

/** Coverage measured as a job, into a folder of its own. */
function Measure({ known, onDone, primary = false }: { known: readonly CoverageLine[]; onDone: () => void; primary?: boolean }) {
  const [real, setReal] = useState("");
  const [sim, setSim] = useState("");
  let number = known.length + 1;
  while (known.some((one) => one.path === `reports/coverage-${number}`)) number += 1;
  const out = `reports/coverage-${number}`;
  return (
    <RunJob button="Measure …" title="Measure coverage" command={real && sim ? ["coverage", "--real", real, "--sim", sim, "--out", out] : null} onDone={onDone} primary={primary}>
      <DatasetField label="Episodes of the robot" value={real} onValue={setReal} wanted="robot" />
      <DatasetField label="Simulated episodes" value={sim} onValue={setSim} wanted="simulation" hint={`The result is kept in ${out}.`} />
    </RunJob>
  );
}

export default function CoverageRoom() {
  const { data, error, reload } = useApi<CoverageLine[]>("/api/coverage", {}, ["workspace"]);
  const [chosen, setChosen] = useQueryState("coverage");
  const readable = (data ?? []).filter((one) => !one.problem);
  const path = readable.find((one) => one.path === chosen)?.path ?? readable[0]?.path;
  const choice = readable.length > 1 && path && (
    <SelectField label="Coverage" hideLabel value={path} onValue={setChosen} options={readable.map((one) => ({ value: one.path, label: `${one.real} against ${one.sim}, ${ago(one.at)}` }))} />
  );
  return (
    <Page title="Coverage" lead="Where the robot's data lies outside what simulation shows, and whether episodes fail there." actions={data && path ? <>{choice}<Measure known={data} onDone={reload} /></> : undefined}>
      <ErrorBox error={error} onRetry={reload} />
      {(data ?? []).filter((one) => one.problem).map((one) => <p key={one.path} class="field-error">{one.path}: {one.problem}</p>)}
      {!data && !error && <Loading />}
      {data && !path && (
        <Empty icon="coverage" title="Coverage was not measured yet" action={<Measure known={data} onDone={reload} primary />}>
          It compares episodes of the robot with simulated ones.
          <Command text="twinloop coverage --real data/REAL --sim data/SIM --out reports/coverage" />
        </Empty>
      )}
      {path && <OneCoverage key={path} path={path} />}
    </Page>
  );
}
