"""The traces, the rubric and the judge of a finished run, to judge as it did once more."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.rubrics import Rubric, list_built_in, load_rubric
from annotator.runs.run import Run, is_run, open_run
from annotator.traces import Traces, TraceSource, load_traces

_SAME = ("model", "base_url", "mode", "reasks", "context", "windows", "considered", "rubric_last")
_OPTIONAL = ("dialect", "api")
_VOTES = ("samples", "require")
_CAPS = ("max_completion_tokens", "max_tokens")
_NAMED = ("temperature", "seed", "reasoning_effort")


def open_traces(source: TraceSource | Traces) -> tuple[Traces, Run | None]:
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
    return load_traces(source), None


def restore_rubric(run: Run, name_or_file: str | None = None) -> Rubric:
    """Return the rubric of a run; ``name_or_file``: where it is, if it is not built in.

    Raises:
        AnnotatorError: the run has several rubrics, its rubric is a file of its own, or what is
            named has other codes.
    """
    if name_or_file is None and len(run.schemes) > 1:
        names = ", ".join(run.schemes)
        raise AnnotatorError(f"{run}: it was judged by {names}: say which with --rubric")
    if name_or_file is None:
        [scheme] = run.schemes.values()
        if scheme.id in {path.stem for path in list_built_in()}:
            rubric = load_rubric(scheme.id)
            if rubric.sha256 == scheme.sha256:
                return rubric
        raise AnnotatorError(
            f"{run}: its rubric {scheme.id} (version {scheme.version}) is not built in: name its"
            " file with --rubric"
        )
    return load_rubric(name_or_file)


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
