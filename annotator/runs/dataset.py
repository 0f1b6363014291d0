"""A data set of the Hugging Face library with a row for each annotation of some runs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from annotator.base.errors import AnnotatorError
from annotator.base.files import replace_folder
from annotator.base.text import replace_surrogates, sanitize_line
from annotator.rubrics.annotations import Annotation, get_attribute
from annotator.runs.manifest import Manifest

# The attributes with a column of their own; the column "attributes" has all of them.
ATTRIBUTES = ("model", "setting", "project", "task", "framework", "run_name", "merge")
_COUNTS = (
    *("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens"),
    *("calls", "retries", "unreported_calls", "cache_hits"),
)

COLUMNS = (
    *("run", "run_status", "limit", "rubric", "rubric_version", "rubric_sha256"),
    *("judge", "judge_sha256", "trace_id", "status", "primary", "secondary"),
    *("findings", "rejected", *ATTRIBUTES, "passed", "attributes", *_COUNTS),
    *("cost_usd", "seconds", "reason", "error", "failure", "truncated", "read", "agreement"),
    *("tie", "votes", "contradictions"),
)


class AnnotationSource(Protocol):
    """The part of a :class:`~annotator.runs.run.Run` that a data set needs."""

    @property
    def manifest(self) -> Manifest:
        """The settings of the run."""

    def annotations(self) -> Iterator[Annotation]:
        """Yield its annotations."""


def write_dataset(runs: Sequence[AnnotationSource], folder: Path) -> None:
    """Write a data set that ``datasets.load_from_disk(folder)`` reads; it may replace another one.

    Memory does not grow with the annotations. Every data set has the same columns.

    Raises:
        AnnotatorError: a run is damaged, the folder cannot be written, or holds something else.
    """
    import datasets

    with replace_folder(folder, _is_dataset) as target, _hide_progress_bars():
        try:
            dataset = _generate_dataset(runs, target.with_name("cache"))
            dataset.save_to_disk(target, num_shards=None if len(dataset) else 1)
        except (datasets.exceptions.DatasetGenerationError, UnicodeEncodeError) as error:
            raise _explain_failure(f"cannot write {folder}", error.__cause__ or error) from error


def build_dataset(runs: Sequence[AnnotationSource]) -> Any:
    """Return the annotations of ``runs`` as a ``datasets.Dataset`` in memory."""
    import datasets

    # Not from_generator: its cache does not see annotations that a run got since.
    rows = list(make_rows(runs))
    columns = {name: [row[name] for row in rows] for name in COLUMNS}
    return datasets.Dataset.from_dict(columns, _build_features())


def _generate_dataset(runs: Sequence[AnnotationSource], cache: Path) -> Any:
    """Return a data set on the disk, below the empty folder ``cache``."""
    import datasets

    features = _build_features()
    if all(next(run.annotations(), None) is None for run in runs):
        return datasets.Dataset.from_dict({name: [] for name in features}, features)
    return datasets.Dataset.from_generator(
        make_rows, features, cache_dir=str(cache), gen_kwargs={"runs": tuple(runs)}
    )


def push_dataset(folder: Path, name: str) -> None:
    """Push a data set in a folder to the hub as ``name``, private.

    Raises:
        AnnotatorError: the hub refuses it, or has a public data set of that name.
    """
    import datasets
    from huggingface_hub import HfApi

    hub = HfApi()
    with _hide_progress_bars():
        try:
            exists = hub.repo_exists(name, repo_type="dataset")
            if exists and not hub.dataset_info(name).private:
                raise ValueError("it is there already, and public; name another or make it private")
            datasets.load_from_disk(folder).push_to_hub(name, private=True)
        except Exception as error:  # of a dozen libraries
            raise _explain_failure(
                f"{folder} is written, but not pushed to {name}", error
            ) from error


def _explain_failure(problem: str, error: BaseException) -> AnnotatorError:
    if isinstance(error, AnnotatorError):
        return error
    return AnnotatorError(f"{problem}: {sanitize_line(str(error) or type(error).__name__)}")


def _is_dataset(folder: Path) -> bool:
    return (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file()


@contextmanager
def _hide_progress_bars() -> Iterator[None]:
    import datasets

    enabled = datasets.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if enabled:
            datasets.enable_progress_bars()


def _build_features() -> Any:
    from datasets import Features, Value

    text, integer, real = Value("string"), Value("int64"), Value("float64")
    evidence = {"quote": text, "source": text, "start": integer, "end": integer, "match": text}
    finding = {"code": text, "rationale": text, "votes": integer, "evidence": [evidence]}
    vote = {"judge": text, "sample": integer, "status": text, "primary": text, "secondary": [text]}
    return Features(
        {
            **{"run": text, "run_status": text, "limit": integer},
            **{"rubric": text, "rubric_version": integer, "rubric_sha256": text},
            **dict.fromkeys(("judge", "judge_sha256", "trace_id", "status", "primary"), text),
            "secondary": [text],
            "findings": [finding],
            "rejected": [{"code": text, "reason": text, "quotes": [text]}],
            **dict.fromkeys(ATTRIBUTES, text),
            "passed": Value("bool"),
            "attributes": text,
            **dict.fromkeys(_COUNTS, integer),
            "cost_usd": real,
            "seconds": real,
            "reason": text,
            "error": text,
            "failure": text,
            "truncated": [{"source": text, "characters": integer}],
            "read": real,
            "agreement": real,
            "tie": [text],
            "votes": [vote | {"error": text, "reason": text}],
            "contradictions": [text],
        }
    )


def make_rows(runs: Sequence[AnnotationSource]) -> Iterator[dict[str, Any]]:
    """Yield a row for each annotation: plain values by the names in :data:`COLUMNS`."""
    for run in runs:
        versions = {scheme.id: scheme.version for scheme in run.manifest.rubrics}
        common = {
            "run": replace_surrogates(run.manifest.id),
            "run_status": replace_surrogates(run.manifest.status),
            "limit": run.manifest.limit,
            "judge_sha256": run.manifest.judge_sha256,
        }
        for annotation in run.annotations():
            row = common | _make_row(annotation, versions)
            yield {name: row[name] for name in COLUMNS}


def _make_row(annotation: Annotation, versions: Mapping[str, int]) -> dict[str, Any]:
    attributes, fields = annotation.attributes, asdict(annotation)
    strings = {
        name: None if attributes.get(name) is None else get_attribute(attributes, name)
        for name in ATTRIBUTES
    }
    return {
        **fields.pop("usage"),
        **fields,
        **strings,
        "rubric_version": versions[annotation.rubric],
        "passed": attributes["passed"] if isinstance(attributes.get("passed"), bool) else None,
        "attributes": json.dumps(fields["attributes"], ensure_ascii=False),
        "truncated": [
            {"source": source, "characters": n} for source, n in annotation.truncated.items()
        ],
    }
