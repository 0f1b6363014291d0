"""Arms: the same traces judged by several rubrics or settings, each in a run of its own."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from annotator.base.errors import AnnotatorError, BudgetReached, FailsAlways, Interrupted, Pending
from annotator.base.files import write_file
from annotator.base.text import format_count
from annotator.judges.build import ModelSettings
from annotator.rubrics import Rubric
from annotator.runs.execute import Callbacks, Only, Plan, ignore, make_plan, run_plan
from annotator.runs.forecast import Forecast, forecast
from annotator.runs.manifest import DEFAULT_CRITERIA, Criteria
from annotator.runs.run import Run, open_run
from annotator.runs.store import list_judged
from annotator.traces import Ignored, Trace, TraceOrProblem, Traces, Unreadable


@dataclass(frozen=True)
class Arm:
    """A rubric and a judge. ``name``: its directory; ``judge``: settings of models, or a source
    that :func:`annotator.judges.build.build_judge` takes. ``values``: of the settings that the arms
    differ in. ``trace_ids``: those that it judges; None: all. ``criteria``: when a verdict counts.
    """

    name: str
    rubric: Rubric
    judge: Any
    values: Mapping[str, str] = field(default_factory=dict)
    trace_ids: Collection[str] | None = None
    criteria: Criteria = DEFAULT_CRITERIA


@dataclass(frozen=True)
class Trial:
    """Arms, and the traces that each of them judges.

    Attributes:
        folder: each arm is a run in a directory of its own there.
        max_cost: in dollars, for all arms together; None: no limit.
        batch_file: only write the requests of all arms there, as batch JSONL.
        batch_results: only read the answers, from the results of such files.
        population: the traces that these were drawn from at random; 0: they were chosen.
    """

    traces: "SelectedTraces"
    folder: Path
    arms: Sequence[Arm] = ()
    only: Only = "all"
    concurrency: int = 8
    max_cost: float | None = None
    batch_file: Path | None = None
    batch_results: tuple[Path, ...] = ()
    population: int = 0

    def locate(self, arm: Arm) -> Path:
        """Return the run directory of an arm."""
        return self.folder / arm.name

    def subtract(self, spent: float | None) -> float | None:
        """Return the dollars that are left; None: no limit."""
        return None if self.max_cost is None else max(self.max_cost - (spent or 0.0), 0.0)

    def limit(self, settings: ModelSettings, name: str, spent: float | None) -> ModelSettings:
        """Return the settings for requests in the directory ``name``: with the dollars that are
        left, and with files in the place of calls if the trial has them.
        """
        files = self.batch_file or self.batch_results
        return replace(
            settings,
            max_cost=self.subtract(spent),
            batch_file=locate_requests(self.folder / name) if files else None,
            batch_results=self.batch_results,
        )

    def plan(self, arm: Arm, spent: float = 0.0, *, offline: bool = False) -> Plan:
        """Return the plan of an arm; ``spent``: the dollars that the other arms have cost.

        Raises:
            AnnotatorError: a setting is wrong, or there is no key.
        """
        judge = arm.judge
        if isinstance(judge, ModelSettings) and not offline:
            judge = self.limit(judge, arm.name, spent)
        options: Any = {"only": self.only, "concurrency": self.concurrency, "offline": offline}
        plan = make_plan(self.traces, arm.rubric, judge, criteria=arm.criteria, **options)
        trace_ids = self.traces.trace_ids if arm.trace_ids is None else arm.trace_ids
        return replace(plan, sampled=frozenset(trace_ids), population=self.population)

    def gather_requests(self, names: Iterable[str] | None = None) -> str:
        """Put the requests in some directories, by default those of the arms, into one file; return
        how many there are, and where.
        """
        file = self.batch_file or locate_requests(self.folder)
        folders = [self.folder / name for name in names or (arm.name for arm in self.arms)]
        paths = [path for path in map(locate_requests, folders) if path.exists()]
        data = b"".join(path.read_bytes() for path in paths)
        lines = [*dict.fromkeys(data.splitlines(keepends=True))]  # arms may ask the same
        write_file(file, b"".join(lines), private=True)
        return f"{format_count(len(lines), 'request')} in {file}"


class SelectedTraces(Traces):
    """Some traces of others, which are read once and kept in memory: each arm reads them all.

    Raises:
        AnnotatorError: no trace can be read at all.
    """

    def __init__(self, traces: Traces, trace_ids: Collection[str]) -> None:
        super().__init__(traces.sources, traces.format, redacted=traces.redacted)
        self.trace_ids = trace_ids
        self.items: list[Trace | Unreadable] = []
        count, reasons = 0, list[str]()
        for item in traces.find():
            if isinstance(item, Trace):
                count += 1
            else:
                reasons.append(item.reason)
            if not isinstance(item, Ignored) and item.id in trace_ids:
                self.items.append(item)
        if not count:
            where = ", ".join(traces.places) or "what was given"
            raise AnnotatorError(": ".join([f"no trace can be read in {where}", *reasons[:1]]))

    def find(self) -> Iterator[TraceOrProblem]:
        """Yield the traces."""
        return iter(self.items)


def forecast_arms(trial: Trial) -> Forecast:
    """Return the expected usage of all arms together, without calls; what their runs have judged is
    left out, and a request that several arms share counts once.

    Raises:
        AnnotatorError: as :func:`judge_arms`.
    """
    total, shared = Forecast(), set[str]()
    for arm in trial.arms:
        plan = trial.plan(arm, offline=True)
        plan.built.preview(shared)
        try:
            folder = trial.locate(arm)
            judged = list_judged(folder) if (folder / "run.json").exists() else ()
            total += forecast(plan, judged)
        finally:
            plan.built.end(ignore)
    return total


def run_trial(
    trial: Trial, on_notice: Callable[[str], None], command: str, *, resume: bool
) -> list[Run]:
    """Return the runs of all arms; raises as :func:`judge_arms`, and

    Raises:
        Interrupted: Ctrl-C.
        Pending: the requests are in a file, and wait for answers.
    """
    try:
        runs = asyncio.run(judge_arms(trial, Callbacks(notice=on_notice), command, resume=resume))
    except KeyboardInterrupt:
        raise Interrupted("what was judged is kept") from None
    if any(run.manifest.status == "waiting" for run in runs):
        raise Pending(trial.gather_requests())
    return runs


async def judge_arms(
    trial: Trial, callbacks: Callbacks, command: str, *, resume: bool = False
) -> list[Run]:
    """Judge the traces in every arm, one arm after the other, and return the runs.

    With ``resume``, runs that are there go on; without it, there must be none. A run that waits for
    answers in files has the status ``waiting``.

    Raises:
        BudgetReached: the next call may bring all arms above ``max_cost``.
        AnnotatorError: a run is there, or was judged with other settings; or as
            :func:`annotator.runs.execute.run_plan`. What was judged is kept.
    """
    runs: list[Run] = []
    costs: dict[str, float] = {}  # of the arms that are there, in dollars
    for arm in trial.arms:
        trial.plan(arm)  # a wrong setting of the last arm is found before the first one is asked
        folder = trial.locate(arm)
        if not (folder / "run.json").exists():
            continue
        if not resume:
            raise AnnotatorError(
                f"{folder}: a run is there; go on with --resume, or delete it to begin anew"
            )
        costs[arm.name] = read_run_cost(open_run(folder))
    for n, arm in enumerate(trial.arms, 1):
        is_there = arm.name in costs
        others = sum(cost for name, cost in costs.items() if name != arm.name)
        plan = trial.plan(arm, others)
        manifest = plan.make_manifest(command)
        callbacks.notice(f"arm {n} of {len(trial.arms)}: {arm.name}")
        try:
            run = await run_plan(
                plan, manifest, trial.locate(arm), callbacks, open_run, [], resume=is_there
            )
        except BudgetReached as error:
            before = f", and {others:.4f} for the other arms" if others else ""
            raise BudgetReached(f"{arm.name}: {error}{before}") from error
        except FailsAlways as error:
            raise FailsAlways(f"{arm.name}: {error}") from error
        costs[arm.name] = read_run_cost(run)
        runs.append(run)
    return runs


def read_run_cost(run: Run) -> float:
    """Return the dollars that a run has cost; 0 if the price is unknown."""
    return float(run.manifest.totals.get("cost_usd") or 0.0)


def locate_requests(folder: Path) -> Path:
    """Return the file with the requests of an arm, where a user sends them."""
    return folder / "requests.jsonl"


LIMITS = ("concurrency", "max_cost", "batch_file", "batch_results")
"""The fields of a trial that are limits of its calls."""


def extract_limits(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the limits of a trial from options, and return them."""
    return {name: options.pop(name) for name in LIMITS if name in options}
