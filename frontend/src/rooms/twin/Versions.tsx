// Versions of the twin: states, who decided and why, differences between two, and the decisions.
import { useState } from "preact/hooks";
import { useApi } from "../../api";
import { number, when } from "../../format";
import { Link, useQueryState } from "../../router";
import type { Difference, TwinVersion, Twins } from "../../types";
import { Badge, Button, Card, ErrorBox, Loading, SelectField, type Tone } from "../../ui";
import { Decide, type Verb } from "./Decide";
import { shortPlace, twinHref } from "./links";

const TONES: Record<string, Tone> = { current: "good", candidate: "accent", earlier: "neutral", rejected: "bad", unused: "neutral" };
const MOST = 60;

export const StateBadge = ({ state }: { state: string }) => <Badge tone={TONES[state] ?? "neutral"}>{state}</Badge>;

interface Asked {
  verb: Verb;
  twin?: string;
  refused?: string | null;
}

/** The table of versions, with what may be decided about each. */
export function Versions({ twins, shown, readOnly, onChange }: { twins: Twins; shown: string; readOnly: boolean; onChange: () => void }) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const earlier = twins.history.length > 1;
  return (
    <Card
      title="Versions"
      note="Every twin of this workspace; decisions carry a name and a reason."
      actions={<Button small icon="undo" disabled={readOnly || !earlier} onClick={() => setAsked({ verb: "rollback" })}>Roll back</Button>}
    >
      <div class="twin-versions" role="table" aria-label="Versions of the twin">
        <div role="row" class="twin-version twin-version-head">
          <span role="columnheader">Twin</span>
          <span role="columnheader">State</span>
          <span role="columnheader">Why</span>
          <span role="columnheader">Decision</span>
        </div>
        {twins.versions.map((one) => <Row key={one.twin} one={one} shown={one.twin === shown} readOnly={readOnly} onAsk={setAsked} />)}
      </div>
      {asked && <Decide {...asked} onClose={() => setAsked(null)} onDone={onChange} />}
    </Card>
  );
}

function Row({ one, shown, readOnly, onAsk }: { one: TwinVersion; shown: boolean; readOnly: boolean; onAsk: (asked: Asked) => void }) {
  const refused = one.state === "rejected" && !one.by ? one.reason : null;
  return (
    <div role="row" class={shown ? "twin-version twin-version-shown" : "twin-version"}>
      <span role="cell" class="twin-version-name">
        <Link href={twinHref(one.twin)} aria-current={shown ? "page" : undefined}>{shortPlace(one.twin)}</Link>
        <small>version {one.version}</small>
      </span>
      <span role="cell"><StateBadge state={one.state} /></span>
      <span role="cell" class="twin-version-why">
        {one.reason || "–"}
        {(one.by || one.at) && <small>{[one.by && `by ${one.by}`, one.at && when(one.at)].filter(Boolean).join(", ")}</small>}
      </span>
      <span role="cell" class="row">
        {one.identified && one.state !== "current" && <Button small disabled={readOnly} onClick={() => onAsk({ verb: "accept", twin: one.twin, refused })}>Accept</Button>}
        {one.identified && one.state !== "rejected" && <Button small kind="danger" disabled={readOnly} onClick={() => onAsk({ verb: "reject", twin: one.twin })}>Reject</Button>}
        {one.identified && <Link class="twin-version-link" href={`/identify?result=${encodeURIComponent(one.twin)}`}>Evidence</Link>}
      </span>
    </div>
  );
}

const write = (value: number | string | null): string => (value === null ? "absent" : typeof value === "string" ? value : number(value, 4));

/** What differs between two versions, parameter by parameter, the largest change first. */
export function Differences({ twins, shown }: { twins: Twins; shown: string }) {
  const others = twins.versions.filter((one) => one.twin !== shown);
  const [chosen, setChosen] = useQueryState("with", others[0]?.twin ?? "");
  const other = others.some((one) => one.twin === chosen) ? chosen : (others[0]?.twin ?? "");
  const { data, error, loading } = useApi<Difference[]>(other ? "/api/twins/compare" : null, { first: other, second: shown });
  if (!others.length) return null;
  const rows = [...(data ?? [])].sort((a, b) => change(b) - change(a));
  return (
    <Card title="Differences" note={`Parameters whose nominal values differ from ${shortPlace(shown)}.`} actions={<SelectField label="Compare with" hideLabel value={other} onValue={setChosen} options={others.map((one) => ({ value: one.twin, label: `${shortPlace(one.twin)} (${one.state})` }))} />}>
      <ErrorBox error={error} />
      {loading && !data && <Loading />}
      {data && !rows.length && <p class="soft">Both have the same nominal values.</p>}
      {rows.length > 0 && (
        <div class="twin-scroll" tabIndex={0} role="region" aria-label="Parameters that differ">
          <table class="plain-table">
            <thead><tr><th>Parameter</th><th class="right">{shortPlace(other)}</th><th class="right">{shortPlace(shown)}</th><th>Unit</th><th>Dimension</th></tr></thead>
            <tbody>
              {rows.slice(0, MOST).map((row) => (
                <tr key={row.name}>
                  <td>{row.name}</td>
                  <td class="right">{write(row.first)}</td>
                  <td class="right"><strong>{write(row.second)}</strong></td>
                  <td>{row.unit === "1" ? "" : row.unit}</td>
                  <td class="soft">{row.dimension}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {rows.length > MOST && <p class="soft">and {rows.length - MOST} more</p>}
        </div>
      )}
    </Card>
  );
}

function change(row: Difference): number {
  if (typeof row.first !== "number" || typeof row.second !== "number") return Infinity;
  return Math.abs(row.second - row.first) / Math.max(Math.abs(row.first), Math.abs(row.second), 1e-12);
}
