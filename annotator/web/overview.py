"""The first page of a report: tables, and the facts of each run."""

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from annotator.base.text import sanitize_line
from annotator.reports.frequency import FrequencyTable, count_runs
from annotator.reports.tables.brief import list_marks, select_rows, write_summary
from annotator.reports.tables.frequency import (
    describe_critiques,
    describe_votes,
    explain_unjudged,
    sort_by_share,
    tabulate,
)
from annotator.rubrics import read_definitions
from annotator.rubrics.annotations import STATUSES
from annotator.runs.manifest import Manifest
from annotator.runs.run import Run, name_runs
from annotator.web.comparison import serialize_comparisons
from annotator.web.index import Index
from annotator.web.payload import serialize_share

if TYPE_CHECKING:
    from annotator.web.reading import PageRequest


def serialize_overview(pages: "PageRequest", index: Index) -> dict[str, Any]:
    """Return the manifests, codes and tables of runs; the cells are the same as in every format.

    Raises:
        AnnotatorError: as :func:`annotator.reports.frequency.count_runs`.
    """
    runs = pages.runs
    names = [sanitize_line(name, 120) for name in name_runs(runs)]
    numbers: dict[str | None, int] = {run.id: n for n, run in enumerate(runs)}
    judges = {run.judge for run in runs}
    title = names[0] if len(runs) == 1 else f"{len(runs)} runs"
    counted = count_runs(
        runs,
        pages.calibrations,
        transfer=pages.transfer,
        by=pages.by,
        cluster=pages.cluster,
        joint=pages.joint,
    )
    titles = [
        f"{name} ({sanitize_line(run.judge, 60)})" for name, run in zip(names, runs, strict=True)
    ]
    tables = [_serialize_table(table, numbers[table.run], titles) for table in counted]
    return {
        "title": f"{title}: {', '.join(sorted(sanitize_line(judge, 80) for judge in judges))}",
        "runs": [_serialize_run(name, run.manifest) for name, run in zip(names, runs, strict=True)],
        "codes": _serialize_codes(runs),
        "labelled": bool(pages.labels),
        "tables": tables,
        "comparisons": serialize_comparisons(pages, counted, index),
    }


def _serialize_run(name: str, manifest: Manifest) -> dict[str, Any]:
    statuses = ("annotations", *STATUSES)
    totals = {key: manifest.totals[key] for key in statuses if key in manifest.totals}
    facts = {
        "Run": manifest.id,
        "Judge": f"{manifest.judge.id} ({manifest.judge_sha256[:12]})",
        "Rubrics": ", ".join(
            f"{scheme.id} v{scheme.version} ({scheme.sha256[:12]})" for scheme in manifest.rubrics
        ),
        "Prompt": (manifest.prompt_sha256 or "none")[:12],
        "Status": manifest.status,
        "Annotations": ", ".join(f"{key} {count}" for key, count in totals.items()),
        "Sources": ", ".join(manifest.sources),
        "Command": manifest.command,
        "Started": manifest.started,
        "Ended": manifest.ended,
        "Tool": manifest.tool,
    }
    return {
        "name": name,
        "short": f"{name} ({sanitize_line(manifest.judge.id, 60)})",
        "facts": [(term, text or "-") for term, text in facts.items()],
    }


def _serialize_codes(runs: Sequence[Run]) -> dict[str, dict[str, Any]]:
    """Return each rubric's codes in order, with definitions if this version of it is built in."""
    codes_by_rubric: dict[str, dict[str, Any]] = {}
    for scheme in chain.from_iterable(run.manifest.rubrics for run in runs):
        definitions = read_definitions(scheme.id, scheme.sha256)
        codes = codes_by_rubric.setdefault(scheme.id, {})
        for code in scheme.codes:
            codes.setdefault(code.id, {"name": code.name, "definition": definitions.get(code.id)})
    return codes_by_rubric


def _serialize_table(counted: FrequencyTable, run: int, names: Sequence[str]) -> dict[str, Any]:
    """Return a table as ``annotate report`` prints it, and all columns as with ``-v``."""
    [full] = tabulate([counted])
    brief, table = full.brief or full, sort_by_share(counted)
    rows = select_rows(table) if table.judged else []
    first = list_marks(row.labels.mark for row in rows if row.labels)
    first += [note for note in brief.notes if note in full.notes]
    group = (
        f", {sanitize_line(table.group[0], 60)} = {sanitize_line(table.group[1], 120)}"
        if table.group
        else ""
    )
    return {
        "rubric": table.rubric,
        "run": run,
        "title": f"{table.rubric}{group}{f', {names[run]}' if len(names) > 1 else ''}",
        "sentence": write_summary(table),
        "header": list(brief.header),
        "group": table.group,
        "primary": table.choice == "primary",
        "corrected": table.correction is not None,
        "rows": [
            {
                "kind": row.kind,
                "code": row.code,
                "name": row.name,
                "count": row.count,
                "cells": list(cells[1:]),
                "share": serialize_share(row.share),
                "corrected": serialize_share(row.labels.corrected) if row.labels else None,
            }
            for row, cells in zip(rows, brief.rows, strict=False)
        ],
        "full": {"title": full.title, "header": full.header, "rows": full.rows if rows else []},
        "votes": describe_votes(table.votes) if table.votes else [],
        "critic": describe_critiques(table),
        "notes": first if rows else list(filter(None, explain_unjudged(table))),
        "more": [note for note in full.notes if note not in first] if rows else [],
    }
