// Consents with their uses and expiry, and withdrawals: what they remove, before they do.
import { useState } from "preact/hooks";
import { post, useAction, useApi } from "../api";
import { ago, count, plural, when } from "../format";
import { storedName, useSession } from "../session";
import type { Consent, PeopleAnswer, PersonConsent, WithdrawalAnswer } from "../types";
import { Badge, Button, ByField, Card, CheckField, Dialog, Empty, ErrorBox, Icon, Loading, Page, TextField, toast, type Tone } from "../ui";

const STANDINGS: Record<string, Tone> = { valid: "good", "expires soon": "warn", "not yet valid": "neutral", expired: "bad", withdrawn: "neutral", "no consent": "bad" };

function Removes({ answer }: { answer: WithdrawalAnswer }) {
  const nothing = !answer.removals.length && !answer.links.length && !answer.artefacts.length;
  return (
    <div class="stack">
      <section aria-label="What is removed" class="stack-tight">
        <h3>{answer.complete === null ? "This removes" : "Removed"}</h3>
        <ul class="checklist">
          {answer.removals.map((one) => <li key={one.dataset}><Icon name="data" /><span><b>{plural(one.episodes, "episode")}</b> from {one.dataset}</span></li>)}
          {answer.artefacts.map((path) => <li key={path}><Icon name="episode" /><span>{path}, which shows them</span></li>)}
          {answer.links.map((path) => <li key={path}><Icon name="copy" /><span>{path}, a hard link to removed data</span></li>)}
          {nothing && <li><Icon name="info" /><span>No episode and no file: only the consent is marked as withdrawn, and the pseudonym deleted.</span></li>}
        </ul>
      </section>
      {(answer.policies.length > 0 || answer.outside.length > 0 || answer.found.length > 0) && (
        <section aria-label="What is left to you" class="stack-tight">
          <h3>Left to you</h3>
          <ul class="checklist">
            {answer.policies.map((one) => <li key={one.path}><Icon name="policies" /><span>policy <b>{one.name}</b> stays{!one.certain && " (uncertain)"}: {one.detail}</span></li>)}
            {answer.outside.map((path) => <li key={path}><Icon name="external" /><span>{path} is outside the workspace: delete it by hand</span></li>)}
            {answer.found.map((one) => <li key={one.path}><Icon name="alert" /><span>{one.certain ? "delete" : "look at"} {one.path}: {one.what}</span></li>)}
          </ul>
        </section>
      )}
      {answer.complete === true && <p class="verdict verdict-good">The workspace was searched: no copy of their frames or rows is left.</p>}
      {answer.complete === false && <p class="verdict verdict-warn">Copies are left: delete them, then withdraw again.</p>}
    </div>
  );
}

function WithdrawDialog({ one, onClose, onDone }: { one: PersonConsent; onClose: () => void; onDone: () => void }) {
  const consent = one.consent ?? "";
  const plan = useApi<WithdrawalAnswer>(`/api/people/${encodeURIComponent(consent)}/withdrawal`);
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const [done, setDone] = useState<WithdrawalAnswer | null>(null);
  const act = useAction(() => post<WithdrawalAnswer>(`/api/people/${encodeURIComponent(consent)}/withdraw`, { by: storedName(), reason }));
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const found = await act.run();
    if (!found) return;
    setDone(found);
    toast(`Consent ${consent} is withdrawn`);
    onDone();
  };
  return (
    <Dialog title={`Withdraw consent ${consent}${one.person && ` of ${one.person}`}`} open onClose={onClose} wide>
      <div class="stack">
        <ErrorBox error={plan.error} />
        {!plan.data && !plan.error && <Loading rows={3} />}
        {(done ?? plan.data) && <Removes answer={(done ?? plan.data) as WithdrawalAnswer} />}
        {!done && plan.data && (
          <form class="stack" onSubmit={(event) => void submit(event)}>
            <div class="grid-2">
              <TextField label="Reason" value={reason} onValue={setReason} placeholder="asked by letter" />
              <ByField hint="Kept in the tombstone, which says nothing about the person." />
            </div>
            <TextField label={`Type ${consent} to go on`} value={typed} onValue={setTyped} hint="This cannot be undone." />
            <ErrorBox error={act.error} />
            <div class="row row-end"><Button kind="danger" type="submit" disabled={typed !== consent} busy={act.running}>Withdraw and remove</Button></div>
          </form>
        )}
        {done && <div class="row row-end"><Button kind="primary" onClick={onClose}>Close</Button></div>}
      </div>
    </Dialog>
  );
}

function ConsentDialog({ uses, onClose, onDone }: { uses: readonly string[]; onClose: () => void; onDone: () => void }) {
  const [person, setPerson] = useState("");
  const [documentPath, setDocument] = useState("");
  const [expires, setExpires] = useState("");
  const [scope, setScope] = useState<readonly string[]>(["record", "train"]);
  const add = useAction(() => post<Consent>("/api/people", { pseudonym: person.trim(), scope, document: documentPath.trim(), expires: expires.trim() || null }));
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const made = await add.run();
    if (!made) return;
    toast(`Recorded consent ${made.id}`);
    onDone();
    onClose();
  };
  return (
    <Dialog title="Record a consent" open onClose={onClose}>
      <form class="stack" onSubmit={(event) => void submit(event)}>
        <TextField label="Pseudonym" value={person} onValue={setPerson} placeholder="operator-07" hint="No names: the person is named in the signed document only." autofocus />
        <fieldset class="fieldset"><legend>Permitted uses</legend>
          <div class="row row-wrap">{uses.map((use) => <CheckField key={use} label={use} checked={scope.includes(use)} onValue={(on) => setScope(on ? [...scope, use] : scope.filter((one) => one !== use))} />)}</div>
        </fieldset>
        <TextField label="Signed document" value={documentPath} onValue={setDocument} placeholder="consents/signed/07.pdf" hint="Its path in the workspace; only its hash is kept." />
        <TextField label="Last day" value={expires} onValue={setExpires} placeholder="2027-12-31" hint="Empty: without an end." />
        <ErrorBox error={add.error} />
        <div class="row row-end"><Button kind="primary" type="submit" busy={add.running}>Record</Button></div>
      </form>
    </Dialog>
  );
}

function Row({ one, locked, onWithdraw }: { one: PersonConsent; locked: boolean; onWithdraw: () => void }) {
  const datasets = Object.entries(one.datasets ?? {}).map(([name, episodes]) => `${name}: ${episodes}`);
  return (
    <tr>
      <td class="nowrap"><b>{one.person || <span class="soft">deleted</span>}</b></td>
      <td>{one.consent ?? "–"}</td>
      <td><div class="row row-wrap">{one.scope.map((use) => <Badge key={use}>{use}</Badge>)}</div></td>
      <td class="nowrap">{one.given ?? "–"}</td>
      <td class="nowrap">{one.expires ?? (one.consent ? "no end" : "–")}</td>
      <td><Badge tone={STANDINGS[one.standing] ?? "neutral"}>{one.standing}</Badge></td>
      <td class="number" title={datasets.join("\n")}>{count(one.episodes)}</td>
      <td class="right">{one.consent && !locked && (one.standing !== "withdrawn" || one.episodes > 0) && <Button small kind="danger" onClick={onWithdraw}>Withdraw …</Button>}</td>
    </tr>
  );
}

export default function PeopleRoom() {
  const { data, error, reload } = useApi<PeopleAnswer>("/api/people", {}, ["workspace"]);
  const locked = useSession()?.read_only ?? false;
  const [withdrawing, setWithdrawing] = useState<PersonConsent | null>(null);
  const [adding, setAdding] = useState(false);
  const without = (data?.people ?? []).filter((one) => one.standing === "no consent" || (one.standing === "expired" && one.episodes > 0));
  return (
    <Page title="People" lead="Whose episodes this workspace holds, what they agreed to, and until when." actions={data && !locked ? <Button icon="plus" onClick={() => setAdding(true)}>Record a consent</Button> : undefined}>
      <ErrorBox error={error} onRetry={reload} />
      {!data && !error && <Loading rows={5} />}
      {data && !data.people.length && <Empty icon="people" title="No episode involves a person">Demonstrations carry the pseudonym of whoever gave them; record a consent before they are recorded.</Empty>}
      {without.length > 0 && (
        <div class="verdict verdict-warn"><strong>Not covered</strong><span>{without.map((one) => `${one.person}: ${plural(one.episodes, "episode")}, ${one.standing}`).join("; ")}. They may not be used until there is a consent.</span></div>
      )}
      {data && data.people.length > 0 && (
        <Card title="Consents" flush>
          <div class="scroll-x">
            <table class="plain-table">
              <thead><tr><th>Person</th><th>Consent</th><th>Uses</th><th>Given</th><th>Until</th><th>Standing</th><th class="number">Episodes</th><th><span class="hidden">Actions</span></th></tr></thead>
              <tbody>{data.people.map((one) => <Row key={`${one.consent}${one.person}`} one={one} locked={locked} onWithdraw={() => setWithdrawing(one)} />)}</tbody>
            </table>
          </div>
        </Card>
      )}
      {data && data.withdrawals.length > 0 && (
        <Card title="Withdrawals" flush>
          {data.withdrawals.map((one) => (
            <div key={`${one.consent}${one.at}`} class="record-line">
              <Icon name="check" />
              <p>Consent {one.consent}: {plural(one.episodes, "episode")} and {plural(one.artefacts, "file")} removed{one.found > 0 && `; ${plural(one.found, "copy", "copies")} found and left to a person`}. <span class="soft">{one.reason}</span></p>
              <small class="soft right" title={when(one.at)}>{one.by}, {ago(one.at)}</small>
            </div>
          ))}
        </Card>
      )}
      {withdrawing && <WithdrawDialog one={withdrawing} onClose={() => setWithdrawing(null)} onDone={reload} />}
      {adding && data && <ConsentDialog uses={data.uses} onClose={() => setAdding(false)} onDone={reload} />}
    </Page>
  );
}
