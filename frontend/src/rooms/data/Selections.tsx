// Weighted selections: saved as queries, counted as the data is now, and drawn into datasets by a job.
import { useState } from "preact/hooks";
import { del, post, useAction, useApi } from "../../api";
import { ago, count, percent, plural } from "../../format";
import { datasetTitle } from "../../names";
import { useName, useSession } from "../../session";
import type { DatasetLine, SelectionAnswer } from "../../types";
import { Button, Card, Dialog, Empty, ErrorBox, Loading, SelectField, startJob, TextField, toast } from "../../ui";

interface Part {
  dataset: string;
  where: string;
  weight: number;
}

/** Asks for a name and saves parts as a selection. */
export function SaveSelection({ parts: given, datasets = [], onClose }: { parts: readonly Part[]; datasets?: readonly string[]; onClose: () => void }) {
  const by = useName();
  const [name, setName] = useState("");
  const [note, setNote] = useState("");
  const [parts, setParts] = useState<readonly Part[]>(given);
  const save = useAction(async () => {
    const saved = await post<SelectionAnswer>("/api/data/selections", { name: name.trim(), parts, by, note });
    toast(`Saved ${saved.name}: ${plural(saved.parts.reduce((sum, part) => sum + part.episodes, 0), "episode")}`);
    onClose();
  });
  const set = (i: number, change: Partial<Part>): void => setParts(parts.map((part, k) => (k === i ? { ...part, ...change } : part)));
  const total = parts.reduce((sum, part) => sum + part.weight, 0);
  return (
    <Dialog wide title="Save a selection" open onClose={onClose} footer={<><Button onClick={onClose}>Cancel</Button><Button kind="primary" busy={save.running} disabled={!name.trim() || parts.length === 0} onClick={() => void save.run()}>Save</Button></>}>
      <div class="stack">
        <div class="grid-2">
          <TextField label="Name" value={name} onValue={setName} placeholder="balanced-grasps" hint={'Letters, digits, "_" and "-".'} autofocus />
          <TextField label="What it is for" value={note} onValue={setNote} placeholder="Training of the next round" />
        </div>
        <table class="plain-table">
          <thead><tr><th>Dataset</th><th>Episodes for which</th><th>Weight</th><th class="number">Of a draw</th><th /></tr></thead>
          <tbody>
            {parts.map((part, i) => (
              <tr key={i}>
                <td>{datasets.length > 0 ? <SelectField label="Dataset" hideLabel value={part.dataset} onValue={(dataset) => set(i, { dataset })} options={datasets.map((path) => ({ value: path, label: datasetTitle(path) }))} /> : datasetTitle(part.dataset)}</td>
                <td><TextField label="Condition" hideLabel value={part.where} onValue={(where) => set(i, { where })} /></td>
                <td class="weight"><TextField label="Weight" hideLabel type="number" min={0} step="any" value={String(part.weight)} onValue={(text) => set(i, { weight: Number(text) })} /></td>
                <td class="number">{percent(part.weight / total)}</td>
                <td class="number">{parts.length > 1 && <Button small kind="quiet" icon="minus" aria-label="Remove this part" onClick={() => setParts(parts.filter((_, k) => k !== i))} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
        {datasets.length > 0 && <div><Button small icon="plus" onClick={() => setParts([...parts, { dataset: datasets[0] ?? "", where: "true", weight: 1 }])}>Add a part</Button></div>}
        <ErrorBox error={save.error} onClose={save.clear} />
      </div>
    </Dialog>
  );
}

function Draw({ selection, onClose }: { selection: SelectionAnswer; onClose: () => void }) {
  const by = useName();
  const most = Math.floor(Math.min(...selection.parts.map((part) => part.episodes / part.fraction)) + 1e-9);
  const [out, setOut] = useState(`data/${selection.name}`);
  const [episodes, setEpisodes] = useState(String(most));
  const run = useAction(async () => {
    await startJob(["data", "selection", "draw", selection.name, "--out", out.trim(), "--episodes", episodes], by);
    toast("The job is in the queue; Overview shows it");
    onClose();
  });
  return (
    <Dialog title={`Draw a dataset from ${selection.name}`} open onClose={onClose} footer={<><Button onClick={onClose}>Cancel</Button><Button kind="primary" busy={run.running} onClick={() => void run.run()}>Draw</Button></>}>
      <div class="stack">
        <TextField label="New dataset" value={out} onValue={setOut} hint="A folder of the workspace that does not exist yet." />
        <TextField label="Episodes" type="number" min={1} max={most} value={episodes} onValue={setEpisodes} hint={`At most ${count(most)}: no episode is repeated.`} />
        <ErrorBox error={run.error} onClose={run.clear} />
      </div>
    </Dialog>
  );
}

function SelectionCard({ selection, onChange }: { selection: SelectionAnswer; onChange: () => void }) {
  const readOnly = useSession()?.read_only ?? true;
  const [drawing, setDrawing] = useState(false);
  const remove = useAction(async () => {
    await del(`/api/data/selections/${selection.name}`);
    toast(`Removed ${selection.name}`);
    onChange();
  });
  return (
    <Card title={selection.name} note={[selection.note, `${selection.by}, ${ago(selection.at)}`].filter(Boolean).join(" · ")}
      actions={<><Button small icon="download" disabled={readOnly || Boolean(selection.problem)} onClick={() => setDrawing(true)}>Draw a dataset</Button><Button small kind="quiet" icon="close" aria-label={`Remove ${selection.name}`} busy={remove.running} disabled={readOnly} onClick={() => void remove.run()} /></>}>
      {selection.problem && <p class="field-error">{selection.problem}</p>}
      <table class="plain-table">
        <thead><tr><th>Dataset</th><th>Episodes for which</th><th class="number">Episodes</th><th class="number">Weight</th><th class="number">Of a draw</th></tr></thead>
        <tbody>
          {selection.parts.map((part, i) => (
            <tr key={i}><td title={part.dataset}>{datasetTitle(part.dataset)}</td><td><code>{part.where}</code></td><td class="number">{count(part.episodes)}</td><td class="number">{part.weight}</td><td class="number">{percent(part.fraction)}</td></tr>
          ))}
        </tbody>
      </table>
      <ErrorBox error={remove.error} onClose={remove.clear} />
      {drawing && <Draw selection={selection} onClose={() => setDrawing(false)} />}
    </Card>
  );
}

/** Every selection of the workspace. */
export function Selections({ datasets }: { datasets: readonly DatasetLine[] }) {
  const { data, error, reload } = useApi<SelectionAnswer[]>("/api/data/selections", {}, ["workspace"]);
  const readOnly = useSession()?.read_only ?? true;
  const [saving, setSaving] = useState(false);
  const paths = datasets.filter((row) => row.writable && !row.problem).map((row) => row.path);
  const add = <Button kind="primary" icon="plus" disabled={readOnly || paths.length === 0} onClick={() => setSaving(true)}>New selection</Button>;
  return (
    <div class="stack">
      <ErrorBox error={error} onRetry={reload} />
      {!data && !error && <Loading />}
      {data?.length === 0 && <Empty icon="tag" title="No selections yet" action={add}>A selection names episodes by a query and gives each part a weight. It follows the data until a dataset is drawn from it.</Empty>}
      {data && data.length > 0 && <div class="row row-end">{add}</div>}
      {data?.map((one) => <SelectionCard key={one.name} selection={one} onChange={reload} />)}
      {saving && <SaveSelection parts={[{ dataset: paths[0] ?? "", where: "true", weight: 1 }]} datasets={paths} onClose={() => { setSaving(false); reload(); }} />}
    </div>
  );
}
