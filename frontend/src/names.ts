// Names of things in the workspace as people say them.

const STAGES: Record<string, string> = {
  generate: "First simulated data",
  train: "First policy",
  "evaluate-sim": "First policy in simulation",
  evaluate: "First policy on the robot",
  excite: "Excitation of the robot",
  identify: "Identification",
  "gate-first": "First gate",
  gap: "Gap",
  demonstrate: "Demonstrations",
  diagnose: "Diagnosis",
  coverage: "Coverage",
  plan: "Plan",
  anchor: "Anchored randomization",
  regenerate: "Data of the calibrated twin",
  retrain: "Policy from the calibrated twin",
  reevaluate: "New policy on the robot",
  "demonstrate-more": "More demonstrations",
  select: "Usable demonstrations",
  finetune: "Fine-tuned policy",
  gate: "Gate",
  video: "Films",
  promote: "Promotion",
  monitor: "Deployment",
};

/** A stage of the loop in words. */
export const stageTitle = (stage: string): string => STAGES[stage] ?? stage;

/** A dataset by its path: those of the loop by their stage, others by their name. */
export function datasetTitle(path: string): string {
  const [top, folder = "", ...rest] = path.split("/");
  if (top === "loop" && folder) {
    const stage = folder.replace(/-[0-9a-f]{8,}$/, "");
    const last = rest[rest.length - 1];
    const detail = last && last !== "data" && last !== "runs" ? `, ${last}` : "";
    return `${stageTitle(stage)}${detail}`;
  }
  return top === "data" ? [folder, ...rest].join("/") : path;
}

/** The address of a dataset's page. */
export const datasetHref = (path: string): string => `/data/${encodeURIComponent(path)}`;

/** The address of an episode's page. */
export const episodeHref = (dataset: string, episode: number): string => `/episode/${encodeURIComponent(dataset)}/${episode}`;

/** The words of a command line; quotes keep words together. */
export const splitWords = (text: string): string[] => [...text.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((found) => found[1] ?? found[2] ?? found[3] ?? "");
