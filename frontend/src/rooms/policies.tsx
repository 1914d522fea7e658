// How policies learned, which of them is in use, and the registry: promote, stage, roll back, verify.
import { useEffect, useMemo, useState } from "preact/hooks";
import { post, useAction, useApi } from "../api";
import { ago, count, number, plural, when } from "../format";
import { useQueryState } from "../router";
import { storedName, useSession } from "../session";
import type { ChangeAnswer, PolicyLine, RegistrySummary, VerdictLine, VerifiedAnswer } from "../types";
import { Badge, Button, ByField, Card, Chart, CheckField, Command, Dialog, Empty, ErrorBox, Icon, Loading, Page, SelectField, TextField, toast, type Tone } from "../ui";

const ROLES = [
  { alias: "champion", stage: "full", title: "Champion", note: "acts in every episode" },
  { alias: "challenger", stage: "canary", title: "Canary", note: "acts in a fraction of the episodes" },
  { alias: "shadow", stage: "shadow", title: "Shadow", note: "runs beside, never acts" },
] as const;
type Stage = (typeof ROLES)[number]["stage"];
const TONES: Record<string, Tone> = { champion: "good", challenger: "warn", shadow: "accent" };
const MOST_CURVES = 6;

function Curves({ policies }: { policies: readonly PolicyLine[] }) {
  const shown = policies.filter((one) => one.policy.curve.length > 0).slice(-MOST_CURVES);
  const { x, series } = useMemo(() => {
    const steps = [...new Set(shown.flatMap((one) => along(one).map(([step]) => step)))].sort((a, b) => a - b);
    return {
      x: steps,
      series: shown.map((one, i) => {
        return { label: one.policy.name, values: between(along(one), steps), color: `--series-${(i % 8) + 1}`, width: 2, points: one.policy.curve.length < 3 };
      }),
    };
  }, [shown.map((one) => one.policy.id).join(" ")]);
  if (!shown.length) return <p class="soft">None of the chosen policies has a learning curve.</p>;
  return <Chart title="Validation error over the steps of training" x={x} series={series} xLabel="step" height={240} legend />;
}

/** A curve at the steps of all curves: on the line between its own points, and nothing before or after them. */
function between(curve: readonly (readonly [number, number | null])[], steps: readonly number[]): (number | null)[] {
  const known = curve.filter((point): point is readonly [number, number] => point[1] !== null);
  return steps.map((step) => {
    const after = known.findIndex(([own]) => own >= step);
    const [right, left] = [known[after], known[after - 1]];
    if (!right) return null;
    if (right[0] === step || !left) return right[0] === step ? right[1] : null;
    return left[1] + ((step - left[0]) / (right[0] - left[0])) * (right[1] - left[1]);
  });
}

/** Steps of later stages are counted on from the stage before. */
function along({ policy }: PolicyLine): [number, number | null][] {
  let before = 0;
  let last = 0;
  let stage = policy.curve[0]?.stage;
  return policy.curve.map((point) => {
    if (point.stage !== stage) {
      stage = point.stage;
      before = last;
    }
    last = before + point.step;
    return [last, point.validation];
  });
}

function Roles({ registry, onBack, onWithdraw, locked }: { registry: RegistrySummary; onBack: () => void; onWithdraw: (stage: Stage) => void; locked: boolean }) {
  return (
    <div class="roles">
      {ROLES.map(({ alias, stage, title, note }) => {
        const version = registry.versions.find((one) => one.version === registry.aliases[alias]);
        return (
          <div key={alias} class="role" role="group" aria-label={title}>
            <small class="soft">{title}{alias === "challenger" && registry.fraction !== null && `, ${number(100 * registry.fraction)} % of episodes`}</small>
            {version ? <strong>{version.policy} <Badge>version {version.version}</Badge></strong> : <strong class="role-none">nobody</strong>}
            <small class="soft">{version ? `came in ${ago(version.registered_at)} on ${version.decision === "none" ? "an override" : `the verdict ${version.decision}`}` : note}</small>
            {version && !locked && (
              <div class="row">
                {stage === "full"
                  ? registry.champions.length > 1 && <Button small icon="undo" onClick={onBack}>Roll back</Button>
                  : <Button small onClick={() => onWithdraw(stage)}>Withdraw</Button>}
              </div>
            )}
          </div>
        );
      })}
    </div>
  );
}

function BackDialog({ registry, stage, onClose, onDone }: { registry: RegistrySummary; stage: Stage; onClose: () => void; onDone: () => void }) {
  const alias = ROLES.find((one) => one.stage === stage)?.alias ?? "champion";
  const held = registry.aliases[alias] ?? null;
  const before = registry.champions.at(-2);
  const name = (version: string | null | undefined): string => registry.versions.find((one) => one.version === version)?.policy ?? "?";
  const [reason, setReason] = useState("");
  const act = useAction(() => (stage === "full"
    ? post<ChangeAnswer>("/api/policies/rollback", { by: storedName(), reason, champion: held })
    : post<ChangeAnswer>("/api/policies/withdraw", { stage, by: storedName(), reason, version: held })));
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const done = await act.run();
    if (!done) return;
    toast(done.sentence);
    onDone();
  };
  return (
    <Dialog title={stage === "full" ? "Roll back" : `Withdraw from ${stage}`} open onClose={onClose}>
      <form class="stack" onSubmit={(event) => void submit(event)}>
        <p>{stage === "full" ? <><b>{name(before)}</b> (version {before}) becomes the champion again in place of <b>{name(held)}</b> (version {held}).</> : <><b>{name(held)}</b> (version {held}) leaves the {stage} stage.</>}</p>
        <TextField label="Reason" value={reason} onValue={setReason} placeholder="success fell since Tuesday" autofocus />
        <ByField hint="Recorded in the registry, with the time." />
        <ErrorBox error={act.error} />
        <div class="row row-end"><Button kind="primary" type="submit" busy={act.running}>{stage === "full" ? "Roll back" : "Withdraw"}</Button></div>
      </form>
    </Dialog>
  );
}

function PromoteDialog({ line, asked, onClose, onDone }: { line: PolicyLine; asked: string; onClose: () => void; onDone: () => void }) {
  const verdicts = useApi<VerdictLine[]>("/api/gate").data ?? [];
  const own = verdicts.filter((one) => one.candidate?.id === line.policy.id);
  const [verdict, setVerdict] = useState(asked);
  const [stage, setStage] = useState<Stage>("full");
  const [fraction, setFraction] = useState("10");
  const [override, setOverride] = useState("");
  useEffect(() => {
    if (!verdict && own[0]) setVerdict(own[0].folder);
  }, [own.length]);
  const act = useAction(() => post<ChangeAnswer>("/api/policies/promote", { policy: line.policy.folder, verdict: verdict || null, stage, fraction: Number(fraction) / 100, by: storedName(), override: override.trim() || null }));
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const done = await act.run();
    if (!done) return;
    toast(done.sentence);
    onDone();
  };
  const choices = [...own, ...verdicts.filter((one) => !own.includes(one) && one.folder === asked)];
  return (
    <Dialog title={`Promote ${line.policy.name}`} open onClose={onClose}>
      <form class="stack" onSubmit={(event) => void submit(event)}>
        <SelectField label="Stage" value={stage} onValue={(value) => setStage(value as Stage)} options={ROLES.map((one) => ({ value: one.stage, label: `${one.title}: ${one.note}` }))} />
        {stage === "canary" && <TextField label="Per cent of the episodes" type="number" min={1} max={99} value={fraction} onValue={setFraction} />}
        <SelectField label="Verdict" value={verdict} onValue={setVerdict} hint="It is computed again from its evidence, and both are copied into the registry." options={[{ value: "", label: "none" }, ...choices.map((one) => ({ value: one.folder, label: `${one.decision ?? "?"}, ${one.folder}` }))]} />
        <TextField label="Override" value={override} onValue={setOverride} hint="Only to promote without a favourable verdict: the reason, recorded with your name." />
        <ByField hint="Recorded in the registry, with the time." />
        <ErrorBox error={act.error} />
        <div class="row row-end"><Button kind="primary" type="submit" busy={act.running}>Promote</Button></div>
      </form>
    </Dialog>
  );
}

function Verify() {
  const check = useAction(() => post<VerifiedAnswer>("/api/policies/registry/verify"));
  const [found, setFound] = useState<VerifiedAnswer | null>(null);
  const run = async (): Promise<void> => setFound(await check.run());
  return (
    <div class="stack pad">
      <div class="row row-wrap">
        <Button small icon="check" busy={check.running} onClick={() => void run()}>Verify the chain</Button>
        {found && <Badge tone="good">intact: {plural(found.entries, "entry", "entries")}</Badge>}
        {found && found.unsigned > 0 && <Badge tone="warn" title="no trusted key vouches for them; twinloop key">{count(found.unsigned)} unsigned</Badge>}
        {found && found.signed > 0 && <Badge tone="good">{count(found.signed)} signed by {found.keys.join(", ")}</Badge>}
        {found && <small class="soft clip" title={found.head}>head {found.head.slice(0, 24)}…, {found.anchor ? `also stored at ${found.anchor}` : "stored nowhere else"}</small>}
      </div>
      <ErrorBox error={check.error} />
    </div>
  );
}

function Policies({ lines, picked, onPick, onPromote, locked }: { lines: readonly PolicyLine[]; picked: ReadonlySet<string>; onPick: (id: string, on: boolean) => void; onPromote: (line: PolicyLine) => void; locked: boolean }) {
  return (
    <div class="scroll-x">
      <table class="plain-table">
        <thead><tr><th><span class="hidden">Curve</span></th><th>Policy</th><th>Recipe</th><th>Learned from</th><th class="number">Validation error</th><th>Trained</th><th><span class="hidden">Actions</span></th></tr></thead>
        <tbody>
          {lines.map((line) => {
            const { policy } = line;
            const data = policy.datasets.map((one) => `${String(one["name"] ?? one["id"])} (${String(one["used"] ?? "?")} episodes)`);
            return (
              <tr key={policy.id}>
                <td><CheckField checked={picked.has(policy.id)} disabled={!policy.curve.length} onValue={(on) => onPick(policy.id, on)} label={<span class="hidden">Show the curve of {policy.name}</span>} /></td>
                <td>
                  <div class="row row-wrap"><b title={policy.folder}>{policy.name}</b>{line.version && <Badge>version {line.version}</Badge>}{line.aliases.map((alias) => <Badge key={alias} tone={TONES[alias] ?? "neutral"}>{alias}</Badge>)}</div>
                  <small class="soft mono">{policy.problem ?? policy.id.slice(0, 12)}</small>
                </td>
                <td>{policy.foreign ? "foreign" : (policy.recipe ?? "–")}</td>
                <td class="soft">{data.join(", ") || "–"}</td>
                <td class="number">{number(policy.curve.at(-1)?.validation)}</td>
                <td>{ago(policy.created_at)}</td>
                <td class="right">{!locked && !policy.problem && <Button small onClick={() => onPromote(line)}>Promote …</Button>}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

export default function PoliciesRoom() {
  const policies = useApi<PolicyLine[]>("/api/policies", {}, ["workspace"]);
  const registry = useApi<RegistrySummary>("/api/policies/registry", {}, ["workspace"]);
  const locked = useSession()?.read_only ?? false;
  const [asked, setAsked] = useQueryState("promote");
  const [verdict] = useQueryState("verdict");
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [back, setBack] = useState<Stage | null>(null);
  const lines = policies.data ?? [];
  const promoting = lines.find((one) => one.policy.id === asked);
  const picked = new Set(lines.map((one) => one.policy.id).filter((id) => !hidden.has(id)));
  const pick = (id: string, on: boolean): void => setHidden(new Set(on ? [...hidden].filter((one) => one !== id) : [...hidden, id]));
  const done = (): void => {
    setBack(null);
    setAsked("");
    policies.reload();
    registry.reload();
  };
  return (
    <Page title="Policies" lead="How policies learned, which of them is in use, and every promotion and rollback with name and reason.">
      <ErrorBox error={policies.error} onRetry={policies.reload} />
      <ErrorBox error={registry.error} onRetry={registry.reload} />
      {(!policies.data || !registry.data) && !policies.error && !registry.error && <Loading rows={6} />}
      {policies.data && !lines.length && <Empty icon="policies" title="There is no policy yet">A recipe says what a policy learns from.<Command text="twinloop train --recipe sim-only --sim data/SIM" /></Empty>}
      {registry.data && <Card title="In use"><Roles registry={registry.data} onBack={() => setBack("full")} onWithdraw={setBack} locked={locked} /></Card>}
      {lines.length > 0 && (
        <>
          <Card title="Policies" flush><Policies lines={lines} picked={picked} onPick={pick} onPromote={(line) => setAsked(line.policy.id)} locked={locked} /></Card>
          <Card><Curves policies={lines.filter((one) => picked.has(one.policy.id))} /></Card>
        </>
      )}
      {registry.data && (
        <Card title="Record" note="Every entry carries the hash of the one before it: nothing can be changed or left out unnoticed." flush>
          {!locked && <Verify />}
          {[...registry.data.actions].reverse().map((one) => (
            <div key={one.number} class="record-line">
              <span class="soft">{one.number}</span>
              <p>{one.sentence}</p>
              <small class="soft right" title={when(one.at)}>{one.by}, {ago(one.at)}{one.signed_by && <> <Icon name="lock" size={12} /></>}</small>
            </div>
          ))}
          {!registry.data.actions.length && <p class="pad soft">Nothing was promoted yet.</p>}
        </Card>
      )}
      {promoting && <PromoteDialog key={promoting.policy.id} line={promoting} asked={verdict} onClose={() => setAsked("")} onDone={done} />}
      {back && registry.data && <BackDialog registry={registry.data} stage={back} onClose={() => setBack(null)} onDone={done} />}
    </Page>
  );
}
