// What an outline selects, and the two things that come of it: a saved query, or an item of the plan.
import { useState } from "preact/hooks";
import { post, useAction, useApi } from "../api";
import { count, number, percent, plural } from "../format";
import { go, Link } from "../router";
import { storedName, useSession } from "../session";
import type { Item, SelectedRegion } from "../types";
import { Badge, Button, ByField, Card, Dialog, ErrorBox, Loading, TextField, toast } from "../ui";

interface Props {
  coverage: string;
  level: "moment" | "situation";
  across: string;
  up: string;
  polygon: string;
  points: number;
  dataset: string | null;
  onClear: () => void;
}

interface Saved {
  name: string;
}

export function Selected(props: Props) {
  const { coverage, level, across, up, polygon, points, dataset, onClear } = props;
  const outline = { coverage, level, across, up, polygon };
  const { data, error } = useApi<SelectedRegion>("/api/coverage/select", outline);
  const locked = useSession()?.read_only ?? false;
  const [asking, setAsking] = useState<"query" | "item" | null>(null);
  const [name, setName] = useState("");
  const add = useAction(() => post<Item>("/api/plan/items", { ...outline, name: name.trim() || null, by: storedName() }));
  const save = useAction(() => {
    const where = `episode_index in (${data?.selection.episodes.join(", ") ?? ""})`;
    return post<Saved>("/api/data/selections", { name: name.trim(), parts: [{ dataset: dataset ?? "", where, weight: 1 }], by: storedName(), note: data?.selection.name ?? "" });
  });
  const close = (): void => {
    setAsking(null);
    setName("");
    add.clear();
    save.clear();
  };
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (asking === "item") {
      const item = await add.run();
      if (!item) return;
      toast(`Added to the plan: ${item.title}`);
      close();
      go(`/plan?item=${encodeURIComponent(item.id)}`);
    } else if (await save.run()) {
      toast("Saved as a query");
      close();
    }
  };
  const selection = data?.selection;
  return (
    <Card title="Selected" actions={<Button small kind="quiet" icon="close" aria-label="Clear the outline" onClick={onClear} />}>
      <div class="stack">
        <ErrorBox error={error} />
        {!selection && !error && <Loading rows={3} />}
        {selection && (
          <>
            <p class="strong">{selection.name}</p>
            <dl class="facts">
              <dt>Points</dt><dd>{count(points)}</dd>
              <dt>Real episodes</dt><dd>{count(selection.episodes.length)}, {percent(selection.fraction)} of them {selection.failed > 0 && <Badge tone="bad">{count(selection.failed)} failed</Badge>}</dd>
              <dt>Simulated</dt><dd>{plural(selection.sim_episodes, "episode")}</dd>
            </dl>
            {selection.conditions.length > 0 ? (
              <table class="plain-table">
                <thead><tr><th>Set before an episode</th><th class="number">from</th><th class="number">to</th></tr></thead>
                <tbody>
                  {selection.conditions.map((one) => "variable" in one && (
                    <tr key={one.variable}>
                      <td>{one.variable}{one.unit !== "1" && <span class="soft">, {one.unit}</span>}</td>
                      <td class="number">{number(one.seen?.[0] ?? one.low)}</td>
                      <td class="number">{number(one.seen?.[1] ?? one.high)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            ) : (
              <p class="soft small">Nothing that could be set before an episode sets these apart from the others.</p>
            )}
            {selection.others > 0 && selection.conditions.length > 0 && <p class="soft small">The same ranges hold for {plural(selection.others, "other real episode")}.</p>}
            <div class="row row-wrap">
              {!locked && <Button kind="primary" onClick={() => setAsking("item")}>Add to the plan</Button>}
              {!locked && <Button disabled={!dataset} onClick={() => setAsking("query")}>Save as a query</Button>}
              {dataset && <Link class="button button-quiet button-small" href={`/data/${encodeURIComponent(dataset)}`}>Open the dataset</Link>}
            </div>
          </>
        )}
      </div>
      <Dialog title={asking === "item" ? "Add to the plan" : "Save as a query"} open={asking !== null} onClose={close}>
        <form class="stack" onSubmit={(event) => void submit(event)}>
          {asking === "item"
            ? <TextField label="Name" value={name} onValue={setName} placeholder={selection?.name ?? ""} hint="Without one, its ranges name it. Hours and the expected gain follow from the episodes that failed." autofocus />
            : <TextField label="Name" value={name} onValue={setName} placeholder="far-objects" hint="Letters, digits, - and _." autofocus />}
          <ByField />
          <ErrorBox error={asking === "item" ? add.error : save.error} />
          <div class="row row-end"><Button kind="primary" type="submit" busy={add.running || save.running}>{asking === "item" ? "Add" : "Save"}</Button></div>
        </form>
      </Dialog>
    </Card>
  );
}
