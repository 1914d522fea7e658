// Parameters of a twin: a list to search, and one of them with its slider, its posterior and what a randomization draws.
import { useMemo } from "preact/hooks";
import { useApi } from "../../api";
import { number } from "../../format";
import { useQueryState } from "../../router";
import type { ParameterDetail, TwinDetail, TwinParameter } from "../../types";
import { Badge, Button, Card, ErrorBox, Histogram, SelectField, Table, TextField, type Column, type Mark, type Tone } from "../../ui";

interface Props {
  detail: TwinDetail;
  /** Where the values come from. */
  source: string;
  /** Values that are not nominal, by parameter. */
  values: Record<string, number | string>;
  /** Values that the person set. */
  own: Record<string, number | string>;
  onOwn: (own: Record<string, number | string>) => void;
}

const STATUS: Record<string, Tone> = { identifiable: "good", weak: "warn", "not identifiable": "neutral" };
const STEPS = 400;

const write = (value: number | string): string => (typeof value === "string" ? value : number(value));

export function Parameters({ detail, source, values, own, onOwn }: Props) {
  const [text, setText] = useQueryState("find");
  const [dimension, setDimension] = useQueryState("dimension", "all");
  const [name, setName] = useQueryState("parameter", firstOf(detail));
  const rows = useMemo(() => detail.parameters.filter((one) => (dimension === "all" || one.dimension === dimension || (dimension === "identified" && one.status != null)) && (!text || `${one.name} ${one.description}`.toLowerCase().includes(text.toLowerCase()))), [detail, text, dimension]);
  const dimensions = [...new Set(detail.parameters.map((one) => one.dimension))];
  const identified = detail.parameters.some((one) => one.status != null);
  const chosen = detail.parameters.find((one) => one.name === name) ?? detail.parameters[0];
  const columns: Column<TwinParameter>[] = [
    { key: "name", title: "Parameter", width: "minmax(150px, 1.6fr)", render: (one) => <span class="twin-parameter">{one.name}{one.name in own && <Badge tone="accent">set</Badge>}</span> },
    { key: "nominal", title: "Nominal", width: "minmax(70px, 0.7fr)", align: "right", render: (one) => write(one.nominal) },
    { key: "now", title: "Now", width: "minmax(70px, 0.7fr)", align: "right", render: (one) => <strong class={one.name in values ? "twin-changed" : undefined}>{write(values[one.name] ?? one.nominal)}</strong> },
    { key: "unit", title: "Unit", width: "58px", render: (one) => (one.unit === "1" ? "" : one.unit) },
  ];
  return (
    <Card title="Parameters" note={`${rows.length} of ${detail.parameters.length}; choose one to move it.`}>
      <div class="stack">
        <div class="twin-find">
          <TextField label="Search parameters" hideLabel type="search" placeholder="Search parameters" value={text} onValue={setText} />
          <SelectField label="Dimension" hideLabel value={dimension} onValue={setDimension} options={[{ value: "all", label: "all dimensions" }, ...(identified ? [{ value: "identified", label: "identified" }] : []), ...dimensions.map((one) => ({ value: one }))]} />
        </div>
        <Table label="Parameters of the twin" columns={columns} rows={rows} rowHeight={30} height={214} selected={chosen ? rows.indexOf(chosen) : null} onSelect={(one) => setName(one.name)} empty="No parameter matches." />
        {chosen && <One key={chosen.name} detail={detail} one={chosen} source={source} now={values[chosen.name] ?? chosen.nominal} own={own} onOwn={onOwn} />}
      </div>
    </Card>
  );
}

/** One parameter: nominal, posterior and drawn values on one axis, and the slider. */
function One({ detail, one, source, now, own, onOwn }: { detail: TwinDetail; one: TwinParameter; source: string; now: number | string; own: Record<string, number | string>; onOwn: (own: Record<string, number | string>) => void }) {
  const posterior = detail.sources.some((each) => each.name === "posterior") && one.status != null;
  const drawn = source === "nominal" || source === "posterior" ? "default" : source;
  const { data, error } = useApi<ParameterDetail>("/api/twins/parameter", { twin: detail.twin, name: one.name, sources: [...(posterior ? ["posterior"] : []), drawn] });
  const set = (value: number | string): void => onOwn({ ...own, [one.name]: value });
  const undo = (): void => onOwn(Object.fromEntries(Object.entries(own).filter(([key]) => key !== one.name)));
  const tones: Record<string, string> = { posterior: "real" };
  const marks: Mark[] = [];
  if (typeof one.nominal === "number") marks.push({ label: one.before == null ? "nominal" : "calibrated", value: one.nominal, tone: "plain" });
  if (one.before != null && one.before !== one.nominal) marks.push({ label: "before", value: one.before, tone: "warn" });
  if (typeof now === "number" && now !== one.nominal) marks.push({ label: "now", value: now, tone: "accent" });
  const spreads = (data?.spreads ?? []).map((spread) => ({ ...spread, label: spread.source === "posterior" ? "posterior" : `drawn, ${spread.source}`, tone: tones[spread.source] ?? "sim" }));
  return (
    <section class="twin-one" aria-label={`Parameter ${one.name}`}>
      <header class="row row-spread">
        <div>
          <h3>{one.name}</h3>
          <p class="soft">{one.description || one.dimension}</p>
        </div>
        {one.status && <Badge tone={STATUS[one.status] ?? "neutral"}>{one.status}</Badge>}
      </header>
      <ErrorBox error={error} />
      {one.words && <p class="twin-words">{one.words}</p>}
      <Slider one={one} now={now} onSet={set} spreads={data} />
      {spreads.length > 0 ? <Histogram title={`Values of ${one.name}`} spreads={spreads} marks={marks} unit={one.unit} /> : data && <p class="soft">Neither identified nor varied by {drawn}.</p>}
      {one.name in own && <Button small icon="undo" onClick={undo}>Undo</Button>}
    </section>
  );
}

function Slider({ one, now, onSet, spreads }: { one: TwinParameter; now: number | string; onSet: (value: number | string) => void; spreads: ParameterDetail | null }) {
  if (one.choices.length) return <SelectField label={one.name} hideLabel value={String(now)} onValue={onSet} options={one.choices} />;
  const value = typeof now === "number" ? now : 0;
  const [low, high] = rangeOf(one, spreads, value);
  return (
    <label class="twin-slider">
      <input type="range" min={low} max={high} step={one.whole ? 1 : (high - low) / STEPS} value={value} aria-label={`Value of ${one.name}`} onInput={(event) => onSet(one.whole ? Math.round(Number(event.currentTarget.value)) : Number(event.currentTarget.value))} />
      <output>{`${number(value, 4)}${one.unit === "1" ? "" : ` ${one.unit}`}`}</output>
    </label>
  );
}

/** The bounds; where these are far wider than what is ever seen, what is seen with room to either side. */
function rangeOf(one: TwinParameter, detail: ParameterDetail | null, value: number): [number, number] {
  const nominal = typeof one.nominal === "number" ? one.nominal : 0;
  const edges = (detail?.spreads ?? []).flatMap((spread) => [spread.edges[0], spread.edges[spread.edges.length - 1]]).filter((edge): edge is number => edge !== undefined);
  const seen = [...edges, nominal, value];
  const reach = Math.max(Math.max(...seen) - Math.min(...seen), Math.abs(nominal), 1e-6);
  const low = Math.max(one.low ?? -Infinity, Math.min(...seen) - reach);
  const high = Math.min(one.high ?? Infinity, Math.max(...seen) + reach);
  return high > low ? [low, high] : [low - 1, high + 1];
}

function firstOf(detail: TwinDetail): string {
  const names = ["object_size_m", "action_delay_s"];
  const known = names.find((name) => detail.parameters.some((one) => one.name === name));
  return known ?? detail.parameters[0]?.name ?? "";
}
