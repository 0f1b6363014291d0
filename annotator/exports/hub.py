"""A folder that ``datasets.load_dataset`` reads and the Hugging Face hub shows: annotations, a data
set card, tables and the calibration.
"""

# huggingface.co/docs/datasets/repository_structure and huggingface.co/docs/hub/datasets-cards:
# "configs" in the YAML at the top of README.md names the files with rows.

import hashlib
import shutil
from pathlib import Path

import yaml

from annotator.base.files import replace_folder, write_file
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
    run: Run, folder: Path, tables: str, methods: str, calibration: Path | None
) -> int:
    """Write the folder, which may replace an earlier one; return the number of annotations.

    Args:
        run: whose annotations these are.
        folder: is made.
        tables: the frequency tables, in Markdown.
        methods: the paragraphs on methods, in Markdown.
        calibration: a file of ``annotate calibrate`` to add.

    Raises:
        AnnotatorError: the run is damaged, or something else is at ``folder``.
    """
    import datasets

    datasets.disable_progress_bars()
    rows = build_dataset([run])
    with replace_folder(folder, lambda path: (path / _FILE).is_file()) as target:
        target.mkdir()
        rows.to_parquet(target / _FILE)
        if calibration:
            shutil.copyfile(calibration, target / "calibration.json")
        digest = hashlib.sha256((target / _FILE).read_bytes()).hexdigest()
        card = _write_card(run, digest, tables, methods, bool(calibration))
        write_file(target / "README.md", card)
    return len(rows)


def _write_card(run: Run, digest: str, tables: str, methods: str, is_calibrated: bool) -> str:
    titles = [scheme.title or scheme.id for scheme in run.schemes.values()]
    files = [{"config_name": "default", "data_files": [{"split": "train", "path": _FILE}]}]
    head = {"pretty_name": f"Annotations: {'; '.join(titles)}", "configs": files}
    header = yaml.safe_dump(head, sort_keys=False, allow_unicode=True)
    calibration = "`calibration.json` compares the judge with people's labels."
    if not is_calibrated:
        calibration = "None: the judge's errors are not measured (`annotate calibrate`)."
    facts = {
        "run": run.id,
        "tool": run.manifest.tool or "-",
        "judge": run.judge,
        "judge with its settings, sha256": run.judge_sha256,
        "prompts, sha256": run.manifest.prompt_sha256 or "-",
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
        "Calibration": calibration,
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
