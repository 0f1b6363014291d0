"""A folder that ``datasets.load_dataset`` reads and the Hugging Face hub shows: annotations, a data
set card, tables and the calibration.
"""

# huggingface.co/docs/datasets/repository_structure and huggingface.co/docs/hub/datasets-cards:
# "configs" in the YAML at the top of README.md names the files with rows.

import hashlib
from collections.abc import Callable
from pathlib import Path

import yaml

from annotator.base.errors import AnnotatorError
from annotator.base.files import NewFile, explain_errors, write_file
from annotator.base.remote import refuse_url
from annotator.reports.formats import markdown
from annotator.rubrics import list_built_in, load_rubric
from annotator.runs.dataset import build_dataset
from annotator.runs.run import Run

_FILE = "annotations.parquet"
_LICENSE = (
    "# license: not set. Write one of https://huggingface.co/docs/hub/repositories-licenses here,"
    " without the #.\n"
)


def write_folder(
    run: Run,
    folder: Path,
    tables: str,
    methods: str,
    calibration: Path | None,
    on_notice: Callable[[str], None],
) -> int:
    """Write the files into the folder; return the number of annotations. An earlier ``README.md``
    stays, and the new card is ``README.new.md``.

    Args:
        run: whose annotations these are.
        folder: is made, or has an earlier export.
        tables: the frequency tables, in Markdown.
        methods: the paragraphs on methods, in Markdown.
        calibration: a file of ``annotate calibrate`` to add.
        on_notice: is called if an earlier card stays.

    Raises:
        AnnotatorError: the run is damaged, or something else is at ``folder``.
    """
    import datasets

    datasets.disable_progress_bars()
    rows = build_dataset([run])
    refuse_url(folder, "a folder is written on this machine: name one and copy it")
    data, copy, card = folder / _FILE, folder / "calibration.json", folder / "README.md"
    with explain_errors(folder):
        folder.mkdir(exist_ok=True)
        if any(folder.iterdir()) and not data.is_file():
            raise AnnotatorError(f"{folder} is there already and is something else; name another")
        with NewFile(data) as out:
            rows.to_parquet(out)
        copy.unlink(missing_ok=True)  # it may be of another run
        if calibration:
            write_file(copy, calibration.read_bytes())
        digest = hashlib.sha256(data.read_bytes()).hexdigest()
    if card.exists():
        card = folder / "README.new.md"
        on_notice(f"README.md is kept. The new card is {card}: take its tables and hashes over")
    write_file(card, _make_card(run, digest, tables, methods))
    return len(rows)


def _make_card(run: Run, digest: str, tables: str, methods: str) -> str:
    titles = [scheme.title or scheme.id for scheme in run.schemes.values()]
    files = [{"config_name": "default", "data_files": [{"split": "train", "path": _FILE}]}]
    head = {"pretty_name": f"Annotations: {'; '.join(titles)}", "configs": files}
    header = yaml.safe_dump(head, sort_keys=False, allow_unicode=True)
    facts = {
        "run": run.id,
        "judge with its settings, sha256": run.judge_sha256,
        **{
            f"rubric {scheme.id}, version {scheme.version}, sha256": scheme.sha256 or "-"
            for scheme in run.schemes.values()
        },
        f"{_FILE}, sha256": digest,
    }
    rows = [f"| {markdown.escape(k)} | {markdown.escape(v)} |" for k, v in facts.items()]
    limits = " ".join(run.manifest.limitations)
    sections = {
        "How it was made": methods,
        "Frequencies": tables,
        "Calibration": "`calibration.json`, if it is here, compares the judge with labels.",
        "Versions and hashes": "\n".join(["| of | is |", "| --- | --- |", *rows]),
        "Citation": "\n".join(["To fill in: how to cite this data set.", *_list_sources(run)]),
        "License": "To fill in, here and in the first lines of this file. The quotes are text of"
        " the traces: their licence counts, too.",
    }
    parts = [f"---\n{header}{_LICENSE}---", f"# {markdown.escape(str(head['pretty_name']))}"]
    parts.append(
        "One row for each trace and rubric: status, codes, findings with verified quotes,"
        f" attributes of the trace, cost. {markdown.escape(limits)}".strip()
    )
    parts += [f"## {title}\n\n{text}" for title, text in sections.items()]
    return "\n\n".join(parts) + "\n"


def _list_sources(run: Run) -> list[str]:
    """Return a line for each built-in rubric of the run, with its source."""
    built_in = [load_rubric(path.stem) for path in list_built_in()]
    return [
        f"- Rubric {markdown.escape(rubric.id)}: {markdown.escape(rubric.source)}"
        for rubric in built_in
        if rubric.sha256 in {scheme.sha256 for scheme in run.schemes.values()}
    ]
