// Generated from the API's OpenAPI document by `make studio`; do not edit.

/** How raters of a dataset agree about success. */
export interface Agreement {
  raters: string[];
  compared: number;
  agreed: number;
  kappa: number | null;
  disagreements: Disagreement[];
}

/** One camera, and how its frames lie in the sheets of `/sheet`. */
export interface CameraLine {
  name: string;
  height: number;
  width: number;
  frame_height: number;
  frame_width: number;
  columns: number;
  per_sheet: number;
  sheets: number;
}

/** The policy in use: what it is, who made it the champion, when and why. */
export interface ChampionOverview {
  policy: string;
  policy_id: string;
  version: string;
  promoted_at: string;
  by: string;
  reason: string;
}

/** One value of a facet, and how many episodes have it. */
export interface Choice {
  value: string;
  episodes: number;
}

/** One dataset of the workspace; `problem` says why it cannot be read. */
export interface DatasetLine {
  path: string;
  episodes: number;
  frames: number;
  hours: number;
  by_source: SourceCount[];
  success?: number | null;
  cameras: string[];
  tasks: string[];
  robot: string;
  rate_hz: number;
  checked: boolean;
  writable: boolean;
  problem?: string | null;
}

/** One line about a dataset; `problem` says why it cannot be read. */
export interface DatasetSummary {
  name: string;
  path: string;
  episodes: number;
  frames: number;
  hours: number;
  sources: string;
  success?: number | null;
  problem?: string | null;
}

/** An episode whose raters do not say the same: what each said last, by name. */
export interface Disagreement {
  episode: number;
  episode_id: string;
  field: string;
  said: Record<string, boolean | string | null>;
}

/** One randomized value of a simulated episode. */
export interface Drawn {
  name: string;
  value: number | string;
}

/** Everything about an episode but its rows and frames. */
export interface EpisodeAnswer {
  dataset: string;
  episode: number;
  id: string;
  task: string;
  rows: number;
  duration_s: number;
  rate_hz: number;
  robot: string;
  success: boolean | null;
  failure: string | null;
  signals: SignalLine[];
  cameras: CameraLine[];
  events: Event[];
  provenance: Record<string, unknown>;
  draw: Drawn[];
  parents: Relative[];
  findings: Finding[];
  checked: boolean;
  labels: Label[];
  phases: PhaseRange[];
  keep: number[] | null;
  writable: boolean;
  before: number | null;
  after: number | null;
}

/** One episode in a list. */
export interface EpisodeLine {
  episode: number;
  id: string;
  task: string;
  rows: number;
  duration_s: number | null;
  source: string;
  success: boolean | null;
  failure: string | null;
  quality: string;
  site: string | null;
  operator: string | null;
  robot: string | null;
  recorded_at: string | null;
  seed: number | null;
}

/** A page of episodes; `total` counts those that the filter lets through, `all` those of the dataset. */
export interface EpisodePage {
  items: EpisodeLine[];
  total: number;
  offset: number;
  limit: number;
  all: number;
}

/** A timed event: `Event(1.24, "contact", "finger_left cube")`. */
export interface Event {
  time_s: number;
  kind: string;
  detail: string;
}

/** How many episodes have each value of each facet. */
export interface Facets {
  source: Choice[];
  outcome: Choice[];
  failure: Choice[];
  quality: Choice[];
  site: Choice[];
  operator: Choice[];
  task: Choice[];
}

/** One problem in one channel of one episode, with the measured value. */
export interface Finding {
  code: string;
  channel: string;
  severity: "note" | "warning" | "blocking";
  value: number;
  unit: string;
  threshold: number;
  message: string;
  remedy: string;
  start_s: number;
  end_s: number;
  episode: number;
  episode_id: string;
}

export interface HTTPValidationError {
  detail?: ValidationError[];
}

/** A job as it is now. */
export interface Job {
  id: string;
  command: string[];
  by: string;
  state: "queued" | "running" | "done" | "failed" | "cancelled" | "interrupted";
  created_at: string;
  started_at: string | null;
  ended_at: string | null;
  exit_code: number | null;
  error: string | null;
  attempts: number;
  can_resume: boolean;
  what: string | null;
  done: number | null;
  total: number | null;
}

/** Commands that can be jobs. */
export interface JobCommands {
  commands: string[];
}

/** A command to run. */
export interface JobRequest {
  command: string[];
  by: string;
}

/** One decision about one field of one episode. */
export interface Label {
  episode_id: string;
  field: string;
  value: boolean | string | null;
  by: string;
  at: string;
}

/** How many labels were added. */
export interface Labelled {
  episodes: number;
  labels: number;
}

/** A part of what a job printed; the next one begins at `next_offset`, in bytes. */
export interface LogPart {
  text: string;
  offset: number;
  next_offset: number;
}

/** Where a loop stands: its finished stages, the next one or the one that was interrupted, and why. */
export interface LoopStatus {
  done: string[];
  next_stage: string | null;
  next_step: string;
  reason: string;
}

/** What somebody says of episodes. A field that is left out is not labelled. */
export interface NewLabels {
  dataset: string;
  episodes: number[];
  by: string;
  outcome?: "success" | "failure" | "unknown" | null;
  failure?: string | null;
  phases?: PhaseRange[] | null;
  keep?: [number, number] | "all" | null;
}

/** A selection to save. */
export interface NewSelection {
  name: string;
  parts: SelectionPart[];
  by: string;
  note: string;
}

/** Where a workspace stands. */
export interface Overview {
  workspace: string;
  twin: string | null;
  datasets: DatasetSummary[];
  next_step: string;
  reason: string;
  loop: LoopStatus | null;
  registry: Record<string, string>;
  champion: ChampionOverview | null;
  stages: StageRun[];
  results: StageResult[];
  evaluations: SuccessRecord[];
}

export interface Page_Job {
  items: Job[];
  total: number;
  offset: number;
  limit: number;
}

/** What a part names now: episodes, and the fraction of a draw that comes from it. */
export interface PartCount {
  dataset: string;
  where: string;
  weight: number;
  episodes: number;
  fraction: number;
}

/** One phase of an episode, from `start_s` to `end_s` since its first row. */
export interface PhaseRange {
  name: string;
  start_s: number;
  end_s: number;
}

/** An episode that this one was made from; None where no dataset of the workspace has it. */
export interface Relative {
  id: string;
  dataset: string | null;
  episode: number | null;
}

/** A selection and what it names now. */
export interface SelectionAnswer {
  name: string;
  by: string;
  at: string;
  note: string;
  parts: PartCount[];
  problem?: string | null;
}

/** Episodes of one dataset: its path seen from the workspace, a condition on its episodes, and their weight in all. */
export interface SelectionPart {
  dataset: string;
  where: string;
  weight: number;
}

/** One element of a signal over time. */
export interface SeriesLine {
  signal: string;
  element: string;
  unit: string;
  values: (number | null)[];
}

/** One signal: its elements and their units. */
export interface SignalLine {
  name: string;
  elements: string[];
  units: string[];
}

/** Signals on one time axis, s since the episode's first row; `rows` rows were reduced to these points. */
export interface SignalsAnswer {
  time_s: number[];
  series: SeriesLine[];
  rows: number;
}

/** Episodes of one source. */
export interface SourceCount {
  source: string;
  episodes: number;
  successes: number;
  failures: number;
}

/** The first rows of an answer; `total` rows there are. */
export interface SqlAnswer {
  columns: SqlColumn[];
  rows: unknown[][];
  total: number;
  seconds: number;
}

/** A column of an answer or of a table. */
export interface SqlColumn {
  name: string;
  type: string;
}

/** What a query can name: tables with their columns, and the names of draws. */
export interface SqlTables {
  tables: Record<string, SqlColumn[]>;
  draws: string[];
}

/** What one stage of the loop has found, whoever ran it. */
export interface StageResult {
  name: string;
  state: "done" | "running" | "next" | "missing";
  summary?: string | null;
  at?: string | null;
  place?: string | null;
}

/** A stage of `twinloop loop` that ran: its folder in the workspace, when it ended and how long it took, s. */
export interface StageRun {
  stage: string;
  folder: string;
  finished_at: string;
  seconds: number;
}

/** What this studio is. */
export interface Studio {
  version: string;
  workspace: string;
  read_only: boolean;
}

/** Trials of one policy in one place, with the exact interval of its success rate (Clopper-Pearson, 95 %). */
export interface SuccessRecord {
  at: string;
  folder: string;
  policy: string;
  where: string;
  kind: "sim" | "standin" | "real";
  trials: number;
  successes: number;
  rate: number | null;
  low: number;
  high: number;
  occasion: "evaluate" | "gate" | "monitor";
  round: number | null;
}

/** A twin that an episode can be replayed in. */
export interface TwinChoice {
  place: string;
  title: string;
}

export interface ValidationError {
  loc: (string | number)[];
  msg: string;
  type: string;
  input?: unknown;
  ctx?: Record<string, unknown>;
}

/** Who asks for a change. */
export interface Who {
  by: string;
}
