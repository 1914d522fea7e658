// Gap and diagnosis: points lost by dimension, what is behind each bar, the unknown part, and how far the twin is from the robot.
import { useApi } from "../api";
import { when } from "../format";
import { useQueryState, type RoomProps } from "../router";
import type { GapResults } from "../types";
import { Badge, Card, Empty, ErrorBox, Loading, Page, SelectField, Tabs } from "../ui";
import { DiagnosisPanel } from "./gap/Diagnosis";
import { GapPanel } from "./gap/Measures";
import { Start } from "./gap/Start";

export default function Gap(_: RoomProps) {
  const { data, error, reload } = useApi<GapResults>("/api/gap/results", {}, ["workspace"]);
  const [tab, setTab] = useQueryState("tab", "diagnosis");
  const [diagnosis, setDiagnosis] = useQueryState("diagnosis");
  const [gap, setGap] = useQueryState("gap");
  if (error) return <Page title="Gap"><ErrorBox error={error} onRetry={reload} /></Page>;
  if (!data) return <Page title="Gap"><Card><Loading rows={6} /></Card></Page>;
  const shown = data.diagnoses.find((one) => one.path === diagnosis) ?? data.diagnoses[0];
  const measured = data.gaps.find((one) => one.path === gap) ?? data.gaps[0];
  const standin = tab === "gap" ? measured?.standin : shown?.standin;
  return (
    <Page
      title={<>Gap {standin && <Badge tone="standin">stand-in for a robot</Badge>}</>}
      lead={tab === "gap" ? "How far the twin is from what was recorded, dimension by dimension; differences are simulation minus reality." : "Why the policy does worse on the robot than in its twin: success points lost to each dimension."}
      actions={
        tab === "gap"
          ? data.gaps.length > 1 && measured && <SelectField label="Measured gap" hideLabel value={measured.path} onValue={setGap} options={data.gaps.map((one) => ({ value: one.path, label: `${one.twin}, ${one.episodes} episodes, ${when(one.at)}` }))} />
          : data.diagnoses.length > 1 && shown && <SelectField label="Diagnosis" hideLabel value={shown.path} onValue={setDiagnosis} options={data.diagnoses.map((one) => ({ value: one.path, label: `${one.policy}, ${when(one.at)}` }))} />
      }
    >
      <Tabs label="What is shown" tabs={[{ key: "diagnosis", title: "Points lost" }, { key: "gap", title: "Measured differences" }, { key: "start", title: "Measure again" }]} selected={tab} onSelect={setTab}>
        {tab === "diagnosis" && (shown ? <DiagnosisPanel key={shown.path} path={shown.path} /> : <Card><Empty icon="gap" title="Nothing is diagnosed yet">A diagnosis needs a policy and its judged runs on the robot. Start one under "Measure again".</Empty></Card>)}
        {tab === "gap" && (measured ? <GapPanel key={measured.path} path={measured.path} /> : <Card><Empty icon="gap" title="No gap is measured yet">Measuring needs recordings of the robot and its twin. Start it under "Measure again".</Empty></Card>)}
        {tab === "start" && <Start results={data} onDone={reload} />}
      </Tabs>
    </Page>
  );
}
