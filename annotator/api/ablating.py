"""Trying rubrics, models and settings on labelled traces, and choosing one of them."""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from annotator.api.calibrating import make_request
from annotator.base.errors import Pending, SettingsError
from annotator.base.files import write_file
from annotator.base.text import dump_json, find_repeated, format_count, suggest
from annotator.judges.build import ModelSettings, dump_settings, parse_settings, read_settings
from annotator.rubrics import Rubric, load_rubric
from annotator.rubrics.changes import dump_rubric, strip_examples
from annotator.runs.arms import (
    Arm,
    SelectedTraces,
    Trial,
    forecast_arms,
    gather_requests,
    judge_arms,
)
from annotator.runs.execute import Callbacks, ignore, refuse_running_loop
from annotator.runs.forecast import Forecast
from annotator.runs.restore import open_traces, restore_rubric, restore_settings
from annotator.traces import Traces

if TYPE_CHECKING:  # statistics are slow to import
    from annotator.calibration.ablation import Ablation, Cost
    from annotator.calibration.model import Request
    from annotator.labels import Label

Vary = Mapping[str, Sequence[str]]
"""The values of each setting, as they are written on the command line."""
JudgeMaker = Callable[[Mapping[str, Any]], ModelSettings]
"""Returns the judge with some settings changed, by the names of a judge file."""

_OF_RUBRIC = ("rubric", "examples")  # the keys that are not about the judge
_SWITCH = {"on": True, "off": False}


@dataclass(frozen=True)
class AblationPlan:
    """Arms to be judged and measured.

    Attributes:
        varied: the settings that the arms differ in, with each arm's values.
        derived: the numbers of the arms whose rubric is in no file.
    """

    trial: Trial
    varied: tuple[Mapping[str, str], ...]
    derived: frozenset[int]
    labels: "Mapping[str, Label]"
    request: "Request"

    def forecast(self) -> Forecast:
        """Return the expected usage of all arms, without calls; raises as :func:`ablate`."""
        return forecast_arms(self.trial)

    def run(
        self,
        on_notice: Callable[[str], None] = ignore,
        command: str = "annotator.ablate(...)",
        *,
        resume: bool = False,
    ) -> "Ablation":
        """Judge the labelled traces in every arm, and compare the arms; raises as
        :func:`ablate`.
        """
        from annotator.calibration.ablation import JudgedArm, measure_arms
        from annotator.calibration.ledger import note_looks

        callbacks = Callbacks(notice=on_notice)
        runs = asyncio.run(judge_arms(self.trial, callbacks, command, resume=resume))
        if any(run.manifest.status == "waiting" for run in runs):
            file = self.trial.batch_file or self.trial.folder / "requests.jsonl"
            number = gather_requests(self.trial.folder, [arm.name for arm in self.trial.arms], file)
            raise Pending(f"{format_count(number, 'request')} of all arms in {file}")
        arms = [
            JudgedArm(arm.name, varied, run, self._expect_cost(arm))
            for arm, varied, run in zip(self.trial.arms, self.varied, runs, strict=True)
        ]
        result = measure_arms(arms, self.labels, self.request)
        note_looks(runs, result.rubric, self.labels, result.split, self.request, on_notice)
        self._write(result)
        return result

    def _expect_cost(self, arm: Arm) -> "Cost":
        """Return the expected cost of a trace if no answer is known."""
        from annotator.calibration.ablation import make_cost

        judge = arm.judge
        if isinstance(judge, ModelSettings):
            judge = replace(judge, cached=False)
        nowhere = self.trial.folder / "none"  # of its own run nothing is left to judge
        trial = replace(self.trial, arms=[replace(arm, judge=judge)], folder=nowhere)
        expected = forecast_arms(trial)
        return make_cost(expected.usage.high, max(1, expected.judged))

    def _write(self, result: "Ablation") -> None:
        """Write the result, and the winner's judge file and rubric."""
        folder = self.trial.folder
        write_file(folder / "ablation.json", dump_json(asdict(result), 1) + "\n")
        if result.winner is None:
            return
        arm = self.trial.arms[result.winner]
        if isinstance(arm.judge, ModelSettings):
            write_file(folder / "judge.yaml", dump_settings(arm.judge))
        if result.winner in self.derived:
            write_file(folder / "rubric.yaml", dump_rubric(arm.rubric))


def ablate(
    traces: str | Path | Traces | Sequence[str | Path],
    labels: str | Path | Sequence[str | Path],
    vary: Vary,
    *,
    rubric: str | Rubric | None = None,
    judge: str | Path | Mapping[str, Any] | None = None,
    out: str | Path,
    resume: bool = False,
    max_cost: float | None = None,
    concurrency: int = 8,
    on_notice: Callable[[str], None] = ignore,
    **options: Any,
) -> "Ablation":
    """Judge labelled traces with several rubrics, models or settings, and choose one.

    Only traces with labels of the development split are judged; without a split, all labelled
    ones. Writes the result, and the winner's judge file, into ``out``.

    Args:
        traces: their sources, or one run directory, whose rubric and judge are then the defaults.
        labels: people's labels.
        vary: the values of each setting, such as ``{"model": ["gpt-5", "gpt-5-mini"]}``: ``rubric``
            (names or files), ``examples`` (``on``, ``off``: the rubric's examples and near misses),
            ``judge`` (``llm``, ``rules``) and every name of a judge file. The arms are all
            combinations; the first one is the base.
        rubric: the rubric of the arms that vary none.
        judge: a model's name, a judge file, or its settings.
        out: the directory of the arms and of the result.
        resume: go on with the arms in ``out``.
        max_cost: in dollars, for all arms together.
        concurrency: the most calls in flight.
        on_notice: called with messages for the user.
        options: ``annotators``, ``cluster``, ``design``, ``ledger``, ``confidence`` and ``seed`` of
            :class:`annotator.calibration.model.Request`.

    Raises:
        BudgetReached: the next call may bring all arms above ``max_cost``.
        AnnotatorError: a setting, the labels or the traces cannot be used; what was judged is kept.
    """
    refuse_running_loop("call annotator.ablate in a thread of its own")
    source = judge if isinstance(judge, Mapping) or judge is None else str(judge)
    if source is None and "model" in vary:
        source = {}
    plan = plan_ablation(
        *(traces, labels, vary),
        rubric=rubric,
        make_judge=None if source is None else make_settings(source),
        out=Path(out),
        max_cost=max_cost,
        concurrency=concurrency,
        **options,
    )
    return plan.run(on_notice, resume=resume)


def make_settings(judge: str | Mapping[str, Any]) -> JudgeMaker:
    """Return a function that makes a judge from a model's name, a judge file or settings."""
    if isinstance(judge, Mapping):
        return lambda varied: parse_settings(judge, over=varied)
    if judge.endswith((".yaml", ".yml")):
        return lambda varied: read_settings(Path(judge), over=varied)
    return lambda varied: parse_settings({"model": judge}, over=varied)


def plan_ablation(
    traces: str | Path | Traces | Sequence[str | Path],
    labels: str | Path | Sequence[str | Path],
    vary: Vary,
    *,
    rubric: str | Rubric | None,
    make_judge: JudgeMaker | None,
    out: Path,
    max_cost: float | None = None,
    concurrency: int = 8,
    batch_file: Path | None = None,
    batch_results: tuple[Path, ...] = (),
    **options: Any,
) -> AblationPlan:
    """Return the arms and the labelled traces; arguments and errors as :func:`ablate`.

    ``make_judge`` None: the judge of the run, or for traces the rules judge.
    """
    from annotator.calibration.ablation import read_dev_labels

    traces, run = open_traces(traces)
    if run and make_judge is None:
        recorded = restore_settings(run)
        make_judge = None if recorded == "rules" else make_settings(recorded)
    if isinstance(rubric, Rubric):
        base = rubric
    elif run:
        base = restore_rubric(run, rubric)
    elif rubric or "rubric" in vary:
        base = load_rubric(rubric or vary["rubric"][0])
    else:
        raise SettingsError("--rubric is missing: name one, or several with --vary rubric=A,B")
    check_vary(vary)
    request = make_request(labels, rubrics=(base.id,), **options)
    selected = read_dev_labels(base.scheme(), request, run, traces.places)
    arms: list[Arm] = []
    varied: list[Mapping[str, str]] = []
    derived: set[int] = set()
    for values in _list_combinations(vary):
        arm_rubric, is_derived = _make_rubric(values, base)
        _check_codes(arm_rubric, base)
        settings: Any = "rules"
        if make_judge and values.get("judge") != "rules":
            settings = make_judge(_read_settings(values))
        if is_derived:
            derived.add(len(arms))
        arms.append(Arm(_name_arm(values), arm_rubric, settings))
        varied.append(values)
    for name in find_repeated(arm.name for arm in arms):
        raise SettingsError(f"--vary: two arms would be called {name!r}")
    trial = Trial(
        SelectedTraces(traces, selected.keys()),
        selected.keys(),
        arms,
        out,
        only="rubric",
        concurrency=concurrency,
        max_cost=max_cost,
        batch_file=batch_file,
        batch_results=batch_results,
    )
    return AblationPlan(trial, tuple(varied), frozenset(derived), selected, request)


def check_vary(vary: Vary) -> None:
    """Raise :class:`SettingsError` unless each key is a setting, with values that differ."""
    from annotator.judges.llm.settings import SETTING_NAMES

    names = [*_OF_RUBRIC, "judge", *SETTING_NAMES]
    if not vary:
        raise SettingsError("--vary is missing: name a setting and its values, model=A,B say")
    for key, values in vary.items():
        if key not in names:
            raise SettingsError(
                f"--vary {key}: no setting of that name{suggest(key, names)}; there are rubric,"
                " examples, judge, and the names of a judge file"
            )
        if not values or len({*values}) < len(values) or "" in values:
            raise SettingsError(f"--vary {key}: expected values that differ, separated by commas")
    for key, allowed in (("judge", ("llm", "rules")), ("examples", tuple(_SWITCH))):
        for value in vary.get(key, ()):
            if value not in allowed:
                raise SettingsError(
                    f"--vary {key}: expected {' or '.join(allowed)}, found {value!r}"
                )


def _list_combinations(vary: Vary) -> Iterator[dict[str, str]]:
    """Yield the settings of each arm. The rules judge has none of a model's: it is one arm."""
    seen = []
    for values in product(*vary.values()):
        arm = dict(zip(vary, values, strict=True))
        if arm.get("judge") == "rules":
            arm = {key: value for key, value in arm.items() if key in (*_OF_RUBRIC, "judge")}
        if arm not in seen:
            seen.append(arm)
            yield arm


def _make_rubric(values: Mapping[str, str], base: Rubric) -> tuple[Rubric, bool]:
    """Return the rubric of an arm, and whether it is derived."""
    rubric = load_rubric(values["rubric"]) if "rubric" in values else base
    if values.get("examples") == "off":
        return strip_examples(rubric), True
    return rubric, False


def _check_codes(rubric: Rubric, base: Rubric) -> None:
    """Raise :class:`SettingsError` unless labels by one rubric are labels by the other."""
    codes = [{code.id for code in each.codes} for each in (rubric, base)]
    if rubric.id != base.id or codes[0] != codes[1]:
        raise SettingsError(
            f"--vary rubric: {rubric.id} has other codes than {base.id}, or another id: people's"
            " labels by one are not labels by the other"
        )


def _read_settings(values: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a model among those of an arm, as values."""
    settings: dict[str, Any] = {}
    for key, text in values.items():
        if key in (*_OF_RUBRIC, "judge"):
            continue
        if key == "model":
            settings["models"] = (text,)
            continue
        try:
            settings[key] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise SettingsError(f"--vary {key}={text}: not a value of YAML") from error
    return settings


def _name_arm(values: Mapping[str, str]) -> str:
    """Return the name of an arm's directory."""
    text = ",".join(
        f"{key}={Path(value).stem if key == 'rubric' else value}" for key, value in values.items()
    )
    return re.sub(r"[^\w.=,+-]+", "_", text)[:120]
