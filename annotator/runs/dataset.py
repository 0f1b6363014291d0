"""A data set of the Hugging Face library with a row for each annotation of some runs."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotator.base.errors import AnnotatorError
from annotator.base.files import replace_folder
from annotator.base.text import replace_surrogates, sanitize_line
from annotator.rubrics.annotations import get_attribute

if TYPE_CHECKING:
    from annotator.runs.run import Run

# The attributes with a column of their own; the column "attributes" has all of them.
ATTRIBUTES = ("model", "setting", "project", "task", "framework", "run_name", "merge")
_COUNTS = (
    *("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens"),
    *("calls", "retries", "unreported_calls", "cache_hits"),
)
_QUOTE = {
    "quote": "string",
    "source": "string",
    "start": "int64",
    "end": "int64",
    "match": "string",
}
_FINDING = {
    **{"code": "string", "rationale": "string", "votes": "int64", "evidence": [_QUOTE]},
    **{"agent": "string", "step": "int64", "shown_agent": "string", "shown_step": "int64"},
    "steps": "int64",
}
_VOTE = {"judge": "string", "sample": "int64", "status": "string", "primary": "string"}
_VOTE_TEXTS = {"secondary": ["string"], "error": "string", "reason": "string"}
_TYPES = {
    **{"run": "string", "run_status": "string", "limit": "int64"},
    **{"rubric": "string", "rubric_version": "int64", "rubric_sha256": "string"},
    **dict.fromkeys(("judge", "judge_sha256", "trace_id", "status", "primary"), "string"),
    "secondary": ["string"],
    "findings": [_FINDING],
    "rejected": [{"code": "string", "reason": "string", "quotes": ["string"]}],
    **dict.fromkeys(ATTRIBUTES, "string"),
    **{"passed": "bool", "attributes": "string"},
    **dict.fromkeys(_COUNTS, "int64"),
    **{"cost_usd": "float64", "seconds": "float64"},
    **{"reason": "string", "error": "string", "failure": "string"},
    "truncated": [{"source": "string", "characters": "int64"}],
    **{"read": "float64", "agreement": "float64", "tie": ["string"]},
    "votes": [{**_VOTE, **_VOTE_TEXTS}],
    "contradictions": ["string"],
}
COLUMNS = tuple(_TYPES)


def write_dataset(runs: Sequence["Run"], folder: Path) -> None:
    """Write a data set that ``datasets.load_from_disk(folder)`` reads; it may replace another one.

    Memory does not grow with the annotations. Every data set has the same columns.
    """
    import datasets

    datasets.disable_progress_bars()
    with replace_folder(folder, _is_dataset) as target:
        try:
            dataset = build_dataset(())
            if any(next(run.annotations(), None) for run in runs):
                cache, arguments = str(target.with_name("cache")), {"runs": tuple(runs)}
                dataset = datasets.Dataset.from_generator(
                    make_rows, dataset.features, cache_dir=cache, gen_kwargs=arguments
                )
            dataset.save_to_disk(target, num_shards=None if len(dataset) else 1)
        except (datasets.exceptions.DatasetGenerationError, UnicodeEncodeError) as error:
            cause = error.__cause__ or error
            if isinstance(cause, AnnotatorError):
                raise cause from error
            reason = sanitize_line(str(cause) or type(cause).__name__)
            raise AnnotatorError(f"cannot write {folder}: {reason}") from error


def build_dataset(runs: Sequence["Run"]) -> Any:
    """Return the annotations of ``runs`` as a ``datasets.Dataset`` in memory."""
    import datasets

    # Not from_generator: its cache does not see annotations that a run got since.
    rows = list(make_rows(runs))
    columns = {name: [row[name] for row in rows] for name in COLUMNS}
    return datasets.Dataset.from_dict(columns, datasets.Features(_make_feature(_TYPES)))


def _is_dataset(folder: Path) -> bool:
    return (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file()


def _make_feature(type_: Any) -> Any:
    """Return a type of :data:`_TYPES` as the library writes it."""
    from datasets import Value

    if isinstance(type_, dict):
        return {name: _make_feature(each) for name, each in type_.items()}
    return [_make_feature(type_[0])] if isinstance(type_, list) else Value(type_)


def make_rows(runs: Sequence["Run"]) -> Iterator[dict[str, Any]]:
    """Yield a row for each annotation: plain values by the names in :data:`COLUMNS`."""
    for run in runs:
        common = {
            "run": replace_surrogates(run.id),
            "run_status": replace_surrogates(run.manifest.status),
            "limit": run.manifest.limit,
            "judge_sha256": run.judge_sha256,
        }
        for annotation in run.annotations():
            attributes, fields = annotation.attributes, asdict(annotation)
            passed = attributes.get("passed")
            row = {
                **common,
                **fields.pop("usage"),
                **fields,
                "rubric_version": run.schemes[annotation.rubric].version,
                "passed": passed if isinstance(passed, bool) else None,
                "attributes": json.dumps(fields["attributes"], ensure_ascii=False),
                "truncated": [
                    {"source": source, "characters": n}
                    for source, n in annotation.truncated.items()
                ],
            }
            for name in ATTRIBUTES:
                is_set = attributes.get(name) is not None
                row[name] = get_attribute(attributes, name) if is_set else None
            yield {name: row[name] for name in COLUMNS}
