// Twin: the scene in 3D as nominal values, a posterior sample or a draw make it look; parameters; versions and decisions.
import { useEffect, useState } from "preact/hooks";
import { useApi } from "../api";
import { number } from "../format";
import { useLocation, useQueryState, type RoomProps } from "../router";
import { useSession } from "../session";
import type { TwinDetail, TwinScene, Twins } from "../types";
import { Button, Card, Empty, ErrorBox, Loading, Page, Scene3D, SelectField } from "../ui";
import { Parameters } from "./twin/Parameters";
import { Differences, StateBadge, Versions } from "./twin/Versions";
import { shortPlace, useKept } from "./twin/links";

const MOST_NUMBERS = 200;
const PAUSE_MS = 90;

/** A value that follows another one as soon as that rests. */
function useResting<T>(value: T): T {
  const [resting, setResting] = useState(value);
  const key = JSON.stringify(value);
  useEffect(() => {
    const timer = window.setTimeout(() => setResting(value), PAUSE_MS);
    return () => window.clearTimeout(timer);
  }, [key]);
  return resting;
}

export default function Twin({ params }: RoomProps) {
  const { query } = useLocation();
  const named = params["twin"] ? `twins/${params["twin"]}` : query.get("twin");
  const twins = useApi<Twins>("/api/twins", {}, ["workspace"]);
  const session = useSession();
  const place = named ?? twins.data?.current ?? null;
  if (twins.error) return <Page title="Twin"><ErrorBox error={twins.error} onRetry={twins.reload} /></Page>;
  if (!twins.data) return <Page title="Twin"><Card><Loading /></Card></Page>;
  if (!place) {
    return (
      <Page title="Twin">
        <Card><Empty icon="twin" title="This workspace has no twin">A twin is a robot cell with named parameters. Make a workspace with one: <code>twinloop init DIR --twin NAME</code>.</Empty></Card>
      </Page>
    );
  }
  return <OneTwin key={place} place={place} twins={twins.data} readOnly={session?.read_only ?? false} onChange={twins.reload} />;
}

function OneTwin({ place, twins, readOnly, onChange }: { place: string; twins: Twins; readOnly: boolean; onChange: () => void }) {
  const { data, error } = useApi<TwinDetail>("/api/twins/detail", { twin: place });
  const version = twins.versions.find((one) => one.twin === place);
  const lead = data && `${data.robot || "robot"}, task ${data.task || "none"}: control at ${number(data.control_hz)} Hz, physics at ${number(1000 * data.physics_dt_s)} ms, ${data.parameters.length} parameters.`;
  return (
    <Page title={<>{shortPlace(place)} {version && <StateBadge state={version.state} />}</>} lead={lead ?? undefined}>
      <ErrorBox error={error} />
      {!data && !error && <Card><Loading rows={8} /></Card>}
      {data && <Look detail={data} />}
      <Versions twins={twins} shown={place} readOnly={readOnly} onChange={onChange} />
      <Differences twins={twins} shown={place} />
    </Page>
  );
}

/** The scene beside the parameters that shape it. */
function Look({ detail }: { detail: TwinDetail }) {
  const [source, setSource] = useQueryState("values", "nominal");
  const [numberText, setNumber] = useQueryState("number", "0");
  const [own, setOwn] = useState<Record<string, number | string>>({});
  const chosen = detail.sources.find((one) => one.name === source) ?? detail.sources[0];
  const last = Math.min(MOST_NUMBERS, chosen?.count ?? 1) - 1;
  const at = Math.min(last, Math.max(0, Number.parseInt(numberText, 10) || 0));
  const asked = useResting({ twin: detail.twin, source: chosen?.name ?? "nominal", number: at, set: Object.keys(own).length ? JSON.stringify(own) : "" });
  const { data, error } = useApi<TwinScene>("/api/twins/scene", asked);
  const scene = useKept(data);
  const words = chosen?.kind === "posterior" ? `Sample ${at + 1} of the posterior` : chosen?.kind === "randomization" ? `Draw ${at + 1} from ${chosen.name}` : "Nominal values";
  return (
    <div class="twin-look">
      <Card
        title="Scene"
        note={`${words}${Object.keys(own).length ? `, with ${Object.keys(own).length} of your own` : ""}`}
        actions={Object.keys(own).length > 0 && <Button small icon="undo" onClick={() => setOwn({})}>Undo my values</Button>}
      >
        <div class="stack">
          {scene ? <Scene3D label={`The twin ${detail.name}, ${words.toLowerCase()}`} robots={[{ label: detail.name, geometry: scene.geometry }]} height={400} /> : !error && <div class="scene-space" aria-busy="true" />}
          <ErrorBox error={error} />
          <div class="twin-source">
            <SelectField label="Values" value={chosen?.name ?? "nominal"} onValue={(name) => { setSource(name); }} options={detail.sources.map((one) => ({ value: one.name, label: sourceLabel(one.name, one.about) }))} />
            {last > 0 && (
              <label class="twin-slider">
                <span>{chosen?.kind === "posterior" ? "Sample" : "Draw"} {at + 1} of {last + 1}</span>
                <input type="range" min={0} max={last} value={at} aria-label={chosen?.kind === "posterior" ? "Posterior sample" : "Draw of the randomization"} onInput={(event) => setNumber(event.currentTarget.value)} />
              </label>
            )}
          </div>
        </div>
      </Card>
      <Parameters detail={detail} source={chosen?.name ?? "nominal"} values={scene?.values ?? {}} own={own} onOwn={setOwn} />
    </div>
  );
}

function sourceLabel(name: string, about: string): string {
  if (name === "nominal") return "nominal";
  if (name === "posterior") return "posterior samples";
  return `${shortPlace(name).replace(/^loop\//, "")}: ${about}`;
}
