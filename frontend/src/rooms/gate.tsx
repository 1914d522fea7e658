// Verdicts and what they rest on: paired trials, the e-value over them, slices, checks.
import { useMemo } from "preact/hooks";
import { useApi } from "../api";
import { ago, count, number, percent, plural, when } from "../format";
import { Link, useQueryState } from "../router";
import type { PairedTrial, Statistics, VerdictAnswer, VerdictLine } from "../types";
import { Badge, Card, Chart, Command, Empty, ErrorBox, Icon, Loading, Page, type Tone } from "../ui";

const DECISIONS: Record<string, { words: string; tone: Tone; kind: string }> = {
  promote: { words: "Promote", tone: "good", kind: "verdict-good" },
  refuse: { words: "Refuse", tone: "bad", kind: "verdict-bad" },
  more: { words: "More trials", tone: "warn", kind: "verdict-warn" },
};
const CHECKS: Record<string, { icon: "check" | "alert" | "info"; tone: Tone }> = {
  passed: { icon: "check", tone: "good" },
  failed: { icon: "alert", tone: "bad" },
};

const points = (value: number | null | undefined): string => (value === null || value === undefined ? "–" : `${value >= 0 ? "+" : "−"}${number(Math.abs(100 * value), 3)}`);
const LN10 = Math.log(10);

function EValue({ found, alpha }: { found: Statistics; alpha: number }) {
  const x = useMemo(() => found.log_e_value.map((_, i) => i + 1), [found]);
  const shown = (value: number): number => value / LN10;
  const series = useMemo(() => [
    { label: "for: the gain is above the bar", values: found.log_e_value.map(shown), color: "--good", width: 2 },
    { label: "against: no gain worth having", values: found.log_against.map(shown), color: "--bad", width: 2 },
    { label: `needed: ${number(1 / alpha)}`, values: x.map(() => shown(Math.log(1 / alpha))), color: "--text-soft", dash: [4, 4] },
  ], [found]);
  return <Chart title="E-value over the trials, as a power of ten" x={x} series={series} xLabel="trial" height={220} />;
}

function Estimate({ found, unit }: { found: Statistics; unit: string }) {
  const x = useMemo(() => found.outcomes.map((_, i) => i + 1), [found]);
  const mean = useMemo(() => {
    let sum = 0;
    return found.outcomes.map((one, i) => (100 * (sum += one)) / (i + 1));
  }, [found]);
  const series = useMemo(() => [
    { label: unit, values: mean, color: "--accent", width: 2 },
    { label: "bar", values: x.map(() => 100 * found.bar), color: "--text-soft", dash: [4, 4] },
  ], [found]);
  const bands = useMemo(() => (found.lows.length ? [{ label: "95 %", low: found.lows.map((v) => 100 * v), high: found.highs.map((v) => 100 * v) }] : []), [found]);
  return <Chart title={`${found.paired ? "Gain in success points" : "Success rate, per cent"}, with the interval that holds at all times`} x={x} series={series} bands={bands} xLabel="trial" height={220} />;
}

const outcome = (success: boolean | null | undefined): string => (success === null || success === undefined ? "not tried" : success ? "succeeded" : "failed");
const mark = (success: boolean | null | undefined): string => (success === null || success === undefined ? "trial-none" : success ? "trial-good" : "trial-bad");

function Trials({ trials, champion }: { trials: readonly PairedTrial[]; champion: string | null }) {
  const both = trials.filter((one) => one.candidate && one.champion).length;
  const gained = trials.filter((one) => one.candidate && one.champion === false).length;
  const lost = trials.filter((one) => !one.candidate && one.champion).length;
  return (
    <div class="stack">
      <div class="trials" role="list" aria-label="Trials in order">
        {trials.map((one, i) => {
          const words = `Trial ${i + 1}, scene ${one.scene}: candidate ${outcome(one.candidate)}${champion ? `, champion ${outcome(one.champion)}` : ""}`;
          const values = Object.entries(one.values ?? {}).map(([name, value]) => `${name} ${number(value)}`).join(", ");
          return (
            <span key={i} class="trial" role="listitem" title={values ? `${words}\n${values}` : words} aria-label={words}>
              <span class={mark(one.candidate)} />
              {champion && <span class={mark(one.champion)} />}
            </span>
          );
        })}
      </div>
      <p class="soft small">
        {champion
          ? `Candidate above, ${champion} below, in the same scenes. Both succeeded in ${both}, only the candidate in ${gained}, only the champion in ${lost}, neither in ${trials.length - both - gained - lost}.`
          : "One square for each trial of the candidate."}
      </p>
    </div>
  );
}

function Slices({ found }: { found: Statistics }) {
  const tones: Record<string, Tone> = { worse: "bad", "not worse": "good", open: "warn" };
  if (!found.slices.length) return <p class="pad soft">No value varies between the scenes, so there are no slices.</p>;
  return (
    <div class="scroll-x">
      <table class="plain-table">
        <thead><tr><th>Slice</th><th class="number">Simulated</th><th class="number">points</th><th class="number">Real</th><th class="number">points</th><th>Standing</th></tr></thead>
        <tbody>
          {found.slices.map((one) => (
            <tr key={one.name}>
              <td>{one.name}</td>
              <td class="number">{count(one.simulated)}</td><td class="number">{points(one.simulated_mean)}</td>
              <td class="number">{count(one.real)}</td><td class="number">{points(one.real_mean)}</td>
              <td><Badge tone={tones[one.standing] ?? "neutral"} title={one.shown_by ? `shown by ${one.shown_by} trials` : "not shown yet"}>{one.standing}</Badge></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function OneVerdict({ folder }: { folder: string }) {
  const { data, error, reload } = useApi<VerdictAnswer>("/api/gate/verdict", { folder }, ["workspace"]);
  if (error) return <ErrorBox error={error} onRetry={reload} />;
  if (!data) return <Loading rows={6} />;
  const { verdict } = data;
  const decided = DECISIONS[verdict.decision] ?? { words: verdict.decision, tone: "neutral" as Tone, kind: "" };
  const found = verdict.statistics;
  const robot = verdict.standin ? "stand-in" : "robot";
  return (
    <div class="stack">
      <div class={`verdict ${decided.kind}`}>
        <strong>{decided.words}{verdict.more ? `: ${count(verdict.more)} more` : ""}</strong>
        <span>{verdict.reasons.join("; ")}</span>
      </div>
      {data.contradiction && <ErrorBox error={{ what: data.contradiction, remedy: "do not promote on this verdict; run the gate again" }} />}
      <Card title={`${verdict.candidate.name} against ${verdict.champion?.name ?? "the bar"}`} note={`${when(verdict.decided_at)}; ${verdict.robot ? `${robot} ${verdict.robot}` : "simulation only"}`} actions={verdict.decision === "promote" ? <Link class="button button-plain button-small" href={`/policies?promote=${encodeURIComponent(verdict.candidate.id)}&verdict=${encodeURIComponent(folder)}`}>Promote …</Link> : undefined}>
        <dl class="facts">
          <dt>{found.paired ? "Gain" : "Success rate"}</dt><dd>{found.estimate === null ? "no trials yet" : found.paired ? `${points(found.estimate)} points [${points(found.low)}, ${points(found.high)}]` : `${percent(found.estimate, 1)} [${percent(found.low)}, ${percent(found.high)}]`}</dd>
          <dt>Bar</dt><dd>{found.paired ? `${points(found.bar)} points` : percent(found.bar)}, wrong promotions in at most {percent(verdict.rules.alpha)} of gates, whenever one looks</dd>
          <dt>Trials</dt><dd>{count(found.trials)} of at most {count(verdict.rules.max_trials)} on the {robot}, {count(data.simulated)} simulated{found.correlation !== null && `; simulation predicts them with correlation ${number(found.correlation, 2)}`}</dd>
        </dl>
      </Card>
      {found.outcomes.length > 0 && (
        <div class="grid-2">
          <Card><EValue found={found} alpha={verdict.rules.alpha} /></Card>
          <Card><Estimate found={found} unit={found.paired ? "gain" : "success rate"} /></Card>
        </div>
      )}
      {data.real.length > 0 && <Card title="Paired trials"><Trials trials={data.real} champion={verdict.champion?.name ?? null} /></Card>}
      <Card title="Slices" note={`Worse by more than ${number(100 * verdict.rules.slice_margin)} points in any slice refuses a candidate.`} flush><Slices found={found} /></Card>
      <Card title="Checks">
        <ul class="checklist">
          {verdict.checks.map((one) => {
            const look = CHECKS[one.status] ?? { icon: "info" as const, tone: "neutral" as Tone };
            return <li key={one.name}><Badge tone={look.tone}>{one.status}{one.accepted ? ", accepted" : ""}</Badge><span><b>{one.name}</b> <span class="soft">{one.detail}</span></span></li>;
          })}
        </ul>
      </Card>
    </div>
  );
}

export default function GateRoom() {
  const { data, error, reload } = useApi<VerdictLine[]>("/api/gate", {}, ["workspace"]);
  const [chosen, setChosen] = useQueryState("gate");
  const readable = (data ?? []).filter((one) => !one.problem);
  const folder = readable.find((one) => one.folder === chosen)?.folder ?? readable[0]?.folder;
  return (
    <Page title="Gate" lead="Whether a candidate may take the champion's place, on trials that may be looked at any time.">
      <ErrorBox error={error} onRetry={reload} />
      {!data && !error && <Loading />}
      {data && !data.length && (
        <Empty icon="gate" title="No policy has been at the gate yet">
          The gate tries a candidate and the champion in the same scenes, until the evidence suffices.
          <Command text="twinloop gate CANDIDATE --champion CHAMPION --robot ROBOT --out gates/NAME" />
        </Empty>
      )}
      {data && data.length > 0 && (
        <div class="gate-layout">
          <section class="card card-flush" aria-label="Verdicts">
            <div class="pick-list">
              {data.map((one) => {
                const decided = DECISIONS[one.decision ?? ""];
                return (
                  <button key={one.folder} type="button" aria-current={one.folder === folder} disabled={Boolean(one.problem)} onClick={() => setChosen(one.folder)}>
                    <span class="row"><b>{one.candidate?.name ?? one.folder}</b>{decided && <Badge tone={decided.tone}>{decided.words.toLowerCase()}</Badge>}</span>
                    <small class="soft">{one.problem ?? `${one.champion ? `against ${one.champion.name}, ` : ""}${plural(one.trials, "trial")}, ${ago(one.decided_at)}`}</small>
                    {one.problem && <small class="soft"><Icon name="alert" size={12} /> cannot be read</small>}
                  </button>
                );
              })}
            </div>
          </section>
          {folder && <OneVerdict key={folder} folder={folder} />}
        </div>
      )}
    </Page>
  );
}
