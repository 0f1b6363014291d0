"""Trying rubrics, models and settings on labelled traces, and choosing one of them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml

from annotator.api.calibrating import make_request
from annotator.base.errors import SettingsError
from annotator.base.files import write_file
from annotator.base.plugins import is_plugin
from annotator.base.text import dump_json, find_repeated, suggest
from annotator.judges.build import ModelSettings, dump_settings, parse_settings, read_settings
from annotator.rubrics import Rubric, load_rubric
from annotator.rubrics.annotations import Annotation
from annotator.rubrics.changes import dump_rubric, strip_examples
from annotator.runs.arms import Arm, SelectedTraces, Trial, forecast_arms, run_trial
from annotator.runs.execute import Only, explain_skip, ignore, refuse_running_loop
from annotator.runs.forecast import Forecast
from annotator.runs.manifest import Criteria, IfRejected
from annotator.runs.restore import open_traces, restore_rubric, restore_settings
from annotator.runs.run import Run
from annotator.runs.verdicts import make_annotation
from annotator.traces import Ignored, Trace, Traces

if TYPE_CHECKING:  # statistics are slow to import
    from annotator.calibration.ablation import Ablation, Cost, DevLabels
    from annotator.calibration.model import Request

Vary = Mapping[str, Sequence[str]]
"""The values of each setting, as they are written on the command line."""
JudgeMaker = Callable[[Mapping[str, Any]], ModelSettings]
"""Returns the judge with some settings changed, by the names of a judge file."""

_OF_RUBRIC = ("rubric", "examples")  # the keys that are not about the judge


@dataclass(frozen=True)
class AblationPlan:
    """Arms to be judged and measured.

    Attributes:
        varied: the settings that the arms differ in, with each arm's values.
        derived: the numbers of the arms whose rubric is in no file.
        dev: the labels that the arms are compared with.
    """

    trial: Trial
    varied: tuple[Mapping[str, str], ...]
    derived: frozenset[int]
    dev: "DevLabels"
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

        for note in self.dev.notes:
            on_notice(note)
        runs = run_trial(self.trial, on_notice, command, resume=resume)
        arms = [
            JudgedArm(arm.name, varied, run, partial(self._expect_cost, arm))
            for arm, varied, run in zip(self.trial.arms, self.varied, runs, strict=True)
        ]
        result = measure_arms(arms, self.dev, self.request)
        labels = self.dev.labels
        note_looks(runs, result.rubric, labels, result.split, self.request, on_notice)
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
        """Write the result, and the winner's judge file and rubric in the place of earlier ones."""
        folder = self.trial.folder
        write_file(folder / "ablation.json", dump_json(asdict(result), 1) + "\n")
        for name in ("judge.yaml", "rubric.yaml"):
            (folder / name).unlink(missing_ok=True)
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
        traces: their sources, or one run directory, whose rubric and judge are then the defaults,
            and whose choice of traces (failed runs, or all) stays.
        labels: people's labels.
        vary: the values of each setting, such as ``{"model": ["gpt-5", "gpt-5-mini"]}``: ``rubric``
            (names or files), ``examples`` (``on``, ``off``: the rubric's examples and near misses),
            ``judge`` (``llm``, ``rules`` or a plug-in) and every name of a judge file. The arms are
            all combinations; the first one is the base.
        rubric: the rubric of the arms that vary none.
        judge: a model's name, a judge file, its settings, ``rules``, or a plug-in.
        out: the directory of the arms and of the result.
        resume: go on with the arms in ``out``.
        max_cost: in dollars, for all arms together.
        concurrency: the most calls in flight.
        on_notice: called with messages for the user.
        options: ``annotators``, ``cluster``, ``design``, ``ledger``, ``confidence`` and ``seed`` of
            :class:`annotator.calibration.model.Request`.

    Raises:
        BudgetReached: the next call may bring all arms above ``max_cost``.
        Interrupted: Ctrl-C.
        AnnotatorError: a setting, the labels or the traces cannot be used; what was judged is kept.
    """
    refuse_running_loop("call annotator.ablate in a thread of its own")
    loaded, run = open_traces(traces)
    source = restore_settings(run) if run and judge is None else judge
    if source in (None, "rules"):
        source = {} if "model" in vary else "rules"
    if not isinstance(source, Mapping):
        source = str(source)
    is_maker = isinstance(source, Mapping) or not (source == "rules" or _is_plugin(source))
    plan = plan_ablation(
        *(loaded, run, labels, vary),
        rubric=rubric,
        judge=make_settings(source) if is_maker else str(source),
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


def _is_plugin(judge: object) -> bool:
    return isinstance(judge, str) and is_plugin("judges", judge)


def plan_ablation(
    traces: Traces,
    run: Run | None,
    labels: str | Path | Sequence[str | Path],
    vary: Vary,
    *,
    rubric: str | Rubric | None,
    judge: JudgeMaker | str,
    out: Path,
    max_cost: float | None = None,
    concurrency: int = 8,
    batch_file: Path | None = None,
    batch_results: tuple[Path, ...] = (),
    **options: Any,
) -> AblationPlan:
    """Return the arms and the labelled traces; arguments and errors as :func:`ablate`.

    ``run``: the run of these traces, if there is one; ``judge``: the function that makes the judge
    of an arm, or ``rules`` or a plug-in.
    """
    from annotator.calibration.ablation import check_labels, read_dev_labels

    check_vary(vary, judge)
    if isinstance(rubric, Rubric):
        base = rubric
    elif run and (rubric or "rubric" not in vary):
        base = restore_rubric(run, rubric)
    elif rubric or "rubric" in vary:
        base = load_rubric(rubric or vary["rubric"][0])
    else:
        raise SettingsError("--rubric is missing: name one, or several with --vary rubric=A,B")
    only, criteria = "rubric", Criteria()
    if run:
        only = run.manifest.only or only
        criteria = Criteria(cast("IfRejected", run.manifest.rejected), run.manifest.least_read)
    arms: list[Arm] = []
    varied: list[Mapping[str, str]] = []
    derived: set[int] = set()
    for values in _list_combinations(vary):
        arm_rubric, is_derived = _make_rubric(values, base)
        _check_codes(arm_rubric, base)
        name = values.get("judge", "llm")
        settings: Any = name if name != "llm" else judge
        if callable(settings):
            settings = settings(_read_settings(values))
        if is_derived:
            derived.add(len(arms))
        arms.append(Arm(_name_arm(values), arm_rubric, settings, criteria=criteria))
        varied.append(values)
    for name in find_repeated(arm.name for arm in arms):
        raise SettingsError(
            f"--vary: two arms would be in the directory {name!r}: rename a rubric file, or vary"
            " fewer settings"
        )
    _check_limits(arms, max_cost, batch=bool(batch_file))
    request = make_request(labels, rubrics=(base.id,), **options)
    dev = read_dev_labels(base.scheme(), request, run, traces.places)
    trial = Trial(
        SelectedTraces(traces, dev.labels.keys()),
        dev.labels.keys(),
        arms,
        out,
        only=cast("Only", only),
        concurrency=concurrency,
        max_cost=max_cost,
        batch_file=batch_file,
        batch_results=batch_results,
    )
    check_labels(dev, _make_annotations(trial, base), base.scheme())
    return AblationPlan(trial, tuple(varied), frozenset(derived), dev, request)


def _make_annotations(trial: Trial, rubric: Rubric) -> Iterator[Annotation]:
    """Yield annotations of a judge that decides no trace."""
    for item in trial.traces.find():
        if isinstance(item, Trace) and (reason := explain_skip(item, rubric, trial.only)):
            yield make_annotation(item, rubric, "", "skipped", reason=reason)
        elif not isinstance(item, Ignored):
            yield make_annotation(item, rubric, "", "undecided")


def _check_limits(arms: Sequence[Arm], max_cost: float | None, *, batch: bool) -> None:
    """Raise :class:`SettingsError` if a limit is not for these arms."""
    plugins = [arm.judge for arm in arms if _is_plugin(arm.judge)]
    if plugins and max_cost is not None:
        raise SettingsError(
            f"--max-cost bounds what the llm judge spends, not the judge {plugins[0]}: leave it out"
        )
    settings = [arm.judge for arm in arms if isinstance(arm.judge, ModelSettings)]
    models = sorted({model.model for each in settings for model in each.models})
    if batch and len(models) > 1:
        raise SettingsError(
            f"--batch-file: a batch is of one model, and these arms have {', '.join(models)}: write"
            " a file for each model, with an --out of its own"
        )


def check_vary(vary: Vary, judge: JudgeMaker | str) -> None:
    """Raise :class:`SettingsError` unless each key is a setting of the judge or of the rubric, with
    values that differ.
    """
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
        if judge_name := "" if callable(judge) or key in (*_OF_RUBRIC, "judge") else judge:
            raise SettingsError(
                f"--vary {key}: the judge {judge_name} has no such setting; name a model with"
                " --model, or several with --vary model=A,B"
            )
    for value in vary.get("examples", ()):
        if value not in ("on", "off"):
            raise SettingsError(f"--vary examples: expected on or off, found {value!r}")
    for value in vary.get("judge", ()):
        if value == "llm" and not callable(judge):
            raise SettingsError("--vary judge=llm: name a model with --model")
        if value not in ("llm", "rules") and not _is_plugin(value):
            raise SettingsError(
                f"--vary judge: expected llm, rules or a plug-in (module:name), found {value!r}"
            )


def _list_combinations(vary: Vary) -> Iterator[dict[str, str]]:
    """Yield the settings of each arm. A judge without a model has no settings: it is one arm."""
    seen = []
    for values in product(*vary.values()):
        arm = dict(zip(vary, values, strict=True))
        if arm.get("judge", "llm") != "llm":
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
