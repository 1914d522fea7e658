// Choosing a second episode to lay over the first.
import { useState } from "preact/hooks";
import { useApi } from "../../api";
import { datasetTitle } from "../../names";
import type { DatasetLine } from "../../types";
import { Button, Dialog, SelectField, TextField } from "../../ui";

/** The other episode in an address: `DATASET#NUMBER`. */
export function parseOther(text: string): { dataset: string; episode: number } | null {
  const found = /^(.+)#(\d+)$/.exec(text);
  return found ? { dataset: found[1] ?? "", episode: Number(found[2]) } : null;
}

/** Asks for the other episode. */
export function CompareDialog({ dataset, onChoose, onClose }: { dataset: string; onChoose: (text: string) => void; onClose: () => void }) {
  const datasets = useApi<DatasetLine[]>("/api/data/datasets").data ?? [];
  const [chosen, setChosen] = useState(dataset);
  const [number, setNumber] = useState("0");
  const known = datasets.find((one) => one.path === chosen);
  const valid = /^\d+$/.test(number) && (!known || Number(number) < known.episodes);
  const choose = (event: Event): void => {
    event.preventDefault();
    if (valid) onChoose(`${chosen}#${number}`);
  };
  return (
    <Dialog title="Compare with another episode" open onClose={onClose}>
      <form class="stack" onSubmit={choose}>
        <SelectField label="Dataset" value={chosen} onValue={setChosen} options={datasets.map((one) => ({ value: one.path, label: datasetTitle(one.path) }))} />
        <TextField label="Episode" type="number" min={0} value={number} onValue={setNumber} error={valid ? null : `0 to ${(known?.episodes ?? 1) - 1}`} hint="Both begin at the same moment; the other is dashed." />
        <div class="row row-end"><Button onClick={onClose}>Cancel</Button><Button kind="primary" type="submit" disabled={!valid}>Compare</Button></div>
      </form>
    </Dialog>
  );
}
