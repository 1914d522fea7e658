// Where the workspace stands and what to do next.
import { useApi } from "../api";
import { count, number, percent } from "../format";
import { Card, ErrorBox, Loading, Page } from "../ui";

interface Dataset {
  name: string;
  episodes: number;
  hours: number;
  sources: string;
  success: number | null;
  problem: string | null;
}

interface Overview {
  workspace: string;
  datasets: Dataset[];
  next_step: string;
  reason: string;
}

function Datasets({ rows }: { rows: readonly Dataset[] }) {
  return (
    <table class="plain-table">
      <thead><tr><th>Dataset</th><th>Source</th><th class="number">Episodes</th><th class="number">Hours</th><th class="number">Success</th></tr></thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.name}>
            <td>{row.name}{row.problem && <p class="field-error">{row.problem}</p>}</td>
            <td>{row.sources}</td>
            <td class="number">{count(row.episodes)}</td>
            <td class="number">{number(row.hours, 2)}</td>
            <td class="number">{percent(row.success)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export default function OverviewRoom() {
  const { data, error, reload } = useApi<Overview>("/api/overview", {}, ["workspace"]);
  return (
    <Page title="Overview">
      <ErrorBox error={error} onRetry={reload} />
      {!data && !error && <Loading />}
      {data && (
        <>
          <Card title="Next step" note={data.reason}><code>{data.next_step}</code></Card>
          <Card title="Datasets" flush><Datasets rows={data.datasets} /></Card>
        </>
      )}
    </Page>
  );
}
