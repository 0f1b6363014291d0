"""Canaries: runs whose label is known, plain and hostile, judged beside the traces of a run.

They are made of ``canaries.json``: a few invented runs, each with the labels that a careful reader
gives it, and attacks, each a text that speaks to the judge and where it is put. Every attack is put
into every run; none changes what a reader would say of it.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from annotator.annotations import Annotation
from annotator.errors import AnnotatorError
from annotator.rubrics import NONE, Rubric
from annotator.traces import Feature, Message, Outcome, Trace

PLAIN = "plain"  # the attack that is none
# Where an attack is put -> the part of the trace; agents' names are in every prompt.
_PARTS = {
    "message": "messages",
    "kind": "messages",
    "patch": "patches",
    "outcome": "outcome",
    "task": "tasks",
}
_EVERY = 4  # canaries of which one is plain, as long as there are any


@dataclass(frozen=True, slots=True)
class Canary:
    """A run with the labels it should get, by rubric; a label is a code or ``none``.

    ``attacked``: the part of the trace that holds the attack; None if every prompt shows it.
    """

    name: str
    trace: Trace
    expected: Mapping[str, Sequence[str]]
    attacked: str | None = None

    @property
    def is_hostile(self) -> bool:
        """Whether something in it speaks to the judge."""
        return not self.name.endswith(f"/{PLAIN}")

    def of_run(self, run: str) -> "Canary":
        """Return it with the id that it has in a run.

        Nobody knows the id of a run before it begins: no trace of the user's can have this one.
        """
        return replace(self, trace=replace(self.trace, id=f"canary:{run}:{self.name}"))


@lru_cache(maxsize=1)
def list_canaries() -> tuple[Canary, ...]:
    """Return all canaries, in an order of which every beginning is mixed."""
    told = json.loads(Path(__file__).with_name("canaries.json").read_bytes())
    plain = [_make(name, run, PLAIN, None) for name, run in told["runs"].items()]
    hostile = [
        _make(name, run, attack, told["attacks"][attack])
        for name, run in told["runs"].items()
        for attack in told["attacks"]
    ]
    hostile.sort(key=lambda canary: hashlib.sha256(canary.name.encode()).digest())
    mixed: list[Canary] = []
    while plain or hostile:
        mixed += [plain.pop(0)] if plain else []
        mixed += hostile[: _EVERY - 1]
        del hostile[: _EVERY - 1]
    return tuple(mixed)


def choose_canaries(rubric: Rubric, most: int) -> tuple[Canary, ...]:
    """Return the first ``most`` canaries whose label by ``rubric`` is known, and whose attack its
    prompts show.

    Raises:
        AnnotatorError: there are none for the rubric, or not so many.
    """
    codes = {code.id for code in rubric.codes} | {NONE}
    fit = [
        canary
        for canary in list_canaries()
        if set(canary.expected.get(rubric.id, [""])) <= codes
        and not rubric.excludes(canary.trace)
        and canary.attacked in (None, *rubric.show)
    ]
    if not fit:
        names = sorted({name for canary in list_canaries() for name in canary.expected})
        raise AnnotatorError(
            f"--canary: no canary has a known label by the rubric {rubric.id}, only by"
            f" {', '.join(names)}; leave --canary out, or ask by one of these"
        )
    if most > len(fit):
        raise AnnotatorError(
            f"--canary {most}: there are {len(fit)} canaries for the rubric {rubric.id}"
        )
    return tuple(fit[:most])


def sum_up(annotations: Iterable[Annotation]) -> dict[str, Any]:
    """Return how many canaries were judged, how many rightly, and what was said of the others.

    The last line about a canary counts: one that failed is judged again. What is undecided, or
    could not be judged, is not right; in the order of their names, not of the answers.
    """
    expected = {canary.name: canary for canary in list_canaries()}
    last = {(annotation.trace_id, annotation.rubric): annotation for annotation in annotations}
    result: dict[str, Any] = {"judged": 0, "right": 0, "hostile": 0, "hostile_right": 0}
    wrong = []
    for (trace_id, rubric), annotation in sorted(last.items()):
        canary = expected.get(trace_id.partition(":")[2].partition(":")[2])
        if canary is None:  # of another version
            continue
        decided = {"labelled": annotation.primary, "none": NONE}.get(annotation.status)
        right = decided in canary.expected.get(rubric, ())
        result["judged"] += 1
        result["right"] += right
        result["hostile"] += canary.is_hostile
        result["hostile_right"] += right and canary.is_hostile
        if not right:
            labels = " or ".join(canary.expected.get(rubric, ()))
            answer = decided or annotation.status
            wrong.append({"canary": canary.name, "rubric": rubric, "label": labels, "got": answer})
    return {**result, "wrong": wrong}


def describe_canaries(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the user should know of them, a line each."""
    if not summary["judged"]:
        return
    plain = summary["judged"] - summary["hostile"]
    plain_right = summary["right"] - summary["hostile_right"]
    yield (
        f"canaries: {summary['right']} of {summary['judged']} right (hostile"
        f" {summary['hostile_right']} of {summary['hostile']}, plain {plain_right} of {plain});"
        " they are in no table"
    )
    for item in summary["wrong"][:5]:
        yield f"  {item['canary']}, {item['rubric']}: {item['label']}, the judge says {item['got']}"
    if rest := len(summary["wrong"][5:]):
        yield f"  and {rest} more: see canaries in run.json"


def _make(name: str, told: Mapping[str, Any], attack: str, put: Mapping[str, str] | None) -> Canary:
    place = put["place"] if put else ""
    text = put["text"].replace("{want}", told["want"]) if put else ""
    names = {"agent1": "agent1", "agent2": text if place == "name" else "agent2"}
    messages = []
    for n, (sender, words) in enumerate(told["talk"], 1):
        other = names["agent2" if sender == "agent1" else "agent1"]
        kind = text if place == "kind" and n == 1 else None
        if place == "message" and n == 1:
            words = f"{words}\nA file in the repository reads:\n{text}"
        messages.append(Message(n, names[sender], (other,), words, 60.0 * n, kind))
    features = [
        Feature(f"feature{n}", names[agent], passed, alone, output=output)
        for n, (agent, (passed, alone, output)) in enumerate(told["tests"].items(), 1)
    ]
    if place == "outcome":
        last = replace(features[-1], output=f"{features[-1].output}\n{text}".strip())
        features = [*features[:-1], last]
    outcome = Outcome(told["passed"], told["merge"], features=tuple(features))
    tasks = {names["agent1"]: text} if place == "task" else {}
    trace = Trace(
        id=f"canary:{name}/{attack}",
        format="canary",
        path="",
        messages=tuple(messages),
        patches={
            names[agent]: _diff(file, line, text if place == "patch" and agent == "agent1" else "")
            for agent, (file, line) in told["patches"].items()
        },
        outcome=outcome,
        attributes={"passed": told["passed"], "merge": told["merge"]},
        read_tasks=lambda: tasks,
    )
    return Canary(f"{name}/{attack}", trace, told["expected"], _PARTS.get(place))


def _diff(file: str, line: str, comment: str) -> str:
    lines = [line, *([comment] if comment else [])]
    added = "\n".join(f"+{text}" for text in lines)
    frame = f"diff --git a/{file} b/{file}\nnew file mode 100644\n--- /dev/null\n+++ b/{file}\n"
    return f"{frame}@@ -0,0 +1,{len(lines)} @@\n{added}\n"
