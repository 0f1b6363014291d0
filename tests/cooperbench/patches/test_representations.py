"""Conflicts of representation: the pairs, and what is shown of one."""

import pytest

from annotator.cooperbench.patches.diff import parse_patch
from annotator.cooperbench.patches.representations import Conflict, find_representation_conflicts
from tests.cooperbench.facts.diffs import checked, quotes, run
from tests.cooperbench.patches.pairs import PAIRS, Pair


def conflicts(pair: Pair, swapped: bool = False) -> list[Conflict]:
    sides = parse_patch(pair.ours), parse_patch(pair.theirs)
    return find_representation_conflicts(*(sides[::-1] if swapped else sides))


def mirrored(one: Conflict) -> Conflict:
    return Conflict(one.kind, one.path, one.scope, one.name, one.theirs, one.ours)


def names(found: list[Conflict]) -> set[tuple[str, str, str]]:
    return {(one.kind, one.scope, one.name) for one in found}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.title)
def test_pairs(pair):
    """Swapped patches give mirrored conflicts."""
    found = conflicts(pair)
    assert names(found) == pair.expected
    assert [mirrored(one) for one in found] == conflicts(pair, swapped=True)


def test_a_patch_has_no_conflict_with_an_empty_one_or_itself():
    nothing = parse_patch("")
    for pair in PAIRS:
        for patch in map(parse_patch, (pair.ours, pair.theirs)):
            assert not find_representation_conflicts(patch, nothing)
            assert not find_representation_conflicts(nothing, patch)
            assert not find_representation_conflicts(patch, patch)


def test_the_lines_of_a_use_are_added_by_its_patch_alone():
    for pair in PAIRS:
        sides = parse_patch(pair.ours), parse_patch(pair.theirs)
        added = [
            {line.text.strip() for file in side.files for hunk in file.hunks for line in hunk.lines
             if line.sign == "+"} for side in sides
        ]  # fmt: skip
        for found in conflicts(pair):
            for n, use in enumerate((found.ours, found.theirs)):
                assert use.says
                assert 1 <= len(use.lines) <= 4
                for line in use.lines:
                    assert sides[n].text[line.start : line.end] == "+" + line.text
                    assert line.text.strip() not in added[1 - n]


def test_what_the_fact_of_a_conflict_says_and_quotes():
    pair = next(pair for pair in PAIRS if pair.title.startswith("tuples against"))
    trace = run(patches={"a": pair.ours, "b": pair.theirs})
    [fact] = checked(trace, "representation_conflict")
    assert fact.says.startswith("History.events in app/core.py: ")
    for words in ("holds a tuple of 2 each", "holds a dict each"):
        assert words in fact.says
    assert fact.about["names"] == ["events", "History"]
    assert [quote.split()[1] for quote in quotes(trace, fact)] == [
        "self.events.append((kind,",
        'self.events.append({"kind":',
    ]


def test_many_hunks_have_one_conflict():
    hunk = "@@ -{0},0 +{0},2 @@ class A:\n+    def f{0}(self):\n+        self.x = {1}\n"
    texts = [
        "--- a/a.py\n+++ b/a.py\n" + "".join(hunk.format(n * 9 + 1, value) for n in range(3_000))
        for value in ("[]", "{}")
    ]
    [found] = find_representation_conflicts(*map(parse_patch, texts))
    assert found.kind == "shape"
    assert len(found.ours.lines) == 4
