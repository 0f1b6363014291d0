"""Trying rubrics, models and settings on labelled traces, and choosing one of them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from annotator.api.calibrating import make_request
from annotator.base.errors import SettingsError
from annotator.base.files import write_file
from annotator.base.plugins import is_plugin
from annotator.base.text import dump_json, find_repeated, suggest
from annotator.judges.build import (
    ModelSettings,
    dump_settings,
    is_judge_file,
    parse_settings,
    read_settings,
)
from annotator.rubrics import Rubric, load_rubric
from annotator.rubrics.changes import dump_rubric, strip_examples
from annotator.runs.arms import (
    Arm,
    SelectedTraces,
    Trial,
    extract_limits,
    forecast_arms,
    run_trial,
)
from annotator.runs.execute import ignore, refuse_running_loop
from annotator.runs.forecast import Forecast
from annotator.runs.rejudge import (
    open_traces,
    restore_criteria,
    restore_rubric,
    restore_settings,
)
from annotator.runs.run import Run
from annotator.runs.verdicts import make_annotation
from annotator.traces import Traces

if TYPE_CHECKING:  # statistics are slow to import
    from annotator.calibration.ablation import Ablation, Cost
    from annotator.calibration.matching import Reference
    from annotator.calibration.model import Request

Vary = Mapping[str, Sequence[str]]
"""The values of each setting, as they are written on the command line."""
JudgeMaker = Callable[[Mapping[str, Any]], ModelSettings]
"""Returns the judge with some settings changed, by the names of a judge file."""

_NOT_OF_MODEL = ("rubric", "examples", "judge")  # keys


@dataclass(frozen=True)
class AblationPlan:
    """Arms to be judged, and the labels to compare them with."""

    trial: Trial
    reference: "Reference"
    request: "Request"

    def forecast(self) -> Forecast:
        """Return the expected usage of all arms, without calls; raises as :func:`ablate`."""
        return forecast_arms(self.trial)

    def run(self, on_notice: Callable[[str], None], command: str, *, resume: bool) -> "Ablation":
        """Judge the labelled traces in every arm, and compare the arms; raises as ablate."""
        from annotator.calibration.ablation import measure_arms
        from annotator.calibration.ledger import note_looks

        for note in self.reference.notes:
            on_notice(note)
        runs = run_trial(self.trial, on_notice, command, resume=resume)
        arms, reference = self.trial.arms, self.reference
        result = measure_arms(arms, runs, reference, self.request, self._expect_cost)
        labels, split = reference.labels, reference.split
        note_looks(runs, result.rubric, labels, split, self.request, on_notice)
        self._write(result)
        return result

    def _expect_cost(self, arm: Arm) -> "Cost":
        """Return the expected cost of a trace if no answer is known."""
        from annotator.calibration.ablation import make_cost

        if isinstance(arm.judge, ModelSettings):
            arm = replace(arm, judge=replace(arm.judge, cached=False))
        nowhere = self.trial.folder / "none"  # of its own run nothing is left to judge
        expected = forecast_arms(replace(self.trial, arms=[arm], folder=nowhere))
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
        if arm.values.get("examples") == "off":
            write_file(folder / "rubric.yaml", dump_rubric(arm.rubric))


def ablate(
    traces: str | Path | Traces | Sequence[str | Path],
    labels: str | Path | Sequence[str | Path],
    vary: Mapping[str, Sequence[object]],
    *,
    rubric: str | Rubric | None = None,
    judge: str | Path | Mapping[str, Any] | None = None,
    out: str | Path,
    resume: bool = False,
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
            ``critic`` (``none``, ``same`` or a model), ``judge`` (``llm``, ``rules`` or a plug-in)
            and every name of a judge file. The arms are all combinations; the first one is the
            base.
        rubric: the rubric of the arms that vary none.
        judge: a model's name, a judge file, its settings, ``rules``, or a plug-in.
        out: the directory of the arms and of the result.
        resume: go on with the arms in ``out``.
        on_notice: called with messages for the user.
        options: ``max_cost`` (in dollars, for all arms together), ``concurrency`` (the most calls
            in flight); ``annotators``, ``cluster``, ``design``, ``ledger``, ``confidence`` and
            ``seed`` of :class:`annotator.calibration.model.Request`.

    Raises:
        BudgetReached: the next call may bring all arms above ``max_cost``.
        Interrupted: Ctrl-C.
        AnnotatorError: a setting, the labels or the traces cannot be used; what was judged is kept.
    """
    refuse_running_loop("call annotator.ablate in a thread of its own")
    loaded, run = open_traces(traces)
    if judge is None:
        judge = restore_settings(run) if run else "rules"
    if judge == "rules" and "model" in vary:
        judge = {}
    values = {key: [str(value) for value in each] for key, each in vary.items()}
    maker = _make_judge(judge)
    plan = plan_ablation(loaded, run, labels, values, rubric, maker, out=Path(out), **options)
    return plan.run(on_notice, "annotator.ablate(...)", resume=resume)


def _make_judge(judge: str | Path | Mapping[str, Any]) -> JudgeMaker | str:
    """Return a function that makes a judge of models; the name of another judge stays."""
    if isinstance(judge, Mapping):
        return lambda varied: parse_settings(judge, over=varied)
    name = str(judge)
    if is_judge_file(name):
        return lambda varied: read_settings(Path(name), over=varied)
    if name == "rules" or is_plugin("judges", name):
        return name
    return lambda varied: parse_settings({"model": name}, over=varied)


def plan_ablation(
    traces: Traces,
    run: Run | None,
    labels: str | Path | Sequence[str | Path],
    vary: Vary,
    rubric: str | Rubric | None,
    judge: JudgeMaker | str,
    *,
    out: Path,
    **options: Any,
) -> AblationPlan:
    """Return the arms and the labelled traces; arguments and errors as :func:`ablate`.

    ``run``: the run of these traces, if there is one; ``judge``: the function that makes the judge
    of an arm, or ``rules`` or a plug-in.
    """
    from annotator.calibration.judged_sample import JudgedSample
    from annotator.calibration.matching import match_labels, read_reference

    _check_vary(vary, judge)
    base = restore_rubric(run, rubric or (vary["rubric"][0] if "rubric" in vary else None))
    only, criteria = restore_criteria(run)
    arms = []
    for values in _list_combinations(vary):
        source: Any = values.get("judge", "llm")
        if source == "llm":
            source = judge(_read_settings(values)) if callable(judge) else judge
        arms.append(
            Arm(_name_arm(values), _make_rubric(values, base), source, values, criteria=criteria)
        )
    for name in find_repeated(arm.name for arm in arms):
        raise SettingsError(
            f"--vary: two arms would be in the directory {name!r}: rename a rubric file, or vary"
            " fewer settings"
        )
    limits = extract_limits(options)
    _check_limits(arms, limits)
    request = make_request(labels, rubrics=(base.id,), **options)
    reference = read_reference(request, base.scheme(), run, traces.places, final=False)
    selected = SelectedTraces(traces, reference.labels.keys())
    # As if nothing were decided: wrong labels are found before anything is paid for.
    judged = {item.id: make_annotation(item, base, "", "undecided") for item in selected.items}
    sample = JudgedSample("", "", "", base.scheme(), selected=judged)
    match_labels(sample, reference.labels, (), reference.design)
    return AblationPlan(Trial(selected, out, arms, only, **limits), reference, request)


def _check_limits(arms: Sequence[Arm], limits: Mapping[str, Any]) -> None:
    """Raise :class:`SettingsError` if a limit is not for these arms."""
    plugins = [x.judge for x in arms if isinstance(x.judge, str) and x.judge != "rules"]
    if plugins and limits.get("max_cost") is not None:
        raise SettingsError(
            f"--max-cost bounds what the llm judge spends, not the judge {plugins[0]}: leave it out"
        )
    settings = [arm.judge for arm in arms if isinstance(arm.judge, ModelSettings)]
    models = sorted({model.model for each in settings for model in each.models})
    if limits.get("batch_file") and len(models) > 1:
        raise SettingsError(
            f"--batch-file: a batch is of one model, and these arms have {', '.join(models)}: write"
            " a file for each model, with an --out of its own"
        )


def _check_vary(vary: Vary, judge: JudgeMaker | str) -> None:
    """Raise :class:`SettingsError` unless each key is a setting of the judge or of the rubric, with
    values that differ.
    """
    from annotator.judges.llm.settings import SETTING_NAMES

    names = [*_NOT_OF_MODEL, *SETTING_NAMES]
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
        if not callable(judge) and key not in _NOT_OF_MODEL:
            raise SettingsError(
                f"--vary {key}: the judge {judge} has no such setting; name a model with"
                " --model, or several with --vary model=A,B"
            )
    for value in vary.get("examples", ()):
        if value not in ("on", "off"):
            raise SettingsError(f"--vary examples: expected on or off, found {value!r}")
    for value in vary.get("judge", ()):
        if value == "llm" and not callable(judge):
            raise SettingsError("--vary judge=llm: name a model with --model")
        if value not in ("llm", "rules") and not is_plugin("judges", value):
            raise SettingsError(
                f"--vary judge: expected llm, rules or a plug-in (module:name), found {value!r}"
            )


def _list_combinations(vary: Vary) -> Iterator[dict[str, str]]:
    """Yield the settings of each arm. A judge without a model has no settings: it is one arm."""
    seen = []
    for values in product(*vary.values()):
        arm = dict(zip(vary, values, strict=True))
        if arm.get("judge", "llm") != "llm":
            arm = {key: value for key, value in arm.items() if key in _NOT_OF_MODEL}
        if arm not in seen:
            seen.append(arm)
            yield arm


def _make_rubric(values: Mapping[str, str], base: Rubric) -> Rubric:
    """Return the rubric of an arm.

    Raises:
        SettingsError: labels by one rubric are not labels by the other.
    """
    rubric = load_rubric(values["rubric"]) if "rubric" in values else base
    codes = [{code.id for code in each.codes} for each in (rubric, base)]
    if rubric.id != base.id or codes[0] != codes[1]:
        raise SettingsError(
            f"--vary rubric: {rubric.id} has other codes than {base.id}, or another id: people's"
            " labels by one are not labels by the other"
        )
    return strip_examples(rubric) if values.get("examples") == "off" else rubric


def _read_settings(values: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a model among those of an arm, as values."""
    settings: dict[str, Any] = {}
    for key, text in values.items():
        if key in _NOT_OF_MODEL:
            continue
        if key == "model":
            settings["models"] = (text,)
        elif key == "critic":
            settings["critic"] = None if text == "none" else text
        else:
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
