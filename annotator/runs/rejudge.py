"""The traces, the rubric and the judge of a finished run, to judge as it did once more."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from annotator.base.errors import AnnotatorError, SettingsError
from annotator.judges.build import ModelSettings, build_judge
from annotator.rubrics import Rubric, load_recorded, load_rubric
from annotator.runs.execute import Only, RubricSource
from annotator.runs.manifest import DEFAULT_CRITERIA, Criteria, IfRejected
from annotator.runs.run import Run, is_run, open_run
from annotator.traces import Traces, TraceSource, load_traces

_SAME = ("model", "base_url", "mode", "reasks", "context", "windows", "considered", "rubric_last")
_OPTIONAL = ("dialect", "api")
_VOTES = ("samples", "require")
_CAPS = ("max_completion_tokens", "max_tokens")
_NAMED = ("temperature", "seed", "reasoning_effort")


def open_traces(
    source: TraceSource | Traces, format: str = "auto", *, redact: bool = False
) -> tuple[Traces, Run | None]:
    """Return traces; of one run directory those that it judged, redacted if they were, and the run.

    Raises:
        AnnotatorError: a source does not exist.
    """
    if isinstance(source, Traces):
        return source, None
    single = source[0] if isinstance(source, (list, tuple)) and len(source) == 1 else source
    if isinstance(single, (str, Path)) and is_run(single):
        run = open_run(single)
        manifest = run.manifest
        redact = bool(manifest.redaction)
        return load_traces(*manifest.sources, format=manifest.format, redact=redact), run
    return load_traces(source, format=format, redact=redact), None


def restore_rubric(run: Run | None, rubric: RubricSource | None = None) -> Rubric:
    """Return a rubric; by default that of the run.

    Raises:
        AnnotatorError: none is named, and there is no run, or it has several rubrics, or the file
            of its rubric is not there any more, or is changed.
    """
    if isinstance(rubric, Rubric):
        return rubric
    if rubric is not None:
        return load_rubric(os.fspath(rubric))
    if run is None:
        raise SettingsError("--rubric NAME|FILE is missing")
    if len(run.schemes) > 1:
        names = ", ".join(run.schemes)
        raise AnnotatorError(f"{run}: it was judged by {names}: say which with --rubric")
    [scheme] = run.schemes.values()
    if restored := load_recorded(scheme):
        return restored
    raise AnnotatorError(
        f"{run}: its rubric {scheme.id} (version {scheme.version}) is not"
        f" {f'in {scheme.file} any more' if scheme.file else 'built in'}: name its file with"
        " --rubric"
    )


def restore_criteria(run: Run | None) -> tuple[Only, Criteria]:
    """Return which traces a run judges, and when a verdict counts in it."""
    if not run:
        return "rubric", DEFAULT_CRITERIA
    manifest = run.manifest
    rejected = cast("IfRejected", manifest.rejected)
    return cast("Only", manifest.only or "rubric"), Criteria(rejected, manifest.least_read)


def restore_model(run: Run | None, judge: Any) -> ModelSettings:
    """Return the settings of a judge of models; by default that of the run.

    Raises:
        SettingsError: it asks no model, or in batches.
    """
    settings = build_judge(
        judge or (restore_settings(run) if run else "rules"), offline=True
    ).settings
    if settings is None or settings.finder:
        raise SettingsError("only a judge that asks a model can do this: name one with --model")
    if settings.batch:
        raise SettingsError(
            "--batch would wait for one run after the other: use --batch-file, which has all"
        )
    return settings


def restore_settings(run: Run) -> Mapping[str, Any] | str:
    """Return the settings of a run's judge by the names of a judge file, or ``rules``.

    Keys and headers are not recorded: they come from the environment, as for the run.

    Raises:
        AnnotatorError: the judge is a plug-in.
    """
    recorded = run.manifest.judge.model_dump()
    critic = recorded.get("critic")
    if recorded["id"] == "rules" and not critic:
        return "rules"
    if not str(recorded["id"]).startswith("llm:"):
        raise AnnotatorError(
            f"{run}: its judge {recorded['id']} is a plug-in, or has a critic: name it with --judge"
        )
    votes = {name: recorded[name] for name in _VOTES if name in recorded}
    if critic:
        votes["critic"] = _read_model(critic)
    models = [_read_model(model) for model in recorded.get("models") or [recorded]]
    if len(models) == 1:
        return {**models[0], **votes}
    return {"models": models, **votes}


def _read_model(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of one model, from those in ``run.json``."""
    settings = {name: recorded[name] for name in _SAME if recorded.get(name) is not None}
    settings |= {name: recorded[name] for name in _OPTIONAL if recorded.get(name)}
    if recorded.get("facts") == "off":
        settings["facts"] = False
    parameters = dict(recorded.get("parameters") or {})
    for name in _NAMED:
        if name in parameters:
            settings[name] = parameters.pop(name)
    for name in _CAPS:
        if name in parameters:
            settings["max_output_tokens"] = parameters.pop(name)
    if "sha256=" in json.dumps(parameters):
        raise AnnotatorError(
            "the run's judge was sent a secret of its own, which run.json does not keep: name the"
            " judge file with --judge"
        )
    return settings | ({"extra_body": parameters} if parameters else {})
