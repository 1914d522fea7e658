// The plan as a board: what to record next, what is being recorded, what is done.
import { useState } from "preact/hooks";
import { post, useAction, useApi } from "../api";
import { ago, count, number, percent, plural } from "../format";
import { Link, useQueryState } from "../router";
import { storedName, useSession } from "../session";
import type { BoardItem, Gain, ItemProgress, PlanAnswer } from "../types";
import { Badge, Bar, Button, ByField, Card, Command, Dialog, Empty, ErrorBox, Loading, Page, TextField, toast } from "../ui";

type State = "planned" | "recording" | "done";

const STATES: readonly State[] = ["planned", "recording", "done"];
const TITLES: Record<State, string> = { planned: "Planned", recording: "Recording", done: "Done" };
const NEXT: Record<State, { to: State; words: string }[]> = {
  planned: [{ to: "recording", words: "Start recording" }],
  recording: [{ to: "planned", words: "Back" }, { to: "done", words: "Done" }],
  done: [{ to: "recording", words: "Not done yet" }],
};

const gainWords = (gain: Gain): string =>
  gain.points === null ? "not estimated" : `+${number(gain.points, 2)} [${number(gain.low, 2)}, ${number(gain.high, 2)}]`;

/** Open the sheet and ask the browser to print it. */
function printSheet(items: readonly string[]): void {
  const query = items.map((item) => `item=${encodeURIComponent(item)}`).join("&");
  const page = window.open(`/api/plan/sheet${query ? `?${query}` : ""}`, "_blank");
  page?.addEventListener("load", () => page.print());
}

function ItemCard({ one, progress, state, fresh, locked, onMove, onOpen }: { one: BoardItem; progress: ItemProgress | undefined; state: State; fresh: boolean; locked: boolean; onMove: (to: State) => void; onOpen: () => void }) {
  const { item } = one;
  return (
    <article class={fresh ? "board-card board-new" : "board-card"} draggable={!locked} aria-label={item.title} onDragStart={(event) => event.dataTransfer?.setData("text/plain", item.id)}>
      <h3><button type="button" onClick={onOpen}>{item.title}</button></h3>
      <div class="row row-wrap">
        {item.dimension && <Badge>{item.dimension}</Badge>}
        {item.required && <Badge tone="real" title={item.required}>real data required</Badge>}
      </div>
      <dl class="board-numbers">
        <div><dt>How many</dt><dd>{item.episodes ? `${count(item.episodes)} ${item.unit}` : "nothing"}</dd></div>
        <div><dt>Hours</dt><dd>{number(item.hours, 2)}</dd></div>
        <div><dt>Expected gain</dt><dd title="success points, with the 95 % interval">{gainWords(item.gain)}</dd></div>
      </dl>
      {item.episodes > 0 && (
        <div class="stack-tight">
          <Bar value={progress ? progress.recorded / item.episodes : 0} tone={progress && progress.left === 0 ? "good" : "accent"} label={progress ? `${progress.recorded} of ${item.episodes} recorded` : "not counted yet"} />
          <small class="soft">{progress ? (progress.problem ?? `${count(progress.recorded)} of ${count(item.episodes)} recorded${progress.succeeded ? `, ${count(progress.succeeded)} succeeded` : ""}`) : "counting …"}</small>
        </div>
      )}
      {one.by && <small class="soft">{state === "planned" && !one.note ? "added" : TITLES[state].toLowerCase()} by {one.by}, {ago(one.at)}{one.note && `: ${one.note}`}</small>}
      {!locked && (
        <div class="row row-wrap">
          {NEXT[state].map((step) => <Button key={step.to} small kind={step.to === "planned" || state === "done" ? "quiet" : "plain"} onClick={() => onMove(step.to)}>{step.words}</Button>)}
        </div>
      )}
    </article>
  );
}

function Details({ one, onClose }: { one: BoardItem; onClose: () => void }) {
  const { item } = one;
  const names = item.settings.length ? Object.keys(item.settings[0] ?? {}) : [];
  return (
    <Dialog title={item.title} open onClose={onClose} wide footer={<Button icon="external" onClick={() => printSheet([item.id])}>Print its sheet</Button>}>
      <div class="stack">
        <p>{item.why}</p>
        <dl class="facts">
          <dt>How many</dt><dd>{item.power}</dd>
          <dt>Expected gain</dt><dd>{gainWords(item.gain)}{item.gain_per_hour !== null && `, ${number(item.gain_per_hour, 2)} points per hour`}</dd>
          <dt>Can simulation replace it?</dt><dd>{item.simulation}</dd>
          {item.required && <><dt>Real data required</dt><dd>{item.required}</dd></>}
        </dl>
        <Command text={item.command} />
        {names.length > 0 && (
          <div class="scroll-x settings-table">
            <table class="plain-table">
              <thead><tr><th class="number">#</th>{names.map((name) => <th key={name} class="number">{name}</th>)}</tr></thead>
              <tbody>
                {item.settings.map((values, i) => (
                  <tr key={i}><td class="number">{i + 1}</td>{names.map((name) => <td key={name} class="number">{typeof values[name] === "number" ? number(values[name] as number) : String(values[name] ?? "")}</td>)}</tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </div>
    </Dialog>
  );
}

function Board({ plan, fresh, reload }: { plan: PlanAnswer; fresh: string; reload: () => void }) {
  const locked = useSession()?.read_only ?? false;
  const progress = useApi<ItemProgress[]>("/api/plan/progress", { items: plan.items.length }, ["workspace"]).data;
  const [over, setOver] = useState<State | null>(null);
  const [asked, setAsked] = useState<{ item: string; to: State } | null>(null);
  const [note, setNote] = useState("");
  const [open, setOpen] = useState<string | null>(null);
  const move = useAction((item: string, to: State, why: string) => post<PlanAnswer>(`/api/plan/items/${encodeURIComponent(item)}/move`, { state: to, by: storedName(), note: why }));
  const finish = async (item: string, to: State, why: string): Promise<void> => {
    if (!(await move.run(item, to, why))) return;
    toast(`${plan.items.find((one) => one.item.id === item)?.item.title ?? item}: ${TITLES[to].toLowerCase()}`);
    setAsked(null);
    setNote("");
    reload();
  };
  const start = (item: string, to: State): void => {
    if (plan.items.find((one) => one.item.id === item)?.state === to) return;
    if (storedName()) void finish(item, to, "");
    else setAsked({ item, to });
  };
  const shown = plan.items.find((one) => one.item.id === open);
  return (
    <>
      {!asked && <ErrorBox error={move.error} onClose={move.clear} />}
      <div class="board">
        {STATES.map((state) => {
          const items = plan.items.filter((one) => one.state === state);
          const hours = items.reduce((sum, one) => sum + one.item.hours, 0);
          const drop = (event: DragEvent): void => {
            event.preventDefault();
            setOver(null);
            const item = event.dataTransfer?.getData("text/plain");
            if (item && !locked) start(item, state);
          };
          return (
            <section key={state} class={over === state ? "board-column board-over" : "board-column"} aria-label={TITLES[state]} onDragOver={(event) => { event.preventDefault(); setOver(state); }} onDragLeave={() => setOver(null)} onDrop={drop}>
              <div class="board-head"><h2>{TITLES[state]} <span class="soft">{items.length}</span></h2><small class="soft">{number(hours, 2)} h</small></div>
              {items.map((one) => <ItemCard key={one.item.id} one={one} progress={progress?.find((of) => of.id === one.item.id)} state={state} fresh={one.item.id === fresh} locked={locked} onMove={(to) => start(one.item.id, to)} onOpen={() => setOpen(one.item.id)} />)}
              {!items.length && <p class="board-empty">{state === "planned" ? "Nothing is waiting." : state === "recording" ? "Nobody is recording." : "Nothing is done yet."}</p>}
            </section>
          );
        })}
      </div>
      {shown && <Details one={shown} onClose={() => setOpen(null)} />}
      <Dialog title={asked ? `Move to ${TITLES[asked.to].toLowerCase()}` : ""} open={asked !== null} onClose={() => setAsked(null)}>
        <form class="stack" onSubmit={(event) => { event.preventDefault(); if (asked) void finish(asked.item, asked.to, note); }}>
          <ByField hint="Kept in the plan with the time." />
          <TextField label="Note" value={note} onValue={setNote} placeholder="robot 2 is free" />
          <ErrorBox error={move.error} />
          <div class="row row-end"><Button kind="primary" type="submit" busy={move.running}>Move</Button></div>
        </form>
      </Dialog>
    </>
  );
}

export default function PlanRoom() {
  const { data, error, reload } = useApi<PlanAnswer>("/api/plan", {}, ["workspace"]);
  const [fresh] = useQueryState("item");
  const some = Boolean(data?.items.length);
  return (
    <Page
      title="Plan"
      lead={data && some ? `${plural(data.items.length, "item")}, ${number(data.hours, 2)} h in all, trials included; best gain per hour first.${data.success !== null ? ` Success rate now: ${percent(data.success)}.` : ""}` : "What to record next on the robot, what it takes and what it should bring."}
      actions={some ? <Button icon="external" onClick={() => printSheet([])}>Print the sheet</Button> : undefined}
    >
      <ErrorBox error={error} onRetry={reload} />
      {!data && !error && <Loading rows={6} />}
      {data && !some && (
        <Empty icon="plan" title="There is no plan yet" action={<Link class="button button-primary" href="/coverage">Outline a region on the coverage map</Link>}>
          A plan follows from a diagnosis, a coverage and an identification, or from regions that you outline on the map.
          <Command text="twinloop plan --diagnosis FOLDER --coverage FOLDER --out plan.json" />
        </Empty>
      )}
      {data && some && (
        <>
          <Board plan={data} fresh={fresh} reload={reload} />
          <div class="grid-2">
            <Card title="Assumed">
              <ul class="stack-tight soft small">{data.assumptions.map((line) => <li key={line}>{line}</li>)}</ul>
            </Card>
            <Card title="History" note={data.path ?? undefined}>
              {data.moves.length ? (
                <ul class="stack-tight small">{[...data.moves].reverse().slice(0, 12).map((one) => <li key={`${one.item}${one.at}${one.state}`}><b>{one.by}</b> put {one.item} to {one.state}, {ago(one.at)}{one.note && `: ${one.note}`}</li>)}</ul>
              ) : <p class="soft small">Nobody has moved an item yet.</p>}
            </Card>
          </div>
        </>
      )}
    </Page>
  );
}
