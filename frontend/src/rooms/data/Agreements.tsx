// Where raters of a dataset agree and where they do not.
import { useApi } from "../../api";
import { number, percent, plural } from "../../format";
import { episodeHref } from "../../names";
import { Link } from "../../router";
import type { Agreement } from "../../types";
import { Card, Empty, ErrorBox, Loading, OutcomeBadge } from "../../ui";

/** Episodes about which raters differ, to be looked at again. */
export function Agreements({ dataset }: { dataset: string }) {
  const { data, error, reload } = useApi<Agreement>("/api/episode/agreement", { dataset }, ["workspace"]);
  if (error) return <ErrorBox error={error} onRetry={reload} />;
  if (!data) return <Loading />;
  if (data.compared === 0) {
    return (
      <Empty icon="people" title={data.raters.length > 0 ? "No episode has two raters yet" : "Nobody has labelled these episodes yet"}>
        Open an episode and press <kbd>S</kbd> for success or <kbd>F</kbd> for failure. Where two people label the same episode, this page compares them.
      </Empty>
    );
  }
  const words = `${plural(data.raters.length, "rater")} agree about ${data.agreed} of ${plural(data.compared, "episode")} (${percent(data.agreed / data.compared)})`;
  return (
    <Card title={words} note={data.kappa === null ? undefined : `Cohen's kappa ${number(data.kappa, 2)}: 1 is perfect agreement, 0 what chance would give.`} flush>
      {data.disagreements.length === 0 ? <p class="table-empty">They agree about every episode.</p> : (
        <table class="plain-table">
          <thead><tr><th>Episode</th><th>About</th>{data.raters.map((rater) => <th key={rater}>{rater}</th>)}</tr></thead>
          <tbody>
            {data.disagreements.map((one) => (
              <tr key={one.episode_id}>
                <td><Link href={episodeHref(dataset, one.episode)}>{one.episode}</Link></td>
                <td>{one.field === "success" ? "success" : "failure mode"}</td>
                {data.raters.map((rater) => {
                  const said = one.said[rater];
                  return <td key={rater}>{said === undefined ? <span class="soft">–</span> : <OutcomeBadge success={said === true} failure={typeof said === "string" ? said : null} />}</td>;
                })}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}
