"""Every operation of the studio as a method; made from its routes by `make docs`."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal
from urllib.parse import quote as _quoted

from twinloop.consent.records import Consent
from twinloop.datasets.labelling import Agreement, PhaseRange
from twinloop.jobs.job import Job
from twinloop.jobs.queue import LogPart
from twinloop.monitoring.alerts import Alert
from twinloop.overview import Overview
from twinloop.planning.items import Item
from twinloop.planning.progress import ItemProgress
from twinloop.promotion.listing import RegistrySummary
from twinloop.selections import SelectionPart
from twinloop.studio.api.coverage import CoverageAnswer, CoverageLine, Outline, SelectedRegion
from twinloop.studio.api.data import DatasetLine, EpisodePage, Facets, SelectionAnswer, SqlAnswer, SqlTables
from twinloop.studio.api.episodes import EpisodeAnswer, Labelled, SignalsAnswer, TwinChoice
from twinloop.studio.api.gap import DiagnosisDetail, Evidence, GapDetail, GapResults
from twinloop.studio.api.gate import VerdictAnswer, VerdictLine
from twinloop.studio.api.identify import (
    IdentifyCheck,
    IdentifyResult,
    PosteriorSamples,
    RecordingLine,
    ReplayLines,
)
from twinloop.studio.api.jobs import JobCommands
from twinloop.studio.api.monitor import ReportAnswer, ReportLine
from twinloop.studio.api.operate import Operation
from twinloop.studio.api.overview import Studio
from twinloop.studio.api.people import PeopleAnswer, WithdrawalAnswer
from twinloop.studio.api.plan import PlanAnswer
from twinloop.studio.api.policies import ChangeAnswer, PolicyLine, VerifiedAnswer
from twinloop.studio.api.twins import ParameterDetail, TwinDetail, Twins, TwinScene
from twinloop.studio.context import Page
from twinloop.twin_versions import TwinRejection, TwinUse, TwinVersion
from twinloop.twins.compare import Difference


class Operations:
    """One method for each operation of the HTTP API; `StudioClient` sends them."""

    def _send(
        self, method: str, path: str, kind: Any, words: dict[str, Any] | None = None, body: Any = None
    ) -> Any:
        raise NotImplementedError

    def read_overview(self) -> Overview:
        """Where the workspace stands, as `twinloop status` says."""
        answer: Overview = self._send("GET", "/api/overview", Overview)
        return answer

    def read_studio(self) -> Studio:
        """What this studio is: version, workspace, and whether it may change anything."""
        answer: Studio = self._send("GET", "/api/overview/studio", Studio)
        return answer

    def list_datasets(self) -> list[DatasetLine]:
        """Every dataset of the workspace, with counts by source."""
        answer: list[DatasetLine] = self._send("GET", "/api/data/datasets", list[DatasetLine])
        return answer

    def read_dataset(self, dataset: str) -> DatasetLine:
        """One dataset, with counts by source."""
        answer: DatasetLine = self._send("GET", "/api/data/dataset", DatasetLine, {"dataset": dataset})
        return answer

    def list_facets(self, dataset: str) -> Facets:
        """What a list of episodes can be filtered by, with counts."""
        answer: Facets = self._send("GET", "/api/data/facets", Facets, {"dataset": dataset})
        return answer

    def list_episodes(
        self,
        dataset: str,
        source: str | None = None,
        outcome: Literal["success", "failure", "unlabelled"] | None = None,
        failure: str | None = None,
        quality: Literal["ok", "note", "warning", "blocking", "unchecked"] | None = None,
        site: str | None = None,
        operator: str | None = None,
        task: str | None = None,
        text: str | None = None,
        where: str | None = None,
        sort: str = "episode",
        descending: bool = False,
        offset: int = 0,
        limit: int = 100,
    ) -> EpisodePage:
        """The episodes of a dataset that have all these properties, as `twinloop data episodes` lists them."""
        answer: EpisodePage = self._send(
            "GET",
            "/api/data/episodes",
            EpisodePage,
            {
                "dataset": dataset,
                "source": source,
                "outcome": outcome,
                "failure": failure,
                "quality": quality,
                "site": site,
                "operator": operator,
                "task": task,
                "text": text,
                "where": where,
                "sort": sort,
                "descending": descending,
                "offset": offset,
                "limit": limit,
            },
        )
        return answer

    def query_data(self, sql: str, dataset: list[str], limit: int = 200) -> SqlAnswer:
        """One SELECT over datasets, as `twinloop data query` runs it: it reads only these and cannot write."""
        answer: SqlAnswer = self._send(
            "GET", "/api/data/query", SqlAnswer, {"sql": sql, "dataset": dataset, "limit": limit}
        )
        return answer

    def list_tables(self, dataset: str) -> SqlTables:
        """Tables and columns that a query over this dataset can name."""
        answer: SqlTables = self._send("GET", "/api/data/tables", SqlTables, {"dataset": dataset})
        return answer

    def list_selections(self) -> list[SelectionAnswer]:
        """Weighted selections saved in this workspace, and what each part names now."""
        answer: list[SelectionAnswer] = self._send("GET", "/api/data/selections", list[SelectionAnswer])
        return answer

    def save_selection(
        self, name: str, parts: list[SelectionPart], by: str, note: str = ""
    ) -> SelectionAnswer:
        """Save a selection, as `twinloop data selection save` does."""
        answer: SelectionAnswer = self._send(
            "POST",
            "/api/data/selections",
            SelectionAnswer,
            None,
            {"name": name, "parts": parts, "by": by, "note": note},
        )
        return answer

    def remove_selection(self, name: str) -> dict[str, str]:
        """Remove a selection; datasets drawn from it stay."""
        answer: dict[str, str] = self._send("DELETE", f"/api/data/selections/{_quoted(name)}", dict[str, str])
        return answer

    def read_episode(self, dataset: str, episode: int) -> EpisodeAnswer:
        """One episode: outcome, events, origin, labels, findings, and what can be plotted and shown."""
        answer: EpisodeAnswer = self._send(
            "GET", "/api/episode", EpisodeAnswer, {"dataset": dataset, "episode": episode}
        )
        return answer

    def read_signals(
        self,
        dataset: str,
        episode: int,
        signal: list[str],
        from_s: float = 0.0,
        to_s: float | None = None,
        points: int = 2000,
    ) -> SignalsAnswer:
        """Signals of an episode between two times, reduced to so many points; the extremes of every stretch are kept."""
        answer: SignalsAnswer = self._send(
            "GET",
            "/api/episode/signals",
            SignalsAnswer,
            {
                "dataset": dataset,
                "episode": episode,
                "signal": signal,
                "from_s": from_s,
                "to_s": to_s,
                "points": points,
            },
        )
        return answer

    def read_sheet(self, version: str, dataset: str, episode: int, camera: str, sheet: int = 0) -> bytes:
        """Frames of a camera as one JPEG, in lines from left to right; `cameras` of the episode says how many."""
        answer: bytes = self._send(
            "GET",
            f"/api/episode/sheet/{_quoted(version)}",
            bytes,
            {"dataset": dataset, "episode": episode, "camera": camera, "sheet": sheet},
        )
        return answer

    def read_frame(self, version: str, dataset: str, episode: int, camera: str, row: int = 0) -> bytes:
        """One frame of a camera in full as JPEG."""
        answer: bytes = self._send(
            "GET",
            f"/api/episode/frame/{_quoted(version)}",
            bytes,
            {"dataset": dataset, "episode": episode, "camera": camera, "row": row},
        )
        return answer

    def read_thumbnail(self, version: str, dataset: str, episode: int) -> bytes:
        """A small image of an episode: the middle frame of its first camera, or its motion as lines where it has none."""
        answer: bytes = self._send(
            "GET",
            f"/api/episode/thumbnail/{_quoted(version)}",
            bytes,
            {"dataset": dataset, "episode": episode},
        )
        return answer

    def list_episode_twins(self, dataset: str, episode: int) -> list[TwinChoice]:
        """Twins that an episode can be replayed in: the one that generated it, then those of the workspace, the current first."""
        answer: list[TwinChoice] = self._send(
            "GET", "/api/episode/twins", list[TwinChoice], {"dataset": dataset, "episode": episode}
        )
        return answer

    def read_episode_geometry(self, dataset: str, episode: int, twin: str = "own") -> dict[str, Any]:
        """What a viewer draws: the bodies, shapes and cameras of a twin, as it looks in this episode."""
        answer: dict[str, Any] = self._send(
            "GET",
            "/api/episode/geometry",
            dict[str, Any],
            {"dataset": dataset, "episode": episode, "twin": twin},
        )
        return answer

    def read_episode_motion(self, dataset: str, episode: int, twin: str = "own") -> dict[str, Any]:
        """The recorded motion and the twin's replay of the same commands, with the joints of both over time."""
        answer: dict[str, Any] = self._send(
            "GET",
            "/api/episode/motion",
            dict[str, Any],
            {"dataset": dataset, "episode": episode, "twin": twin},
        )
        return answer

    def label_episodes(
        self,
        dataset: str,
        episodes: list[int],
        by: str,
        outcome: Literal["success", "failure", "unknown"] | None = None,
        failure: str | None = None,
        phases: list[PhaseRange] | None = None,
        keep: tuple[float, float] | Literal["all"] | None = None,
    ) -> Labelled:
        """Label episodes, as `twinloop data label` does; earlier labels, with author and time, are kept."""
        answer: Labelled = self._send(
            "POST",
            "/api/episode/labels",
            Labelled,
            None,
            {
                "dataset": dataset,
                "episodes": episodes,
                "by": by,
                "outcome": outcome,
                "failure": failure,
                "phases": phases,
                "keep": keep,
            },
        )
        return answer

    def compare_raters(self, dataset: str) -> Agreement:
        """How the raters of a dataset agree, and about which episodes they do not."""
        answer: Agreement = self._send("GET", "/api/episode/agreement", Agreement, {"dataset": dataset})
        return answer

    def twins(self) -> Twins:
        """Every twin of the workspace, as `twinloop twin versions` lists them."""
        answer: Twins = self._send("GET", "/api/twins", Twins)
        return answer

    def twin(self, twin: str | None = None) -> TwinDetail:
        """One twin with its parameters, as `twinloop twin show` shows them."""
        answer: TwinDetail = self._send("GET", "/api/twins/detail", TwinDetail, {"twin": twin})
        return answer

    def twin_scene(
        self,
        twin: str | None = None,
        source: str = "nominal",
        number: int = 0,
        seed: int = 0,
        changes: str = "",
    ) -> TwinScene:
        """A twin as a sample, a draw or values of one's own make it look."""
        answer: TwinScene = self._send(
            "GET",
            "/api/twins/scene",
            TwinScene,
            {"twin": twin, "source": source, "number": number, "seed": seed, "changes": changes},
        )
        return answer

    def twin_parameter(
        self, name: str, twin: str | None = None, sources: list[str] | None = None
    ) -> ParameterDetail:
        """How the values of one parameter are spread in a posterior and in randomizations."""
        answer: ParameterDetail = self._send(
            "GET", "/api/twins/parameter", ParameterDetail, {"name": name, "twin": twin, "sources": sources}
        )
        return answer

    def compare_twins(self, first: str, second: str) -> list[Difference]:
        """Parameters whose nominal values differ between two twins, as `twinloop twin compare` lists them."""
        answer: list[Difference] = self._send(
            "GET", "/api/twins/compare", list[Difference], {"first": first, "second": second}
        )
        return answer

    def roll_back_twin(self, by: str, reason: str) -> TwinUse:
        """Make the previous twin current again, as `twinloop twin rollback` does."""
        answer: TwinUse = self._send(
            "POST", "/api/twins/rollback", TwinUse, None, {"by": by, "reason": reason}
        )
        return answer

    def accept_twin(self, twin: str, by: str, reason: str, override: bool = False) -> TwinUse:
        """Make a candidate the current twin, as `twinloop twin accept` does."""
        answer: TwinUse = self._send(
            "POST",
            "/api/twins/accept",
            TwinUse,
            None,
            {"twin": twin, "by": by, "reason": reason, "override": override},
        )
        return answer

    def reject_twin(self, twin: str, by: str, reason: str, override: bool = False) -> TwinRejection:
        """Decide against a candidate, as `twinloop twin reject` does."""
        answer: TwinRejection = self._send(
            "POST",
            "/api/twins/reject",
            TwinRejection,
            None,
            {"twin": twin, "by": by, "reason": reason, "override": override},
        )
        return answer

    def identify_datasets(self) -> list[RecordingLine]:
        """Datasets that were recorded on a robot, in `data/` and in a loop's stages."""
        answer: list[RecordingLine] = self._send("GET", "/api/identify/datasets", list[RecordingLine])
        return answer

    def check_identify(
        self, dataset: str, twin: str | None = None, parameters: list[str] | None = None
    ) -> IdentifyCheck:
        """Whether `twinloop identify` can start, as `twinloop identify --check` says."""
        answer: IdentifyCheck = self._send(
            "GET",
            "/api/identify/check",
            IdentifyCheck,
            {"dataset": dataset, "twin": twin, "parameters": parameters},
        )
        return answer

    def identifications(self) -> list[TwinVersion]:
        """Identified twins, with what was decided about each."""
        answer: list[TwinVersion] = self._send("GET", "/api/identify/results", list[TwinVersion])
        return answer

    def identification(self, twin: str) -> IdentifyResult:
        """One identification, in numbers and in words."""
        answer: IdentifyResult = self._send("GET", "/api/identify/result", IdentifyResult, {"twin": twin})
        return answer

    def identification_replays(self, twin: str) -> list[ReplayLines]:
        """Held-out episodes, recorded and replayed by the twin before and after, with the band of the one after."""
        answer: list[ReplayLines] = self._send(
            "GET", "/api/identify/replays", list[ReplayLines], {"twin": twin}
        )
        return answer

    def identification_posterior(self, twin: str, x: str, y: str) -> PosteriorSamples:
        """Samples of two parameters, which show what they trade against each other."""
        answer: PosteriorSamples = self._send(
            "GET", "/api/identify/posterior", PosteriorSamples, {"twin": twin, "x": x, "y": y}
        )
        return answer

    def gap_results(self) -> GapResults:
        """Diagnoses and gaps, wherever a loop or a command wrote them."""
        answer: GapResults = self._send("GET", "/api/gap/results", GapResults)
        return answer

    def diagnosis(self, path: str) -> DiagnosisDetail:
        """One diagnosis: a bar for each dimension, the unknown part, and the runs it was made from."""
        answer: DiagnosisDetail = self._send("GET", "/api/gap/diagnosis", DiagnosisDetail, {"path": path})
        return answer

    def evidence(self, path: str, dimension: str, dataset: str, episode: int) -> Evidence:
        """A run in the twin as it is, and with what was measured of one dimension, which should bring the replay closer."""
        answer: Evidence = self._send(
            "GET",
            "/api/gap/evidence",
            Evidence,
            {"path": path, "dimension": dimension, "dataset": dataset, "episode": episode},
        )
        return answer

    def gap(self, path: str) -> GapDetail:
        """One measured gap: differences by dimension, success, and the episodes that were looked at."""
        answer: GapDetail = self._send("GET", "/api/gap/gap", GapDetail, {"path": path})
        return answer

    def list_coverages(self) -> list[CoverageLine]:
        """Every coverage of the workspace, the newest first."""
        answer: list[CoverageLine] = self._send("GET", "/api/coverage", list[CoverageLine])
        return answer

    def read_coverage(self, coverage: str) -> CoverageAnswer:
        """One coverage: regions, and the axes of its map."""
        answer: CoverageAnswer = self._send(
            "GET", "/api/coverage/coverage", CoverageAnswer, {"coverage": coverage}
        )
        return answer

    def read_point_owners(self, coverage: str, level: Literal["situation", "moment"] = "moment") -> bytes:
        """Whose point each is: four arrays of 32-bit integers, each as long as there are points."""
        answer: bytes = self._send(
            "GET", "/api/coverage/owners", bytes, {"coverage": coverage, "level": level}
        )
        return answer

    def read_point_column(
        self, coverage: str, axis: str, level: Literal["situation", "moment"] = "moment"
    ) -> bytes:
        """Where points lie on one axis: 32-bit floats, real points first."""
        answer: bytes = self._send(
            "GET", "/api/coverage/column", bytes, {"coverage": coverage, "axis": axis, "level": level}
        )
        return answer

    def select_points(self, outline: Outline) -> SelectedRegion:
        """What an outline selects, as `twinloop plan select` says; nothing is written."""
        answer: SelectedRegion = self._send(
            "GET", "/api/coverage/select", SelectedRegion, {"outline": outline}
        )
        return answer

    def read_plan(self) -> PlanAnswer:
        """The plan of the workspace: every item with its state and who put it there; `progress` counts recordings."""
        answer: PlanAnswer = self._send("GET", "/api/plan", PlanAnswer)
        return answer

    def read_plan_progress(self) -> list[ItemProgress]:
        """How much of each item has been recorded since it is in the plan, in whichever dataset of the workspace."""
        answer: list[ItemProgress] = self._send("GET", "/api/plan/progress", list[ItemProgress])
        return answer

    def add_plan_item(
        self,
        coverage: str,
        polygon: str,
        by: str,
        across: str = "map 1",
        up: str = "map 2",
        level: Literal["situation", "moment"] = "moment",
        name: str | None = None,
    ) -> Item:
        """Add an item that asks for demonstrations in an outlined region, as `twinloop plan add` does."""
        answer: Item = self._send(
            "POST",
            "/api/plan/items",
            Item,
            None,
            {
                "coverage": coverage,
                "polygon": polygon,
                "across": across,
                "up": up,
                "level": level,
                "name": name,
                "by": by,
            },
        )
        return answer

    def move_plan_item(
        self, item: str, state: Literal["planned", "recording", "done"], by: str, note: str = ""
    ) -> PlanAnswer:
        """Put an item into a state, as `twinloop plan move` does."""
        answer: PlanAnswer = self._send(
            "POST",
            f"/api/plan/items/{_quoted(item)}/move",
            PlanAnswer,
            None,
            {"state": state, "by": by, "note": note},
        )
        return answer

    def read_plan_sheet(self, item: list[str] | None = None) -> bytes:
        """The operator's sheet, to print: one box to tick for every episode."""
        answer: bytes = self._send("GET", "/api/plan/sheet", bytes, {"item": item})
        return answer

    def list_policies(self) -> list[PolicyLine]:
        """Every policy of the workspace with its learning curve, oldest first."""
        answer: list[PolicyLine] = self._send("GET", "/api/policies", list[PolicyLine])
        return answer

    def read_registry(self) -> RegistrySummary:
        """Versions, who holds which alias, and every action with name and reason."""
        answer: RegistrySummary = self._send("GET", "/api/policies/registry", RegistrySummary)
        return answer

    def verify_registry(self) -> VerifiedAnswer:
        """Verify that record, policies, verdicts and evidence are as they were recorded, as `twinloop registry verify` does."""
        answer: VerifiedAnswer = self._send("POST", "/api/policies/registry/verify", VerifiedAnswer)
        return answer

    def promote_policy(
        self,
        policy: str,
        by: str,
        verdict: str | None = None,
        stage: Literal["shadow", "canary", "full"] = "full",
        fraction: float = 0.1,
        override: str | None = None,
    ) -> ChangeAnswer:
        """Promote a policy to a stage, as `twinloop promote` does; refused without a verdict that promotes it, or an override."""
        answer: ChangeAnswer = self._send(
            "POST",
            "/api/policies/promote",
            ChangeAnswer,
            None,
            {
                "policy": policy,
                "verdict": verdict,
                "stage": stage,
                "fraction": fraction,
                "by": by,
                "override": override,
            },
        )
        return answer

    def roll_back_policy(self, by: str, reason: str, champion: str | None = None) -> ChangeAnswer:
        """Make the previous champion the champion again, as `twinloop rollback` does."""
        answer: ChangeAnswer = self._send(
            "POST",
            "/api/policies/rollback",
            ChangeAnswer,
            None,
            {"by": by, "reason": reason, "champion": champion},
        )
        return answer

    def withdraw_policy(
        self, stage: Literal["shadow", "canary", "full"], by: str, reason: str, version: str | None = None
    ) -> ChangeAnswer:
        """Take the policy from the shadow or canary stage; at stage full, roll back."""
        answer: ChangeAnswer = self._send(
            "POST",
            "/api/policies/withdraw",
            ChangeAnswer,
            None,
            {"stage": stage, "by": by, "reason": reason, "version": version},
        )
        return answer

    def list_verdicts(self) -> list[VerdictLine]:
        """Every verdict of the workspace, the newest first."""
        answer: list[VerdictLine] = self._send("GET", "/api/gate", list[VerdictLine])
        return answer

    def read_verdict(self, folder: str) -> VerdictAnswer:
        """One verdict, the trials it rests on, and whether deciding again gives the same."""
        answer: VerdictAnswer = self._send("GET", "/api/gate/verdict", VerdictAnswer, {"folder": folder})
        return answer

    def list_reports(self) -> list[ReportLine]:
        """The last report about each monitored dataset, the newest first."""
        answer: list[ReportLine] = self._send("GET", "/api/monitor", list[ReportLine])
        return answer

    def read_report(self, report: str) -> ReportAnswer:
        """One report: success over time, drift by kind, alerts."""
        answer: ReportAnswer = self._send("GET", "/api/monitor/report", ReportAnswer, {"report": report})
        return answer

    def list_alerts(self) -> list[Alert]:
        """Every alert that was raised in the workspace, the newest first."""
        answer: list[Alert] = self._send("GET", "/api/monitor/alerts", list[Alert])
        return answer

    def list_people(self) -> PeopleAnswer:
        """Every consent with the episodes under it, operators without one, and past withdrawals."""
        answer: PeopleAnswer = self._send("GET", "/api/people", PeopleAnswer)
        return answer

    def add_consent(
        self,
        pseudonym: str,
        scope: list[str],
        document: str,
        given: date | None = None,
        expires: date | None = None,
    ) -> Consent:
        """Record a consent, as `twinloop data consent add` does."""
        answer: Consent = self._send(
            "POST",
            "/api/people",
            Consent,
            None,
            {
                "pseudonym": pseudonym,
                "scope": scope,
                "document": document,
                "given": given,
                "expires": expires,
            },
        )
        return answer

    def plan_withdrawal(self, consent: str) -> WithdrawalAnswer:
        """What a withdrawal would remove; nothing is changed."""
        answer: WithdrawalAnswer = self._send(
            "GET", f"/api/people/{_quoted(consent)}/withdrawal", WithdrawalAnswer
        )
        return answer

    def withdraw_consent(self, consent: str, by: str, reason: str) -> WithdrawalAnswer:
        """Remove a person's episodes and what shows them, as `twinloop data consent withdraw` does; cannot be undone."""
        answer: WithdrawalAnswer = self._send(
            "POST",
            f"/api/people/{_quoted(consent)}/withdraw",
            WithdrawalAnswer,
            None,
            {"by": by, "reason": reason},
        )
        return answer

    def list_jobs(self, offset: int = 0, limit: int = 50) -> Page[Job]:
        """Every job, newest first. A queue whose runner was killed goes on."""
        answer: Page[Job] = self._send("GET", "/api/jobs", Page[Job], {"offset": offset, "limit": limit})
        return answer

    def list_job_commands(self) -> JobCommands:
        """Commands that can be jobs; the others act at once, or are for a terminal."""
        answer: JobCommands = self._send("GET", "/api/jobs/commands", JobCommands)
        return answer

    def read_job(self, job: str) -> Job:
        """One job as it is now."""
        answer: Job = self._send("GET", f"/api/jobs/{_quoted(job)}", Job)
        return answer

    def read_job_log(self, job: str, offset: int = 0) -> LogPart:
        """A part of what a job printed, from `offset` (in bytes) on; ask again from `next_offset`."""
        answer: LogPart = self._send("GET", f"/api/jobs/{_quoted(job)}/log", LogPart, {"offset": offset})
        return answer

    def start_job(self, command: list[str], by: str = "") -> Job:
        """Put a command into the queue."""
        answer: Job = self._send("POST", "/api/jobs", Job, None, {"command": command, "by": by})
        return answer

    def cancel_job(self, job: str, by: str = "") -> Job:
        """Take a job out of the queue, or interrupt it as Ctrl-C would; asked for again, end it at once."""
        answer: Job = self._send("POST", f"/api/jobs/{_quoted(job)}/cancel", Job, None, {"by": by})
        return answer

    def resume_job(self, job: str) -> Job:
        """Put a job that failed, was cancelled or was killed into the queue again."""
        answer: Job = self._send("POST", f"/api/jobs/{_quoted(job)}/resume", Job)
        return answer

    def read_operation(self) -> Operation:
        """What the page shows now."""
        answer: Operation = self._send("GET", "/api/operate", Operation)
        return answer

    def operation_events(self) -> bytes:
        """The same whenever it changes, and twice a second."""
        answer: bytes = self._send("GET", "/api/operate/events", bytes)
        return answer

    def press(
        self,
        kind: Literal[
            "start", "success", "failure", "redo", "skip", "pause", "resume", "stop", "reset", "note", "leave"
        ],
        failure: str | None = None,
        phase: str | None = None,
        severity: str | None = None,
        note: str | None = None,
    ) -> Operation:
        """A button or key of the person; a stop holds the robot before this answers."""
        answer: Operation = self._send(
            "POST",
            "/api/operate/press",
            Operation,
            None,
            {"kind": kind, "failure": failure, "phase": phase, "severity": severity, "note": note},
        )
        return answer

    def drive(self, motion: list[float], closed: bool = False) -> bytes:
        """The keys that drive the robot; to be repeated at least three times a second."""
        answer: bytes = self._send(
            "POST", "/api/operate/drive", bytes, None, {"motion": motion, "closed": closed}
        )
        return answer

    def read_camera(self, camera: str) -> bytes:
        """The live image of a camera, JPEG."""
        answer: bytes = self._send("GET", f"/api/operate/camera/{_quoted(camera)}", bytes)
        return answer

    def read_ghost(self, camera: str) -> bytes:
        """What the twin's camera sees of the wanted scene, PNG."""
        answer: bytes = self._send("GET", f"/api/operate/ghost/{_quoted(camera)}", bytes)
        return answer
