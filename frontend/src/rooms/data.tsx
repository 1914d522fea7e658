// Data: the workspace's datasets; one dataset's episodes with filters, SQL and selections.
import { useMemo, useState } from "preact/hooks";
import { useApi } from "../api";
import { count, duration, number, percent, plural } from "../format";
import { datasetHref, datasetTitle } from "../names";
import { go, Link, useQueryState, type RoomProps } from "../router";
import type { DatasetLine } from "../types";
import { Badge, Card, Empty, ErrorBox, Loading, Page, SourceBadge, Table, Tabs, TextField, type Column, type Sort } from "../ui";
import { Agreements } from "./data/Agreements";
import { Episodes } from "./data/Episodes";
import { Selections } from "./data/Selections";
import { SqlBox } from "./data/SqlBox";
import { OutcomeBar } from "./overview";

const COLUMNS: readonly Column<DatasetLine>[] = [
  {
    key: "title",
    title: "Dataset",
    width: "minmax(210px, 2fr)",
    sortable: true,
    render: (row) => (
      <div class="two-lines">
        <Link href={datasetHref(row.path)}>{datasetTitle(row.path)}</Link>
        <small class="soft clip">{row.problem ?? row.path}</small>
      </div>
    ),
  },
  { key: "source", title: "Source", width: "110px", render: (row) => row.by_source.map((one) => <SourceBadge key={one.source} source={one.source} />) },
  { key: "episodes", title: "Episodes", width: "86px", align: "right", sortable: true, render: (row) => count(row.episodes) },
  { key: "hours", title: "Time", width: "100px", align: "right", sortable: true, render: (row) => duration(row.hours * 3600) },
  { key: "outcomes", title: "Outcomes", width: "132px", render: (row) => <OutcomeBar counts={row.by_source} /> },
  { key: "success", title: "Success", width: "80px", align: "right", sortable: true, render: (row) => percent(row.success) },
  { key: "cameras", title: "Cameras", width: "minmax(80px, 1fr)", render: (row) => row.cameras.join(", ") || <span class="soft">–</span> },
  { key: "checked", title: "Quality", width: "92px", render: (row) => (row.checked ? <Badge tone="good">checked</Badge> : <span class="soft">unchecked</span>) },
];

const valueOf = (row: DatasetLine, key: string): string | number => {
  if (key === "title") return datasetTitle(row.path);
  return { episodes: row.episodes, hours: row.hours, success: row.success ?? -1 }[key] ?? 0;
};

function Totals({ rows }: { rows: readonly DatasetLine[] }) {
  const totals = new Map<string, { episodes: number; good: number; known: number }>();
  for (const one of rows.flatMap((row) => row.by_source)) {
    const sum = totals.get(one.source) ?? { episodes: 0, good: 0, known: 0 };
    totals.set(one.source, { episodes: sum.episodes + one.episodes, good: sum.good + one.successes, known: sum.known + one.successes + one.failures });
  }
  return (
    <div class="totals">
      {[...totals].map(([source, sum]) => (
        <div key={source} class="total">
          <SourceBadge source={source} />
          <strong>{count(sum.episodes)}</strong>
          <span class="soft">{sum.known ? `${percent(sum.good / sum.known)} of ${count(sum.known)} judged succeeded` : "not judged"}</span>
        </div>
      ))}
    </div>
  );
}

function AllDatasets() {
  const { data, error, reload } = useApi<DatasetLine[]>("/api/data/datasets", {}, ["workspace"]);
  const [tab, setTab] = useQueryState("tab", "datasets");
  const [text, setText] = useQueryState("text");
  const [sort, setSort] = useState<Sort | null>(null);
  const rows = useMemo(() => {
    const found = (data ?? []).filter((row) => `${row.path} ${datasetTitle(row.path)}`.toLowerCase().includes(text.toLowerCase()));
    if (sort) found.sort((a, b) => (valueOf(a, sort.key) < valueOf(b, sort.key) ? -1 : 1) * (sort.descending ? -1 : 1));
    return found;
  }, [data, text, sort]);
  const episodes = (data ?? []).reduce((sum, row) => sum + row.episodes, 0);
  return (
    <Page title="Data" lead={data ? `${plural(data.length, "dataset")}, ${plural(episodes, "episode")}` : undefined}>
      <ErrorBox error={error} onRetry={reload} />
      {!data && !error && <Loading rows={8} />}
      {data?.length === 0 && <Empty icon="data" title="No data yet">Generate simulated episodes, record on the robot, or ingest logs: <code>twinloop generate seed.yaml</code></Empty>}
      {data && data.length > 0 && (
        <>
          <Totals rows={data} />
          <Tabs label="Data" tabs={[{ key: "datasets", title: "Datasets", count: data.length }, { key: "sql", title: "SQL" }, { key: "selections", title: "Selections" }]} selected={tab} onSelect={setTab}>
            {tab === "datasets" && (
              <div class="stack">
                <div class="filters"><TextField label="Search" hideLabel placeholder="Search datasets" value={text} onValue={setText} type="search" /></div>
                <Card flush>
                  <Table label="Datasets" columns={COLUMNS} rows={rows} rowHeight={48} height={640} sort={sort} onSort={setSort} onOpen={(row) => go(datasetHref(row.path))} empty="No dataset has this in its name." />
                </Card>
              </div>
            )}
            {tab === "sql" && <SqlBox datasets={data.map((row) => row.path)} />}
            {tab === "selections" && <Selections datasets={data} />}
          </Tabs>
        </>
      )}
    </Page>
  );
}

function OneDataset({ path }: { path: string }) {
  const { data, error, reload } = useApi<DatasetLine>("/api/data/dataset", { dataset: path }, ["workspace"]);
  const [tab, setTab] = useQueryState("tab", "episodes");
  const lead = data && (
    <>
      {data.by_source.map((one) => <SourceBadge key={one.source} source={one.source} />)} {plural(data.episodes, "episode")}, {duration(data.hours * 3600)} at {number(data.rate_hz)} Hz on {data.robot}
      {data.success !== null && data.success !== undefined && `, ${percent(data.success)} succeeded`}. <span class="mono">{path}</span>
    </>
  );
  return (
    <Page full title={datasetTitle(path)} back={{ href: "/data", title: "Data" }} lead={lead ?? undefined}>
      <ErrorBox error={error} onRetry={reload} />
      {!error && (
        <div class="dataset-tabs">
          <Tabs label="Dataset" tabs={[{ key: "episodes", title: "Episodes", count: data?.episodes ?? null }, { key: "sql", title: "SQL" }, { key: "raters", title: "Raters" }]} selected={tab} onSelect={setTab}>
            {tab === "episodes" && <Episodes dataset={path} />}
            {tab === "sql" && <SqlBox datasets={[path]} />}
            {tab === "raters" && <Agreements dataset={path} />}
          </Tabs>
        </div>
      )}
    </Page>
  );
}

export default function DataRoom({ params }: RoomProps) {
  const dataset = params["dataset"];
  return dataset ? <OneDataset key={dataset} path={dataset} /> : <AllDatasets />;
}
