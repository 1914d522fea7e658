// What is known of an episode: events, draw, origin and lineage, findings, and who labelled it.
import { number, when } from "../../format";
import { datasetTitle, episodeHref } from "../../names";
import { Link, useQueryState } from "../../router";
import type { EpisodeAnswer } from "../../types";
import { Badge, Card, SourceBadge, Tabs, type Tone } from "../../ui";
import { useTime, type Clock } from "./clock";

const TONES: Record<string, Tone> = { note: "neutral", warning: "warn", blocking: "bad" };
const ORIGIN = [
  ["twin", "Twin"], ["twin_version", "Twin version"], ["randomization", "Randomization"], ["engine", "Engine"], ["seed", "Seed"], ["actor", "Actor"],
  ["actor_id", "Acted by"], ["robot_serial", "Robot"], ["site", "Site"], ["recorded_at", "Recorded"], ["consent", "Consent"], ["twin_hash", "Twin hash"],
] as const;

function Events({ episode, clock }: { episode: EpisodeAnswer; clock: Clock }) {
  const time = useTime(clock);
  if (episode.events.length === 0) return <p class="soft">No events were recorded.</p>;
  const current = episode.events.reduce((found, event, i) => (event.time_s <= time + 1e-6 ? i : found), -1);
  return (
    <ol class="events">
      {episode.events.map((event, i) => (
        <li key={i}>
          <button type="button" aria-current={i === current ? "step" : undefined} onClick={() => clock.set(event.time_s)}>
            <span class="soft">{event.time_s.toFixed(2)}</span>
            <span class="event-kind">{event.kind}</span>
            <span class="soft clip" title={event.detail}>{event.detail}</span>
          </button>
        </li>
      ))}
    </ol>
  );
}

function Draw({ episode }: { episode: EpisodeAnswer }) {
  const drawn = episode.draw.filter((one) => !one.name.startsWith("_"));
  if (drawn.length === 0) return <p class="soft">Nothing was randomized: {episode.provenance["source"] === "sim" ? "this is the nominal twin." : "this was recorded."}</p>;
  return (
    <dl class="facts facts-narrow">
      {drawn.map((one) => <><dt class="clip" title={one.name}>{one.name}</dt><dd>{typeof one.value === "number" ? number(one.value, 4) : one.value}</dd></>)}
    </dl>
  );
}

function Origin({ episode }: { episode: EpisodeAnswer }) {
  const known = ORIGIN.filter(([key]) => episode.provenance[key] !== null && episode.provenance[key] !== undefined && episode.provenance[key] !== "unknown");
  const software = Object.entries((episode.provenance["software"] ?? {}) as Record<string, string>);
  return (
    <div class="stack">
      <dl class="facts facts-narrow">
        <dt>Source</dt><dd><SourceBadge source={String(episode.provenance["source"])} /></dd>
        {known.map(([key, title]) => <><dt>{title}</dt><dd class={key.endsWith("hash") ? "mono" : undefined}>{key === "recorded_at" ? when(String(episode.provenance[key])) : String(episode.provenance[key])}</dd></>)}
        <dt>Id</dt><dd class="mono">{episode.id}</dd>
        {software.map(([name, version]) => <><dt>{name}</dt><dd>{version}</dd></>)}
      </dl>
      <div>
        <h3>Made from</h3>
        {episode.parents.length === 0 && <p class="soft">No other episode: this is an original.</p>}
        <ul>
          {episode.parents.map((one) => (
            <li key={one.id}>{one.dataset !== null && one.episode !== null ? <Link href={episodeHref(one.dataset, one.episode)}>{datasetTitle(one.dataset)} #{one.episode}</Link> : <span class="soft mono" title="In no dataset of this workspace">{one.id.slice(0, 12)}…</span>}</li>
          ))}
        </ul>
      </div>
    </div>
  );
}

function Quality({ episode, clock }: { episode: EpisodeAnswer; clock: Clock }) {
  if (!episode.checked) return <p class="soft">Not checked yet: <code>twinloop check {episode.dataset}</code></p>;
  if (episode.findings.length === 0) return <p class="soft">The last check found nothing.</p>;
  return (
    <ul class="stack">
      {episode.findings.map((finding, i) => (
        <li key={i} class="finding">
          <div class="row"><Badge tone={TONES[finding.severity] ?? "neutral"}>{finding.severity}</Badge><span class="strong clip">{finding.code}</span><button type="button" class="link" onClick={() => clock.set(finding.start_s)}>{number(finding.start_s)} s</button></div>
          <p class="small">{finding.channel}: {finding.message}</p>
          <p class="small soft">{finding.remedy}</p>
        </li>
      ))}
    </ul>
  );
}

const words = (field: string, value: unknown): string => (value === null ? `${field}: unknown` : value === true ? field : value === false ? `no ${field}` : value === "" ? `${field}: none` : `${field}: ${String(value)}`);

function History({ episode }: { episode: EpisodeAnswer }) {
  if (episode.labels.length === 0) return <p class="soft">Nobody has labelled this episode.</p>;
  const outcomes = new Map<string, unknown>();
  for (const one of episode.labels) if (one.field === "success" || one.field === "failure") outcomes.set(one.by, one.field === "failure" ? (one.value ?? null) : one.value);
  const views = new Set([...outcomes.values()].filter((value) => value !== null).map((value) => value === true));
  return (
    <div class="stack">
      {views.size > 1 && <p class="disagree"><Badge tone="warn">raters disagree</Badge> Look again, and talk to each other.</p>}
      <ol class="history-list">
        {[...episode.labels].reverse().map((one, i) => <li key={i}><span>{words(one.field, one.value)}</span><small class="soft">{one.by}, {when(one.at)}</small></li>)}
      </ol>
    </div>
  );
}

/** Everything known, in tabs. */
export function Facts({ episode, clock }: { episode: EpisodeAnswer; clock: Clock }) {
  const [tab, setTab] = useQueryState("tab", "events");
  const tabs = [
    { key: "events", title: "Events", count: episode.events.length || null },
    { key: "draw", title: "Draw", count: episode.draw.length || null },
    { key: "origin", title: "Origin" },
    { key: "quality", title: "Quality", count: episode.findings.length || null },
    { key: "labels", title: "Labels", count: episode.labels.length || null },
  ];
  return (
    <Card>
      <Tabs label="What is known" tabs={tabs} selected={tab} onSelect={setTab}>
        <div class="facts-panel">
          {tab === "events" && <Events episode={episode} clock={clock} />}
          {tab === "draw" && <Draw episode={episode} />}
          {tab === "origin" && <Origin episode={episode} />}
          {tab === "quality" && <Quality episode={episode} clock={clock} />}
          {tab === "labels" && <History episode={episode} />}
        </div>
      </Tabs>
    </Card>
  );
}
