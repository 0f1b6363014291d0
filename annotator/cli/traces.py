"""``annotate traces``."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from annotator.base.errors import AnnotatorError, UnreadableTrace
from annotator.base.text import (
    dump_json,
    escape_controls,
    format_count,
    list_first,
    sanitize_line,
    wrap_line,
    wrap_lines,
)
from annotator.cli.options import add_option, add_reader_options
from annotator.cli.output import name_sources, say, say_next
from annotator.reports.digits import format_number
from annotator.reports.notes import describe_fallbacks
from annotator.traces import Ignored, Trace, Unreadable, read_traces
from annotator.traces.discover import preview_files
from annotator.traces.model import CONFLICT, NOTHING, UNKNOWN, count_own_steps
from annotator.traces.read import ProblemKinds, check_source

_GENERIC = "format generic, which needs no map; a map like it:"
_OUTCOME = {True: "passed", False: "failed", None: UNKNOWN}
_GROUPS = ("formats", "settings", "outcomes", "merges")
_NUMBERS = ("messages", "most_messages", "without_messages", "steps", "own_steps")
_PROBLEMS = 8  # kinds that are printed without -v


class _Summary:
    """Counts of the traces, as JSON has them, and ``teams``: of several agents with messages.

    ``fallbacks``: by strategy, those that passed after a conflict.
    """

    def __init__(self) -> None:
        self.groups = {name: Counter[str]() for name in _GROUPS}
        self.numbers = Counter[str]()
        self.attributes: dict[str, set[int]] = {}  # hashes of their values
        self.fallbacks = Counter[str]()
        self.rules = Counter[str]()  # of the outcomes, in words of the record
        self.teams = 0

    def add(self, trace: Trace) -> None:
        setting = str(trace.attributes.get("setting") or "-")
        values = (trace.format, setting, _OUTCOME[trace.outcome.passed], _name_merge(trace))
        for counts, value in zip(self.groups.values(), values, strict=True):
            counts[value] += 1
        if trace.merge_state == CONFLICT and trace.outcome.passed:
            self.fallbacks[trace.outcome.strategy or "not recorded"] += 1
        if rule := trace.attributes.get("outcome_rule"):
            self.rules[str(rule)] += 1
        for name, value in trace.attributes.items():
            if value is not None:
                self.attributes.setdefault(name, set()).add(hash(str(value)))
        numbers, size = self.numbers, len(trace.messages)
        numbers["messages"] += size
        numbers["most_messages"] = max(numbers["most_messages"], size)
        numbers["without_messages"] += not size
        self.teams += len(trace.agents) > 1 and bool(size)

    def as_dict(self) -> dict[str, Any]:
        return {
            "traces": self.groups["formats"].total(),
            **{name: self.numbers[name] for name in ("unreadable", "ignored")},
            **{name: dict(counts) for name, counts in self.groups.items()},
            "attributes": {name: len(values) for name, values in self.attributes.items()},
            **{name: self.numbers[name] for name in _NUMBERS},
        }


@click.command("traces")
@click.argument("traces", nargs=-1, required=True)
@add_reader_options("Read everything as this format. PLUGIN: an installed one, or module:name.")
@add_option("--list", "Also print one line per trace.", name="listed")
@add_option("--explain", "Print the format of each file, or a map that may read it.")
@add_option("-v,--verbose", "Print every kind of problem.")
@add_option("--json", "Print JSON lines; the summary is the last.", name="as_json")
def command(
    traces: tuple[str, ...], format_: str, listed: bool, explain: bool, verbose: bool, as_json: bool
) -> None:
    """Count the traces in TRACES (folders, files, globs, URLs, hf://org/name[:split]), and list
    their problems.

    It reads all files in full, trajectories too. Exit code 1 if a trace cannot be read.
    """
    if explain:
        for source in traces:
            check_source(source)
        for line in _explain(traces, format_):
            say(line)
        return
    summary, kinds = _Summary(), ProblemKinds()
    for item in read_traces(traces, format_):
        problems = list(_list_problems(item, summary))
        if isinstance(item, Trace):
            summary.add(item)
        if as_json:
            lines = [dump_json(_describe(item, problems))]
            lines = lines if listed or problems else []
        else:
            lines = [_render_line(item)] if listed and isinstance(item, Trace) else []
            for problem in problems:
                name = sanitize_line(_name_item(item, traces), 200)
                kinds.add(name, sanitize_line(problem))
        if not all(say(line) for line in lines):
            return  # nobody reads any more
    if as_json:
        say(dump_json({"summary": summary.as_dict()}))
    else:
        parts = [_render_problems(kinds, verbose=verbose)] if kinds else []
        text = "\n\n".join([*parts, _render_summary(summary)])
        say(f"\n{text}" if listed else text)
    if not summary.groups["formats"]:
        raise AnnotatorError(f"no traces in {', '.join(traces)}")
    if format_ == "auto" and not as_json:
        rubric = "symptoms" if summary.teams else "agentrx"
        say_next("run", *name_sources(traces), "--rubric", rubric, purpose="judge them")
    if summary.numbers["unreadable"]:
        raise SystemExit(1)


def _explain(traces: tuple[str, ...], format_: str) -> Iterator[str]:
    """Yield a line for the files of each format, and a likely map for files of no format. All else
    is a comment then, so that the whole can be given as ``--map``.
    """
    from annotator.traces.suggest import suggest_map

    files: dict[tuple[str, str], list[str]] = {}
    for path, reader, document in preview_files(traces, format_):
        text, map_text = f"format {reader}", ""
        if isinstance(document, UnreadableTrace):
            text = f"unreadable: {_drop_name(path, str(document))}"
        elif reader is None:
            text, map_text = "no format; a map that may read it:", suggest_map(document)
        elif reader == "generic":
            text, map_text = _GENERIC, suggest_map(document)
        key = escape_controls(text), escape_controls(map_text)
        files.setdefault(key, []).append(_name_path(path, traces))
    readable = [key for key in files if key[0] == _GENERIC]
    if len(readable) > 1:  # nobody maps files of several kinds that are read as they are
        files["format generic", ""] = [path for key in readable for path in files.pop(key)]
    mark = "# " if any(map_text for _, map_text in files) else ""
    has_map = False
    for (text, map_text), paths in files.items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        yield f"{mark}{sanitize_line(paths[0], 200)}{more}: {text}"
        if map_text:
            lines = map_text.split("\n")
            yield "\n".join(f"# {line}" for line in lines) if has_map else map_text
            has_map = True
    if not files:
        yield "nothing in it can be read as JSON, a table or a run folder: see annotate traces"


def _list_problems(item: Trace | Unreadable | Ignored, summary: _Summary) -> Iterator[str]:
    if isinstance(item, Unreadable):
        summary.numbers["unreadable"] += 1
        yield f"unreadable: {_drop_name(item.path, item.reason)}"
    elif isinstance(item, Ignored):
        summary.numbers["ignored"] += 1
        yield f"ignored: {item.reason}"
    else:
        yield from item.problems
        try:
            summary.numbers["steps"] += sum(len(steps) for steps in item.steps.values())
            summary.numbers["own_steps"] += sum(map(count_own_steps, item.steps.values()))
        except UnreadableTrace as error:
            yield f"steps cannot be read: {error}"


def _drop_name(path: str, reason: str) -> str:
    """Return a reason without the name of its file, and the line, that the path says."""
    name = re.sub(r":\d+$", "", Path(path).name)
    return re.sub(rf"^{re.escape(name)}(, line \d+)?: ", "", reason)


def _name_item(item: Trace | Unreadable | Ignored, sources: Sequence[str]) -> str:
    path = _name_path(item.path, sources)
    if isinstance(item, Ignored) or item.path.endswith(item.id):
        return path
    return f"{item.id} ({path})"


def _name_path(path: str, sources: Sequence[str]) -> str:
    """Return a path as the user named its source: relative if no source is absolute or a URL."""
    is_named_so = any(Path(source).is_absolute() or "://" in source for source in sources)
    return path if is_named_so else os.path.relpath(path)


def _name_merge(trace: Trace) -> str:
    """Return the harness's word for the merge; it calls that of an empty patch "clean"."""
    word = trace.outcome.merge
    return "-" if not word else NOTHING if trace.merge_state == NOTHING else word


def _render_line(trace: Trace) -> str:
    outcome, merge = _OUTCOME[trace.outcome.passed], _name_merge(trace)
    return (
        f"{sanitize_line(trace.id, 200)}  {trace.format}  {len(trace.agents)} agents"
        f"  {len(trace.messages)} messages  {outcome}  merge {sanitize_line(merge, 40)}"
    )


def _describe(item: Trace | Unreadable | Ignored, problems: list[str]) -> dict[str, Any]:
    if not isinstance(item, Trace):
        return {"path": item.path, "problems": problems}
    return {
        "trace_id": item.id,
        "path": item.path,
        "format": item.format,
        "agents": list(item.agents),
        "messages": len(item.messages),
        "attributes": dict(item.attributes),
        "problems": problems,
    }


def _render_summary(summary: _Summary) -> str:
    """Return a sentence and what was counted, in 80 columns."""
    fields = summary.as_dict()
    total = fields["traces"]
    parts = [f"{format_count(total, 'trace')} can be read"]
    left = {"cannot be read": fields["unreadable"], "ignored (no trace)": fields["ignored"]}
    head = "; ".join(parts + [f"{n} {why}" for why, n in left.items() if n])
    if not total:
        return f"{head}."
    counts = {}
    for name, group in summary.groups.items():
        pairs = [(UNKNOWN if key == "-" else key, n) for key, n in group.most_common()]
        counts[name] = ", ".join(f"{sanitize_line(key, 60)} {n}" for key, n in pairs)
    counts["messages"] = (
        f"{fields['messages']} ({format_number(fields['messages'] / total, 1)} a trace, at most"
        f" {fields['most_messages']}; {fields['without_messages']} traces without)"
    )
    if summary.rules:
        rules = [f"{sanitize_line(rule, 60)} ({n})" for rule, n in summary.rules.most_common()]
        counts["outcomes"] += f"; by {list_first(rules, 6)}"
    if summary.fallbacks:
        counts["merges"] += f"; {describe_fallbacks(summary.fallbacks)}"
    counts["steps"] = str(fields["steps"])
    if 0 < fields["own_steps"] < fields["steps"]:
        counts["steps"] += f", of them {fields['own_steps']} of the agents (calls, else texts)"
    values = sorted(fields["attributes"].items(), key=lambda item: item[1])
    texts = (f"{sanitize_line(name, 60)} ({format_count(n, 'value')})" for name, n in values)
    counts["for --by"] = ", ".join(texts)
    lines = [wrap_line(f"  {name:10}{text}", " " * 12) for name, text in counts.items() if text]
    return "\n".join([f"{head}.", *lines])


def _render_problems(kinds: ProblemKinds, *, verbose: bool) -> str:
    """Return the problems, a paragraph for each kind, in 80 columns; a few unless ``verbose``."""
    lines = sorted(kinds, key=lambda line: (": ignored: " in line, ": unreadable: " not in line))
    printed = lines if verbose else lines[:_PROBLEMS]
    more = format_count(len(lines) - len(printed), "more kind")
    parts = [wrap_lines(f"  {line}") for line in printed]
    return "\n".join(
        ["problems:", *parts, *([f"  {more} of problems: -v"] if lines[len(printed) :] else [])]
    )
