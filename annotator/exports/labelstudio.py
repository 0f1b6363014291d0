"""Tasks for Label Studio: traces to label, without the judge's codes, and the page to label them.

``annotate labels`` and ``annotate calibrate`` read its JSON export.
"""

# labelstud.io/guide/tasks, "Basic Label Studio JSON format", and labelstud.io/tags (1.x): an alias
# replaces the value of a choice in the result.

from collections.abc import Iterator
from html import escape
from itertools import chain
from pathlib import Path
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.files import NewFile, write_file
from annotator.base.text import dump_json, sanitize_line
from annotator.calibration.sample.design import list_trace_ids
from annotator.labels.answers import BESIDE
from annotator.labels.blinding import blind, make_unblind
from annotator.labels.queue import Item, read_sheet
from annotator.prompts.parts import split_trace
from annotator.rubrics import NONE, Rubric
from annotator.rubrics.annotations import ANSWERED
from annotator.runs.run import Run
from annotator.traces import Trace
from annotator.traces.read import Library
from annotator.traces.redaction import redact


def write_tasks(
    run: Run, rubric: Rubric, file: Path, sheet: Path | None = None, rater: int = 1
) -> int:
    """Write a task for each trace into ``file``, and the labelling configuration beside it, as
    ``.xml``. Return the number of tasks.

    Args:
        run: which judged the traces.
        rubric: whose codes people choose from.
        file: is replaced.
        sheet: of ``annotate sample``, whose traces these are, in its order; else all judged ones.
        rater: of a sheet: the rows for the first or the second person.

    Raises:
        AnnotatorError: the sheet cannot be read, the run is by another rubric, or a trace is not
            where the run read it; or a name is taken.
    """
    run.scheme(rubric.id)  # else it raises
    page, page_file = make_page(rubric), file.with_suffix(".xml")
    if file == page_file:
        raise AnnotatorError(f"{file}: the tasks are JSON, and the page gets this name; use .json")
    items = read_sheet(sheet, rubric, rater) if sheet else list(_list_judged(run, rubric))
    sampled = list_trace_ids(None, rubric.id, None, [sheet]) if sheet else ()
    unblind = make_unblind(chain(sampled, (x.trace_id for x in run.annotations(rubric.id))))
    library = Library(run.manifest.sources, run.manifest.format)
    with NewFile(file, private=True) as out:
        out.write(b"[")
        for n, item in enumerate(items):
            trace = library.trace(unblind(item.trace_id))
            if not isinstance(trace, Trace):
                reason = f": {trace.reason}" if trace else ": the run's folders have no such trace"
                raise AnnotatorError(f"{sanitize_line(unblind(item.trace_id), 200)}{reason}")
            seen = redact(trace) if run.manifest.redaction else trace
            task = {"data": _make_data(item, seen, rubric)}
            out.write(f"{',' if n else ''}\n{dump_json(task)}".encode())
        out.write(b"\n]\n")
    write_file(page_file, page)
    return len(items)


def _list_judged(run: Run, rubric: Rubric) -> Iterator[Item]:
    """Yield the judged traces in the order of their blinded ids, which tells nothing of them."""
    judged = (x.trace_id for x in run.annotations(rubric.id) if x.status in ANSWERED)
    for trace_id in sorted(map(blind, judged)):
        yield Item(trace_id)


def _make_data(item: Item, trace: Trace, rubric: Rubric) -> dict[str, Any]:
    drawing = {name: value for name, value in item.extra.items() if name not in ("order", "rater")}
    parts = [
        f"--- {section.header} ---\n{section.text}"
        for section in split_trace(trace, rubric, facts=False)
    ]
    ids = {"trace_id": item.trace_id, "rubric": rubric.id, "rubric_sha256": rubric.sha256}
    return ids | drawing | {"text": "\n\n".join(parts)}


def make_page(rubric: Rubric) -> str:
    """Return the labelling configuration: the text, the codes, and places for quotes and a note.

    Raises:
        AnnotatorError: a rubric with many codes has the name of another field.
    """
    choices = [
        f"    <Choice value={_quote(code.name)} alias={_quote(code.id)}"
        f" hint={_quote(code.definition)}/>"
        for code in rubric.codes
    ]
    none = f'    <Choice value="None of these" alias="{NONE}"/>'
    questions = [("primary", "single", [*choices, none])]
    if rubric.choice == "primary":
        questions.append(("secondary", "multiple", choices))
    if rubric.choice == "many":
        if rubric.id in (*BESIDE, "text", "secondary"):
            raise AnnotatorError(f"rubric {rubric.id!r}: another field of the page has this name")
        questions = [(rubric.id, "multiple", [*choices, none])]
    lines = ["<View>", f"  <Header value={_quote(rubric.title)}/>"]
    lines += ['  <Labels name="evidence" toName="text">', '    <Label value="evidence"/>']
    lines += ["  </Labels>", '  <Text name="text" value="$text"/>']
    for name, choice, options in questions:
        required = ' required="true"' if name != "secondary" else ""
        lines.append(f"  <Header value={_quote(name)}/>")
        lines.append(f'  <Choices name={_quote(name)} toName="text" choice="{choice}"{required}>')
        lines += [*options, "  </Choices>"]
    lines += ['  <TextArea name="note" toName="text" placeholder="note"/>']
    lines += ['  <Header value="confidence"/>', '  <Rating name="confidence" toName="text"/>']
    lines += ['  <Collapse><Panel value="What the codes mean"><View>']
    lines += [
        f'    <Header size="5" value={_quote(f"{code.name}: {code.definition}")}/>'
        for code in rubric.codes
    ]
    return "\n".join([*lines, "  </View></Panel></Collapse>", "</View>", ""])


def _quote(text: str) -> str:
    return f'"{escape(sanitize_line(text, len(text) + 1))}"'
