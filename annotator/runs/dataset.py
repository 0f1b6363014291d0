"""The annotations of runs as a data set of the Hugging Face library, a row for each."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.files import replace_folder
from annotator.base.text import replace_surrogates, sanitize_line
from annotator.rubrics.annotations import Annotation, value_of
from annotator.runs.run import Run

# The attributes that have a column each, besides passed; all of them stand in attributes.
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


def write_dataset(runs: Sequence[Run], folder: Path) -> None:
    """Save the annotations of all ``runs`` so that ``datasets.load_from_disk(folder)`` reads them.

    Every data set has the same columns. Nothing of it grows in memory with the annotations. A data
    set that is there already is replaced.

    Raises:
        AnnotatorError: a run is damaged, or the folder cannot be written, or is there already and
            no data set.
    """
    import datasets

    with replace_folder(folder, _is_dataset) as part, _quiet():
        try:
            made = _generate_dataset(runs, part.with_name("cache"))
            made.save_to_disk(part, num_shards=None if len(made) else 1)
        except (datasets.exceptions.DatasetGenerationError, UnicodeEncodeError) as error:
            raise _explain_failure(f"cannot write {folder}", error.__cause__ or error) from error


def build_dataset(runs: Sequence[Run]) -> Any:
    """Return the annotations of ``runs`` as a ``datasets.Dataset`` in memory.

    The library's own cache goes by the arguments, and would give what a run held when it was last
    asked: it knows nothing of annotations that came since.
    """
    import datasets

    rows = list(make_rows(runs))
    columns = {name: [row[name] for row in rows] for name in COLUMNS}
    return datasets.Dataset.from_dict(columns, _features())


def _generate_dataset(runs: Sequence[Run], cache: Path) -> Any:
    """Return the same, on the disk below ``cache``, which has to be empty."""
    import datasets

    features = _features()
    if all(next(run.annotations(), None) is None for run in runs):
        return datasets.Dataset.from_dict({name: [] for name in features}, features)
    with _quiet():
        return datasets.Dataset.from_generator(
            make_rows, features, cache_dir=str(cache), gen_kwargs={"runs": tuple(runs)}
        )


def push_dataset(folder: Path, name: str) -> None:
    """Push a saved data set to the hub as ``name``, private.

    Raises:
        AnnotatorError: it is not pushed, for one because there is a public one of that name, which
            a push would leave public; the folder stays.
    """
    import datasets
    from huggingface_hub import HfApi

    hub = HfApi()
    with _quiet():
        try:
            there = hub.repo_exists(name, repo_type="dataset")
            if there and not hub.dataset_info(name).private:
                raise ValueError("it is there already, and public; name another or make it private")
            datasets.load_from_disk(folder).push_to_hub(name, private=True)
        except Exception as error:  # of a dozen libraries
            raise _explain_failure(
                f"{folder} is written, but not pushed to {name}", error
            ) from error


def _explain_failure(what: str, error: BaseException) -> AnnotatorError:
    if isinstance(error, AnnotatorError):
        return error
    return AnnotatorError(f"{what}: {sanitize_line(str(error) or type(error).__name__)}")


def _is_dataset(folder: Path) -> bool:
    return (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file()


@contextmanager
def _quiet() -> Iterator[None]:
    """Show none of the library's progress bars."""
    import datasets

    shown = datasets.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()


def _features() -> Any:
    """Return the columns of every data set."""
    from datasets import Features, Value

    text, whole, real = Value("string"), Value("int64"), Value("float64")
    evidence = {"quote": text, "source": text, "start": whole, "end": whole, "match": text}
    finding = {"code": text, "rationale": text, "votes": whole, "evidence": [evidence]}
    vote = {"judge": text, "sample": whole, "status": text, "primary": text, "secondary": [text]}
    return Features(
        {
            **{"run": text, "run_status": text, "limit": whole},
            **{"rubric": text, "rubric_version": whole, "rubric_sha256": text},
            **dict.fromkeys(("judge", "judge_sha256", "trace_id", "status", "primary"), text),
            "secondary": [text],
            "findings": [finding],
            "rejected": [{"code": text, "reason": text, "quotes": [text]}],
            **dict.fromkeys(ATTRIBUTES, text),
            "passed": Value("bool"),
            "attributes": text,
            **dict.fromkeys(_COUNTS, whole),
            "cost_usd": real,
            "seconds": real,
            "reason": text,
            "error": text,
            "failure": text,
            "truncated": [{"source": text, "characters": whole}],
            "read": real,
            "agreement": real,
            "tie": [text],
            "votes": [vote | {"error": text, "reason": text}],
            "contradictions": [text],
        }
    )


def make_rows(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """Yield the row of each annotation: plain values, in the columns of every data set."""
    for run in runs:
        versions = {scheme.id: scheme.version for scheme in run.manifest.rubrics}
        common = {
            "run": replace_surrogates(run.id),
            "run_status": replace_surrogates(run.manifest.status),
            "limit": run.manifest.limit,
            "judge_sha256": run.judge_sha256,
        }
        for annotation in run.annotations():
            row = common | _row(annotation, versions)
            yield {name: row[name] for name in COLUMNS}


def _row(annotation: Annotation, versions: Mapping[str, int]) -> dict[str, Any]:
    attributes, fields = annotation.attributes, asdict(annotation)
    strings = {
        name: None if attributes.get(name) is None else value_of(attributes, name)
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
