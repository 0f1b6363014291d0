"""What agents say of their own work, held against the patch that each handed in."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice

from annotator.facts.known import Known
from annotator.facts.model import Fact, name_of
from annotator.facts.patches import passage
from annotator.facts.phrases import hedge_in
from annotator.facts.prose import span_of
from annotator.facts.sides import Side, sentences, sides_of
from annotator.patches.diff import File, same_path
from annotator.text import one_line

KINDS: Mapping[str, str] = {
    "untouched_refuted": "an agent says that it left a file alone, and its patch changes it",
    "promise_broken": "an agent promises to leave a file alone, and its patch changes it",
    "name_not_in_patch": "an agent says that a name is in place, and its patch only removes it",
}

# "limit now = 3", "limit() now returns a list"
_NOW = re.compile(
    r"(?<![\w.])([A-Za-z_][A-Za-z0-9_]{2,99})(\(\))? (?:is )?now (?:=|equals?\b|uses?\b|returns?\b"
    r"|defaults?\b)"
)
_MOST_NAMES = 20  # names of one sentence that are looked at


def facts(known: Known) -> Iterator[Fact]:
    """Yield what each agent's patch says of its words."""
    if not known.messages:
        return
    sides = sides_of(known)
    yield from _untouched(known, sides)
    yield from _names(known, sides)


def _untouched(known: Known, sides: Mapping[str, Side]) -> Iterator[Fact]:
    """Yield what was to be left alone, or is said to be, and was not: whole files by name.

    A name that fits several files of the patches says too little. What is changed after it was said
    makes nothing false: no claim counts whose sender names the file as changed later on.
    """
    every = {file.path for side in sides.values() for file in side.patch.files}
    for one in known.of("assurance"):
        agent, message = one.agents[0], one.about["message"]
        if agent not in sides or one.about["hedged"]:
            continue
        for name in one.about.get("alone", ()):
            if sum(same_path(name, path) for path in every) != 1:
                continue
            later = any(
                claim.agents[0] == agent
                and claim.about["message"] > message
                and any(same_path(name, other) for other in claim.about["files"])
                for claim in known.of("completion_claim")
            )
            if found := _changed(sides[agent], name, one.about["tense"], later):
                file, kind, what = found
                says = (
                    f"{name_of(agent)} {what} {one_line(name, 200)} in message {message}; its "
                    "patch changes it."
                )
                hunk = file.hunks[0]
                lines = [line for line in hunk.lines if line.sign != " "]
                shown = passage(f"patch:{agent}", sides[agent].patch.text, lines, hunk)
                details = {"message": message, "path": file.path}
                yield Fact(kind, says, (agent,), (one.spans[0], shown), details)


def _changed(side: Side, name: str, tense: str, later: bool) -> tuple[File, str, str] | None:
    """Return the file that a patch changes though it was to be left alone, and what that is."""
    file = next((x for x in side.patch.files if x.hunks and name and _names_file(name, x)), None)
    if file is None:
        return None
    if tense == "future":
        return file, "promise_broken", "promises not to change"
    return None if later else (file, "untouched_refuted", "says that it did not change")


def _names_file(name: str, file: File) -> bool:
    return same_path(name, file.path) or same_path(name, file.old_path)


def _names(known: Known, sides: Mapping[str, Side]) -> Iterator[Fact]:
    """Yield the names that are said to be something now, and that the patch only removes."""
    for said, sentence in sentences(known):
        side = sides.get(said.sender)
        if side is None or " now " not in sentence.low or sentence.asks is not None:
            continue
        if "your" in sentence.words or side.patch.unread:
            continue
        for match in islice(_NOW.finditer(sentence.text), _MOST_NAMES):
            name = match.group(1)
            line = side.only_removed.get(name)
            coded = match.group(2) or "_" in name or "=" in match.group()
            if line is None or not coded or hedge_in(sentence, 0, match.end()):
                continue
            says = (
                f"{name_of(said.sender)} says in message {said.n} what {name} is now; its patch "
                "removes that name."
            )
            spans = (span_of(said, sentence, match.start()), side.span([line]))
            details = {"message": said.n, "name": name}
            yield Fact("name_not_in_patch", says, (said.sender,), spans, details)
