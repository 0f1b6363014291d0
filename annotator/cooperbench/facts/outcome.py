"""Facts from the outcome: what failed, after the merge and alone, and the line that says why."""

import re
from collections.abc import Iterator, Mapping

from annotator.base.normalize import normalize_text
from annotator.base.text import sanitize_line
from annotator.cooperbench.facts.model import Fact, FactSpan
from annotator.cooperbench.facts.trace_facts import TraceFacts
from annotator.traces import Feature, Trace

KINDS: Mapping[str, str] = {
    "merge_result": "what merging the patches gave",
    "feature_failed": "a feature's tests fail after the merge",
    "feature_lost": "a feature's tests fail after the merge, and its patch alone passes them",
    "run_error": "the harness reports an error of the whole run",
    "agent_crashed": "the harness says that an agent did not finish",
}

MOST_OUTPUT = 400_000  # characters at the end of one test output that are read
LONGEST_LINE = 400  # characters of a line that are quoted
_NO_RANK = 4  # of a line that names no failure

_WORD = re.compile(r"\w+")
_LINE_END = re.compile("[\n\r\x85\u2028\u2029]")


def draw_outcome(facts: TraceFacts) -> Iterator[Fact]:
    """Yield the harness's reports: the merge, crashes, then feature by feature."""
    trace = facts.trace
    places = _locate_texts(trace)
    if trace.outcome.merge:
        merge = sanitize_line(trace.outcome.merge, 60)
        about = {"merge": trace.outcome.merge, "strategy": trace.outcome.strategy}
        word = (FactSpan("outcome", 0, len(trace.outcome.merge)),)
        quotable = trace.outcome.merge == trace.outcome.merge.strip() and "\n" not in merge
        says = f"Merging the patches: {merge}."
        yield Fact("merge_result", says, (), word if quotable else (), about)
    if trace.outcome.error:
        says = f"The run ended with an error: {sanitize_line(trace.outcome.error, 160)}."
        error_spans = _find_line(trace.outcome.error, places[("error", 0)], error=True)
        yield Fact("run_error", says, (), error_spans, {})
    for number, end in enumerate(trace.outcome.agents):
        if end.crashed:
            says = (
                f"{sanitize_line(end.agent, 60)} did not finish:"
                f" {sanitize_line(end.status or 'error', 60)}."
            )
            spans = _find_line(end.error or "", places.get(("agent", number), 0), error=True)
            yield Fact("agent_crashed", says, (end.agent,), spans, {"status": end.status})
    for number, feature in enumerate(trace.outcome.features):
        yield from _find_feature_facts(feature, places.get(("output", number), 0))


def _locate_texts(trace: Trace) -> dict[tuple[str, int], int]:
    """Return where in the text of ``outcome`` each agent's error and feature's output begins."""
    outcome = trace.outcome
    pieces: list[tuple[tuple[str, int], str | None]] = [
        (("merge", 0), outcome.merge),
        (("error", 0), outcome.error),
        *((("agent", n), end.error) for n, end in enumerate(outcome.agents)),
        *((("output", n), feature.output) for n, feature in enumerate(outcome.features)),
    ]
    places, at = {}, 0
    for key, text in pieces:
        if text:
            places[key] = at
            at += len(text) + 1
    return places


def _find_feature_facts(feature: Feature, start: int) -> Iterator[Fact]:
    agents = (feature.agent,) if feature.agent else ()
    if feature.passed is not False:
        return
    name = sanitize_line(feature.name, 60)
    about = {"feature": feature.name, "passed_alone": feature.passed_alone}
    spans = _find_line(feature.output, start)
    if feature.passed_alone:
        says = f"Feature {name} fails after the merge, and passes with its patch alone."
        yield Fact("feature_lost", says, agents, spans, about)
    else:
        alone = "fails alone too" if feature.passed_alone is False else "alone it is not known"
        says = f"Feature {name} fails after the merge; {alone}."
        yield Fact("feature_failed", says, agents, spans, about)


def _split_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are read, each with where it begins; a cut first line is left out."""
    at = 0
    if len(text) > MOST_OUTPUT:
        at = text.find("\n", len(text) - MOST_OUTPUT) + 1
        if not at:
            return
    for line in _LINE_END.split(text[at:]):
        yield at, line
        at += len(line) + 1


def _find_line(text: str, start: int, *, error: bool = False) -> tuple[FactSpan, ...]:
    """Return the line that says most: a failed test before a bare error; of an ``error``, any."""
    best: tuple[int, FactSpan] | None = None
    for at, line in _split_lines(text):
        rank = _rank_line(normalize_text(line).text)
        if rank < (best[0] if best else _NO_RANK + error) and (
            span := _locate_line(line, start + at)
        ):
            best = rank, span
    return (best[1],) if best else ()


def _locate_line(line: str, at: int) -> FactSpan | None:
    """Return the span of a stripped line, cut at a blank if it is long; None below two words."""
    lead = len(line) - len(line.lstrip())
    text = line.strip()
    if len(text) > LONGEST_LINE:
        text = text[: max(text.rfind(" ", 0, LONGEST_LINE), 0)].rstrip()
    if len(_WORD.findall(text)) < 2:
        return None
    return FactSpan("outcome", at + lead, at + lead + len(text))


def _rank_line(line: str) -> int:
    if line.startswith("FAILED "):
        return 0
    if line.startswith(("E   ", "--- FAIL")):
        return 1
    if line.startswith(("ERROR ", "FAIL ", "panic:", "error:")):
        return 2
    begin = line[:LONGEST_LINE]
    return 3 if "Error: " in begin or "Exception: " in begin else _NO_RANK
