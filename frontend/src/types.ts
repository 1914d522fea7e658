// Generated from the API's OpenAPI document by `make studio`; do not edit.

/** How raters of a dataset agree about success. */
export interface Agreement {
  raters: string[];
  compared: number;
  agreed: number;
  kappa: number | null;
  disagreements: Disagreement[];
}

/** A change to act on, since the episode with the id `since`; `changes_twin`: the twin no longer matches the robot, so the gate blocks until it is identified again. */
export interface Alert {
  kind: string;
  what: string;
  since: string;
  next_step: string;
  command: string;
  changes_twin: boolean;
  dataset: string;
  at?: string;
}

/** The next trial of a series. It never says which policy acts. */
export interface Announcement {
  number: number;
  total: number;
  scene: number;
  can_skip: boolean;
}

/** The success rate after each of so many labelled episodes, with the limits that hold at all times together. */
export interface Band {
  episodes: number[];
  rate: number[];
  low: number[];
  high: number[];
}

/** An item with its state, who put it there and when, and how much of it is recorded. */
export interface BoardItem {
  item: Item;
  state: "planned" | "recording" | "done";
  by: string | null;
  at: string | null;
  note: string;
  recorded: number | null;
  succeeded: number | null;
  problem?: string | null;
  left: number;
}

/** A body's name, and its pose in the world: position (m) and quaternion (w first). */
export interface BodyPose {
  name: string;
  position: [number, number, number];
  quaternion: [number, number, number, number];
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

/** A camera that policies see through: pose in the world, looking along its -z, with its vertical field of view. */
export interface CameraPose {
  name: string;
  body: number;
  position: [number, number, number];
  quaternion: [number, number, number, number];
  fovy_deg: number;
  width: number;
  height: number;
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

/** A quantity that alarmed: since which episode, when it was noticed, and its value before and after with 95 % intervals. */
export interface Change {
  name: string;
  dimension: string;
  began: number;
  alarmed: number;
  before: number;
  after: number;
  low: number;
  high: number;
  role: "moved" | "followed";
}

/** What was done; `how` says whether now, or by the same request before. */
export interface ChangeAnswer {
  sentence: string;
  how: string;
  number: number;
  registry: RegistrySummary;
}

/** Root mean square replay error of one channel on held-out episodes, and how often its band holds. */
export interface ChannelLine {
  name: string;
  unit: string;
  before: number;
  after: number;
  coverage: number;
  sensor_noise: number;
}

/** The result of one check; `accepted` states who waived it, and why. */
export interface Check {
  name: string;
  status: "passed" | "failed" | "not evaluated";
  detail: string;
  needed: boolean;
  accepted?: string | null;
}

/** One value of a facet, and how many episodes have it. */
export interface Choice {
  value: string;
  episodes: number;
}

/** Parameters that are not separately identifiable: moving along `weights` (in prior ranges) changes no reading. */
export interface Confusion {
  names: string[];
  weights: number[];
  remedy: string;
}

/** One person's consent. `document` is the hash of the signed document; dates are YYYY-MM-DD, inclusive. */
export interface Consent {
  id: string;
  pseudonym: string;
  scope: string[];
  given: string;
  expires: string | null;
  document: string;
  withdrawn?: string | null;
}

/** A policy by name and by the id derived from its weights. */
export interface Contender {
  name: string;
  id: string;
}

/** One bar: success points that a dimension costs, and what was measured of it. */
export interface CostBar {
  dimension: string;
  kind: "cost" | "equal" | "not measured";
  lost: Interval | null;
  alone: number | null;
  named: boolean;
  words: string;
  quantities: Quantity[];
  parameters: string[];
  missing: string[];
}

/** A coverage: its regions, and what its map can show; `levels` is empty where no map was kept. */
export interface CoverageAnswer {
  path: string;
  real: CoverageSide;
  sim: CoverageSide;
  outside: number;
  far: number;
  regions: Region[];
  missing: string[];
  levels: CoverageLevel[];
}

/** An axis of the map: places on it have no unit. */
export interface CoverageAxis {
  name: string;
  unit: string;
  low: number;
  high: number;
}

/** Points of one level: real ones first, then simulated ones. */
export interface CoverageLevel {
  name: "situation" | "moment";
  real: number;
  sim: number;
  axes: CoverageAxis[];
}

/** A coverage of the workspace; `problem` says why it cannot be read. */
export interface CoverageLine {
  path: string;
  at: string;
  real: string;
  sim: string;
  outside: number;
  regions: number;
  has_map: boolean;
  problem?: string | null;
}

/** One of the two datasets; `path` is where it lies in the workspace, if it still does. */
export interface CoverageSide {
  summary: twinloop_coverage_result_DatasetSummary;
  path: string | null;
}

/** One point of a learning curve; errors are mean losses in scaled units, None where they are not known. */
export interface CurvePoint {
  stage: string;
  step: number;
  validation: number | null;
  training?: number | null;
  elapsed_s?: number | null;
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

/** Episodes that a withdrawal removes from a dataset. */
export interface DatasetRemoval {
  dataset: string;
  episodes: number;
}

/** A decision about a candidate. */
export interface Decision {
  twin: string;
  by: string;
  reason: string;
  override: boolean;
}

/** A diagnosis with the evidence behind it. */
export interface DiagnosisDetail {
  path: string;
  policy: string;
  twin: string;
  standin: boolean;
  verdict: string;
  notes: string[];
  trials: number;
  successes: number;
  in_twin: Interval;
  on_robot: Interval;
  predicted: Interval;
  drop: Interval;
  explained: Interval;
  unknown: Interval;
  exact: boolean;
  scenes: number;
  evaluations: number;
  bars: CostBar[];
  failures: Record<string, Record<string, number>>;
  slices: Record<string, unknown>[];
  rules: Rule[];
  episodes: EpisodePlace[];
  episodes_missing: number;
}

/** One diagnosis in a list. */
export interface DiagnosisLine {
  path: string;
  at: string;
  policy: string;
  twin: string;
  verdict: string;
  standin: boolean;
}

/** A parameter whose nominal value differs; None where a twin does not have it. */
export interface Difference {
  name: string;
  first: number | string | null;
  second: number | string | null;
  unit: string;
  dimension: string;
}

/** What was measured of one dimension: headlines first, and what would be needed for more. */
export interface DimensionLine {
  dimension: string;
  shown: boolean;
  headlines: Measure[];
  channels: Measure[];
  not_evaluated: NotEvaluated[];
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

/** Changes of a robot over its episodes; numbers in `changes` are positions in `episodes`. */
export interface Drift {
  episodes: string[];
  baseline: number;
  series: Series[];
  changes: Change[];
  unwatched: string[];
  chance: number;
  watched: number;
  drift: boolean;
  dimensions: string[];
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

/** Where an episode is: its dataset's folder, seen from the workspace, its number there, and how it ended. */
export interface EpisodePlace {
  id: string;
  dataset: string;
  episode: number;
  success: boolean | null;
  failure: string | null;
  source: string;
}

/** One parameter before and after, in numbers and in words. */
export interface EstimateLine {
  name: string;
  dimension: string;
  unit: string;
  nominal: number;
  value: number;
  low: number;
  high: number;
  prior: [number, number];
  status: string;
  at_edge: boolean;
  words: string;
}

/** A timed event: `Event(1.24, "contact", "finger_left cube")`. */
export interface Event {
  time_s: number;
  kind: string;
  detail: string;
}

/** One run replayed in the twin as it is and with what was measured of a dimension; `reason` says why it cannot be replayed. */
export interface Evidence {
  dimension: string;
  values: Record<string, number>;
  errors: SignalErrors[];
  geometry: Geometry;
  recorded: Record<string, unknown>;
  nominal: Record<string, unknown> | null;
  measured: Record<string, unknown> | null;
  signals: EvidenceSignal[];
  reason: string;
}

/** One number of a run: recorded, and in both replays. */
export interface EvidenceSignal {
  name: string;
  unit: string;
  recorded: number[];
  nominal: number[];
  measured: number[];
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

/** What the quality check found in several episodes; `finding` is the worst of them. */
export interface FindingLine {
  finding: Finding;
  episodes: number[];
  overridden: boolean;
}

/** A file that holds copies, or (`certain` False) that cannot be searched, and why it is named. */
export interface Found {
  path: string;
  what: string;
  certain: boolean;
}

/** Success points, the median and the 95 % interval; None where nothing is known to compute them from. */
export interface Gain {
  points: number | null;
  low: number | null;
  high: number | null;
}

/** A measured gap; differences are simulation minus reality. */
export interface GapDetail {
  path: string;
  twin: string;
  twin_version: string;
  sim: string | null;
  standin: boolean;
  level: number;
  notes: string[];
  dimensions: DimensionLine[];
  success: twinloop_gap_success_Success;
  episodes: EpisodePlace[];
  episodes_total: number;
}

/** One measured gap in a list. */
export interface GapLine {
  path: string;
  at: string;
  twin: string;
  episodes: number;
  shown: string[];
  standin: boolean;
}

/** Diagnoses and gaps of the workspace, newest first, and folders for new ones. */
export interface GapResults {
  diagnoses: DiagnosisLine[];
  gaps: GapLine[];
  next_diagnosis: string;
  next_gap: string;
}

/** What a viewer draws of a twin; `ambient` is light from everywhere, `headlight` from the viewer. */
export interface Geometry {
  twin: string;
  version: string;
  content_hash: string;
  bodies: BodyPose[];
  shapes: Shape[];
  meshes: Mesh[];
  textures: Texture[];
  lights: Light[];
  cameras: CameraPose[];
  ambient: [number, number, number];
  headlight: [number, number, number];
  centre: [number, number, number];
  extent_m: number;
}

export interface HTTPValidationError {
  detail?: ValidationError[];
}

/** Whether an identification can start, what it would read and fit, and the folder that it would write. */
export interface IdentifyCheck {
  ready: boolean;
  reasons: string[];
  notes: string[];
  episodes: number;
  left_out: number[];
  seconds: number;
  channels: [string, string][];
  models: Record<string, string[]>;
  findings: FindingLine[];
  out: string;
}

/** An identification: the verdict of held-out replay, every parameter, and what to doubt. */
export interface IdentifyResult {
  version: TwinVersion;
  base: string;
  gate: ReplayGate;
  estimates: EstimateLine[];
  confusions: Confusion[];
  channels: ChannelLine[];
  correlation: number[][];
  warnings: string[];
  fitted: number;
  held_out: number;
  fitted_s: number | null;
  available_s: number | null;
  choice: string | null;
  seed: number;
  report: string | null;
}

/** An estimate with its confidence interval, all in `unit`; "1" is a number without a unit. */
export interface Interval {
  value: number;
  low: number;
  high: number;
  confidence: number;
  unit: string;
}

/** One thing to record. */
export interface Item {
  id: string;
  kind: "demonstrations" | "excitation" | "contact runs" | "sensor logs" | "participants" | "camera episodes" | "measuring" | "nothing";
  title: string;
  why: string;
  dimension: string | null;
  episodes: number;
  trials: number;
  minutes: number;
  gain: Gain;
  power: string;
  simulation: string;
  required: string | null;
  command: string;
  counts: string;
  settings: (Record<string, number | string>)[];
  unit: string;
  added_by?: string | null;
  added_at?: string | null;
  hours: number;
  gain_per_hour: number | null;
}

/** How much of one item is recorded; `problem` says why it could not be counted. */
export interface ItemProgress {
  id: string;
  title: string;
  recorded: number;
  wanted: number;
  succeeded: number;
  problem?: string | null;
  left: number;
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

/** One element of the robot's position with its limits. */
export interface JointState {
  name: string;
  unit: string;
  value: number | null;
  low: number | null;
  high: number | null;
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

/** A light: where it is, where it shines, its colour, and whether it is like the sun. */
export interface Light {
  position: [number, number, number];
  direction: [number, number, number];
  diffuse: [number, number, number];
  directional: boolean;
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

/** Real episodes that were selected on a coverage map; `failed` of them failed. */
export interface MapSelection {
  name: string;
  query: string;
  conditions: (Range | Word)[];
  episodes: number[];
  failed: number;
  listed: string;
  points: number;
  others: number;
  sim_episodes: number;
  fraction: number;
  outcomes?: Outcomes | null;
  twin?: string | null;
  dataset?: string | null;
}

/** One difference between simulation and reality: `value` is simulation minus reality, in `unit`. */
export interface Measure {
  value: number;
  low: number;
  high: number;
  confidence: number;
  unit: string;
  dimension: string;
  name: string;
  standard_error: number;
  episodes: number;
  sim_episodes: number;
  samples: number;
  against: string;
  channel: string;
  real?: number | null;
  sim?: number | null;
  floor: number;
  p_value?: number | null;
  about: string;
  excludes_zero: boolean;
}

/** A mesh in the frame of its geom: vertices (V, 3) in m and faces (F, 3). */
export interface Mesh {
  vertices: [number, number, number][];
  faces: [number, number, number][];
}

/** The result of one pass over deployed episodes; `group` is the kind of feature that changed most. */
export interface MonitorReport {
  dataset: string;
  episodes: number;
  reference: number;
  success: twinloop_monitoring_success_Success;
  group: "actuator" | "scene" | "camera" | null;
  shifts: Shift[];
  drift: Drift | null;
  alerts: Alert[];
  interventions?: Record<string, number>;
  intervened: number;
  kind: string | null;
}

/** Which keys are held: fractions of full speed along x, y, z and about the vertical, and whether the gripper is closed. */
export interface Motion {
  motion: number[];
  closed: boolean;
}

/** Who put an item into a state, and when. */
export interface Move {
  item: string;
  state: "planned" | "recording" | "done";
  by: string;
  at: string;
  note: string;
}

/** A consent to record; `document` is the signed one's path in the workspace, of which only the hash is kept. */
export interface NewConsent {
  pseudonym: string;
  scope: string[];
  document: string;
  given?: string | null;
  expires?: string | null;
}

/** An outline of which an item is made, and who adds it. */
export interface NewItem {
  coverage: string;
  polygon: string;
  across: string;
  up: string;
  level: "situation" | "moment";
  name?: string | null;
  by: string;
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

/** Where an item is moved, by whom and why. */
export interface NewState {
  state: "planned" | "recording" | "done";
  by: string;
  note: string;
}

/** Something that could not be measured, and what would be needed for it. */
export interface NotEvaluated {
  dimension: string;
  needs: string;
  name: string;
}

/** What the page shows: the person's trial, the robot, and where things go, in m. */
export interface Operation {
  trial: TrialState;
  robot: RobotState | null;
  places: Record<string, [number, number]>;
  severities: string[];
  findings: string[];
}

/** How real episodes ended inside a region and outside of it; `p_value` is Fisher's exact test, None where unknown. */
export interface Outcomes {
  failed_inside: number;
  known_inside: number;
  failed_elsewhere: number;
  known_elsewhere: number;
  p_value: number | null;
  reasons: Record<string, number>;
  worse: boolean;
}

/** Where a workspace stands. */
export interface Overview {
  workspace: string;
  twin: string | null;
  datasets: twinloop_workspace_DatasetSummary[];
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

/** Success on the robot and in simulation in one slice; None where no outcome is known. */
export interface Pair {
  condition: string;
  slice: string;
  real: Rate | null;
  sim: Rate | null;
  difference?: Interval | null;
  p_value?: number | null;
}

/** One scene: its number in the list, its values, the outcomes, and the number of simulation artefacts while the candidate acted (None: unknown). The champion's are not counted: a failing policy may throw objects about. */
export interface PairedTrial {
  scene: number;
  candidate: boolean;
  champion?: boolean | null;
  values?: Record<string, number>;
  artefacts: number | null;
}

/** One parameter with its nominal value and how others are spread. */
export interface ParameterDetail {
  name: string;
  unit: string;
  nominal: number | string;
  spreads: ParameterSpread[];
}

/** How values of a parameter are spread, by source: bin edges and the fraction of values in each bin. */
export interface ParameterSpread {
  source: string;
  edges: number[];
  fractions: number[];
  middle: number;
  low: number;
  high: number;
}

/** What a part names now: episodes, and the fraction of a draw that comes from it. */
export interface PartCount {
  dataset: string;
  where: string;
  weight: number;
  episodes: number;
  fraction: number;
}

/** A withdrawal that was carried out: what was removed, by whom and why, and what a person has to look after. */
export interface PastWithdrawal {
  consent: string;
  at: string;
  by: string;
  reason: string;
  episodes: number;
  artefacts: number;
  found: number;
}

/** Everybody whose episodes the workspace holds or held, and the uses that can be consented to. */
export interface PeopleAnswer {
  people: PersonConsent[];
  withdrawals: PastWithdrawal[];
  uses: string[];
}

/** A person, by pseudonym, with one consent and the episodes under it; or with episodes under none. */
export interface PersonConsent {
  person: string;
  consent: string | null;
  scope: string[];
  given: string | null;
  expires: string | null;
  withdrawn: string | null;
  standing: "valid" | "expires soon" | "not yet valid" | "expired" | "withdrawn" | "no consent";
  episodes: number;
  datasets?: Record<string, number>;
}

/** One phase of an episode, from `start_s` to `end_s` since its first row. */
export interface PhaseRange {
  name: string;
  start_s: number;
  end_s: number;
}

/** The plan of the workspace; `path` is its file there, None if there is no plan yet. */
export interface PlanAnswer {
  path: string | null;
  made_at: string;
  success: number | null;
  hours: number;
  trials: number;
  trial_minutes: number;
  sources: Record<string, string>;
  assumptions: string[];
  items: BoardItem[];
  moves: Move[];
}

/** A policy with its version in the registry and the aliases it holds, if it is registered. */
export interface PolicyLine {
  policy: PolicySummary;
  version: string | null;
  aliases: string[];
}

/** A policy as its record says. */
export interface PolicySummary {
  name: string;
  id: string;
  folder: string;
  recipe?: string | null;
  created_at?: string | null;
  twin?: string | null;
  foreign: boolean;
  datasets: Record<string, unknown>[];
  curve: CurvePoint[];
  copies: string[];
  problem?: string | null;
}

/** Samples of two parameters' joint posterior. */
export interface PosteriorSamples {
  x: string;
  y: string;
  points: [number, number][];
}

/** What the person did. */
export interface Press {
  kind: "start" | "success" | "failure" | "redo" | "skip" | "pause" | "resume" | "stop" | "reset" | "note" | "leave";
  failure?: string | null;
  phase?: string | null;
  severity?: string | null;
  note?: string | null;
}

/** Which policy goes to which stage, on what grounds, and who says so. */
export interface Promotion {
  policy: string;
  verdict?: string | null;
  stage: "shadow" | "canary" | "full";
  fraction: number;
  by: string;
  override?: string | null;
}

/** One measured number: the twin's value, the robot's with its 95 % interval, and whether they differ enough to matter. */
export interface Quantity {
  name: string;
  unit: string;
  twin: number;
  real: number;
  low: number;
  high: number;
  differs: boolean;
}

/** A variable between two bounds. `sql` and `place` are those of the variable; `seen` is where real data in a region lies. */
export interface Range {
  variable: string;
  unit: string;
  place: "frames" | "start" | "episodes" | "nowhere";
  sql: string;
  low?: number;
  high?: number;
  seen?: [number, number] | null;
}

/** Success rate of the episodes whose outcome is known, with its exact interval. */
export interface Rate {
  value: number;
  low: number;
  high: number;
  confidence: number;
  unit: string;
  successes: number;
  episodes: number;
}

/** An entry of the record: who did what, when, and the name of the trusted key that signed it, if one did. */
export interface RecordedAction {
  number: number;
  at: string;
  by: string;
  action: string;
  sentence: string;
  signed_by: string | null;
  hash: string;
}

/** A dataset of recordings, by its folder seen from the workspace. */
export interface RecordingLine {
  name: string;
  episodes: number;
  hours: number;
  sources: string[];
}

/** Real data that simulation does not cover. */
export interface Region {
  name: string;
  level: "situation" | "moment";
  conditions: (Range | Word)[];
  query: string;
  episodes: number[];
  fraction: number;
  sim_episodes: number;
  outcomes: Outcomes;
  recall: number;
  precision: number;
  worst?: Region | null;
  offset: boolean;
}

/** A version of the registry: the policy, when it came in on what verdict, and the aliases it holds now. */
export interface RegisteredVersion {
  version: string;
  policy: string;
  policy_id: string;
  decision: string;
  registered_at: string;
  aliases: string[];
}

/** What a registry says: versions, who holds which alias, and every action, oldest first. */
export interface RegistrySummary {
  versions: RegisteredVersion[];
  aliases: Record<string, string | null>;
  champions: string[];
  fraction: number | null;
  actions: RecordedAction[];
  head: string;
}

/** An episode that this one was made from; None where no dataset of the workspace has it. */
export interface Relative {
  id: string;
  dataset: string | null;
  episode: number | null;
}

/** One channel of a held-out episode: recorded, and replayed before and after with its band. */
export interface ReplayChannel {
  name: string;
  unit: string;
  real: number[];
  before: number[];
  after: number[];
  low: number[];
  high: number[];
}

/** Whether held-out replay error fell by more than chance. */
export interface ReplayGate {
  accepted: boolean;
  ratio: number;
  p_value: number;
  units: number;
  unit: string;
  reason: string;
  worse: string[];
}

/** A held-out episode and the twin's replays of it. */
export interface ReplayLines {
  episode: string;
  place: EpisodePlace | null;
  task: string;
  time_s: number[];
  channels: ReplayChannel[];
}

/** A report with the band of the success rate after each episode. */
export interface ReportAnswer {
  path: string;
  at: string;
  report: MonitorReport;
  band: Band;
}

/** A report in one line; `problem` says why it cannot be read. */
export interface ReportLine {
  path: string;
  at: string;
  dataset: string;
  episodes: number;
  labelled: number;
  successes: number;
  kind?: string | null;
  alerts: number;
  problem?: string | null;
}

/** The robot as the page shows it: how old its newest reading is, s, and where it is within its limits. */
export interface RobotState {
  serial: string;
  standin: boolean;
  rate_hz: number;
  age_s: number | null;
  joints: JointState[];
  cameras: string[];
  ghosts: string[];
  drives: boolean;
}

/** A rule of thumb of the field, whether it applies here, and why. */
export interface Rule {
  name: string;
  applies: boolean | null;
  because: string;
  advice: string;
}

/** The criteria of a verdict. */
export interface Rules {
  alpha: number;
  better_by: number;
  threshold: number;
  min_effect: number;
  slice_margin: number;
  max_trials: number;
  max_artefact_fraction: number;
  simulation_only: boolean;
}

/** What an outline selects, and where its dataset lies in the workspace, if it still does. */
export interface SelectedRegion {
  selection: MapSelection;
  dataset: string | null;
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

/** One monitored quantity over the episodes: estimates and standard deviations, and its baseline level and scatter. */
export interface Series {
  name: string;
  unit: string;
  dimension: string;
  estimates: number[];
  deviations: number[];
  level: number;
  scatter: number;
  evidence: number[];
}

/** One element of a signal over time. */
export interface SeriesLine {
  signal: string;
  element: string;
  unit: string;
  values: (number | null)[];
}

/** One drawn geom: its kind, MuJoCo's sizes (m), its pose in its body (quaternion w first), and its surface. */
export interface Shape {
  kind: string;
  body: number;
  size: [number, number, number];
  position: [number, number, number];
  quaternion: [number, number, number, number];
  rgba: [number, number, number, number];
  specular: number;
  shininess: number;
  mesh?: number | null;
  texture?: number | null;
  repeat: [number, number];
  per_metre: boolean;
}

/** A feature that changed: since which deployed episode, when it was detected, and by how many robust standard deviations. */
export interface Shift {
  feature: string;
  group: "actuator" | "scene" | "camera";
  began: number;
  noticed: number;
  before: number;
  after: number;
  size: number;
  values: number[];
}

/** Root mean square replay errors of one signal, in its unit: in the twin as it is, and with what was measured. */
export interface SignalErrors {
  name: string;
  unit: string;
  nominal: number;
  measured: number;
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

/** One slice: trials and mean outcome in simulation and in reality, and the result of its test. */
export interface SliceStatistic {
  name: string;
  simulated: number;
  simulated_mean: number | null;
  real: number;
  real_mean: number | null;
  standing: "not worse" | "worse" | "open";
  shown_by: string;
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

/** Who takes the policy from a stage, and why. */
export interface StageWithdrawal {
  stage: "shadow" | "canary" | "full";
  by: string;
  reason: string;
  version?: string | null;
}

/** Estimates after the last trial, and their history. */
export interface Statistics {
  grounds: "real" | "real and simulated" | "simulated";
  paired: boolean;
  trials: number;
  bar: number;
  estimate: number | null;
  low: number;
  high: number;
  promoting: boolean;
  refusing: boolean;
  more: number | null;
  log_e_value: number[];
  log_against: number[];
  lows: number[];
  highs: number[];
  outcomes: number[];
  slices: SliceStatistic[];
  correlation: number | null;
  coefficient: number;
  simulated_trials: number;
  simulated_mean: number | null;
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

/** A small image: `rgb` holds its rows from the top, three bytes a pixel, in base64. */
export interface Texture {
  width: number;
  height: number;
  rgb: string;
}

/** A policy, and why it is listed; `certain` is False if its record cannot be read. */
export interface TrainedPolicy {
  name: string;
  path: string;
  certain: boolean;
  detail: string;
}

/** What a person is shown. */
export interface TrialState {
  stage: "waiting" | "placing" | "running" | "judging" | "stopped" | "paused" | "ended";
  trial?: Announcement | null;
  done: number;
  void: number;
  instruction: string;
  values?: Record<string, number>;
  seconds_left: number;
  message: string;
  allowed: ("start" | "success" | "failure" | "redo" | "skip" | "pause" | "resume" | "stop" | "reset" | "note" | "leave")[];
  failures: string[];
  phases: string[];
  describing: boolean;
  changed: number;
}

/** A twin that an episode can be replayed in. */
export interface TwinChoice {
  place: string;
  title: string;
}

/** A twin with its parameters and where values of them may come from. */
export interface TwinDetail {
  twin: string;
  name: string;
  version: string;
  content_hash: string;
  parent: string | null;
  description: string;
  robot: string;
  task: string;
  control_hz: number;
  physics_dt_s: number;
  cameras: string[];
  parameters: TwinParameter[];
  sources: ValueSource[];
}

/** One parameter; the last fields are those of its estimate, where it was identified. */
export interface TwinParameter {
  name: string;
  description: string;
  dimension: string;
  stage: string;
  unit: string;
  nominal: number | string;
  low: number | null;
  high: number | null;
  whole: boolean;
  choices: string[];
  before?: number | null;
  status?: string | null;
  interval?: [number, number] | null;
  words?: string | null;
}

/** A person's decision against a candidate. */
export interface TwinRejection {
  at: string;
  twin: string;
  version: string;
  content_hash: string;
  reason: string;
  by: string;
}

/** A twin as one set of values makes it look; `values` are those that are not nominal. */
export interface TwinScene {
  geometry: Geometry;
  values: Record<string, number | string>;
}

/** One line of a workspace's history: from then on, this twin was the current one. */
export interface TwinUse {
  at: string;
  twin: string;
  version: string;
  content_hash: string;
  reason: string;
  by: string;
}

/** One twin in a workspace. */
export interface TwinVersion {
  twin: string;
  name: string;
  version: string;
  content_hash: string;
  parent: string | null;
  state: "current" | "earlier" | "candidate" | "rejected" | "unused";
  identified: boolean;
  reason: string;
  by: string;
  at: string;
}

/** Every twin of the workspace, the current one first, and which was current when. */
export interface Twins {
  current: string | null;
  versions: TwinVersion[];
  history: TwinUse[];
}

export interface ValidationError {
  loc: (string | number)[];
  msg: string;
  type: string;
  input?: unknown;
  ctx?: Record<string, unknown>;
}

/** Where values come from: its kind, the name by which it is asked for, what it is, and how many sets of values it has. */
export interface ValueSource {
  name: string;
  kind: "nominal" | "posterior" | "randomization";
  about: string;
  count: number;
}

/** A decision about one candidate, with its basis. */
export interface Verdict {
  decision: "promote" | "refuse" | "more";
  reasons: string[];
  candidate: Contender;
  champion: Contender | null;
  rules: Rules;
  statistics: Statistics;
  checks: Check[];
  more: number | null;
  evidence_hash: string;
  robot: string | null;
  standin: boolean;
  decided_at: string;
}

/** A verdict with its trials; `contradiction` says where it does not follow from the evidence beside it. */
export interface VerdictAnswer {
  folder: string;
  verdict: Verdict;
  sentence: string;
  real: PairedTrial[];
  simulated: number;
  recordings: string[];
  contradiction: string | null;
}

/** A verdict in one line; `problem` says why it cannot be read. */
export interface VerdictLine {
  folder: string;
  decided_at?: string | null;
  candidate?: Contender | null;
  champion?: Contender | null;
  decision?: "promote" | "refuse" | "more" | null;
  sentence: string;
  trials: number;
  robot?: string | null;
  standin: boolean;
  problem?: string | null;
}

/** An intact registry: its head, which can be stored elsewhere, and who signed its entries. */
export interface VerifiedAnswer {
  head: string;
  entries: number;
  signed: number;
  unsigned: number;
  keys: string[];
  anchor: string | null;
}

/** Who asks for a change. */
export interface Who {
  by: string;
}

/** Who carries out a withdrawal, and why. */
export interface Withdrawal {
  by: string;
  reason: string;
}

/** What a withdrawal removes or has removed; `outside`, `policies` and `found` are left to a person. */
export interface WithdrawalAnswer {
  consent: string;
  removals: DatasetRemoval[];
  links: string[];
  artefacts: string[];
  outside: string[];
  policies: TrainedPolicy[];
  found: Found[];
  mentions: string[];
  complete?: boolean | null;
}

/** A field that says one word, such as a task or a label. */
export interface Word {
  field: string;
  word: string;
}

/** One dataset of a comparison: its episodes, its sampled points, and how many of the judged episodes succeeded. */
export interface twinloop_coverage_result_DatasetSummary {
  dataset: string;
  id: string;
  episodes: number;
  points: number;
  succeeded: number;
  known: number;
}

/** How often episodes succeed: overall, by slice of every condition, and how and when they fail. */
export interface twinloop_gap_success_Success {
  overall: Pair;
  slices: Pair[];
  against: string;
  real_failures?: Record<string, number>;
  sim_failures?: Record<string, number>;
  real_failed_in?: Record<string, number>;
  sim_failed_in?: Record<string, number>;
  needs?: string | null;
}

/** Labelled deployed episodes: number of successes, the band, and whether the success rate has fallen. */
export interface twinloop_monitoring_success_Success {
  episodes: number;
  successes: number;
  low: number;
  high: number;
  expected: number | null;
  fell: number | null;
  outcomes: boolean[];
}

/** Who goes back to the previous champion, and why; `champion` is the version to go back from. */
export interface twinloop_studio_api_policies_RollBack {
  by: string;
  reason: string;
  champion?: string | null;
}

/** A step back to the twin before. */
export interface twinloop_studio_api_twins_RollBack {
  by: string;
  reason: string;
}

/** One line about a dataset; `problem` says why it cannot be read. */
export interface twinloop_workspace_DatasetSummary {
  name: string;
  path: string;
  episodes: number;
  frames: number;
  hours: number;
  sources: string;
  success?: number | null;
  problem?: string | null;
}
