"""Conflicts of representation: the pairs, what is shown of one, and what comes from strangers."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotator.cooperbench.patches.diff import Patch, parse_patch
from annotator.cooperbench.patches.representations import Conflict, find_representation_conflicts
from tests.cooperbench.patches.pairs import PAIRS, Pair


def conflicts(pair: Pair) -> list[Conflict]:
    return find_representation_conflicts(parse_patch(pair.ours), parse_patch(pair.theirs))


def names(found: list[Conflict]) -> set[tuple[str, str, str]]:
    return {(one.kind, one.scope, one.name) for one in found}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.title)
def test_pairs(pair: Pair) -> None:
    assert names(conflicts(pair)) == pair.expected


def test_a_patch_has_no_conflict_with_an_empty_one_or_itself() -> None:
    nothing = parse_patch("")
    for pair in PAIRS:
        for patch in map(parse_patch, (pair.ours, pair.theirs)):
            assert not find_representation_conflicts(patch, nothing)
            assert not find_representation_conflicts(nothing, patch)
            assert not find_representation_conflicts(patch, patch)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.title)
def test_swapped_patches_give_mirrored_conflicts(pair: Pair) -> None:
    ours, theirs = parse_patch(pair.ours), parse_patch(pair.theirs)
    assert [mirrored(one) for one in find_representation_conflicts(theirs, ours)] == (
        find_representation_conflicts(ours, theirs)
    )


def mirrored(one: Conflict) -> Conflict:
    return Conflict(one.kind, one.path, one.scope, one.name, one.theirs, one.ours)


def test_the_lines_of_a_use_are_added_by_its_patch_alone() -> None:
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


def test_what_a_conflict_says() -> None:
    [found] = conflicts(next(pair for pair in PAIRS if pair.title.startswith("tuples against")))
    assert (found.kind, found.path, found.scope, found.name) == (
        "element", "app/core.py", "History", "events",
    )  # fmt: skip
    assert found.ours.says == "holds a tuple of 2 each"
    assert found.theirs.says == "holds a dict each"
    assert [line.text.strip() for line in found.ours.lines] == ["self.events.append((kind, value))"]


def new_file(path: str, body: str) -> Patch:
    lines = body.split("\n")
    head = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n"
    return parse_patch(head + "".join(f"+{line}\n" for line in lines))


CLASS = "class A:\n    def __init__(self):\n        self.x = {}\n        "
HOSTILE = {
    "brackets": "(" * 1_900,
    "brackets over many lines": "(\n" * 4_000,
    "attributes": "y = a" + ".b" * 900,
    "a null byte": "y = '\x00'",
    "a lone surrogate": "y = '\ud800'",
    "deep blocks": "\n".join(" " * n + "if 1:" for n in range(8, 300)),
    "a long line": "y = " + "1, " * 500_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_source(text: str) -> None:
    ours, theirs = new_file("a.py", CLASS + text), new_file("a.py", CLASS.replace("{}", "[]"))
    for one, two in ((ours, theirs), (theirs, ours)):
        assert len(find_representation_conflicts(one, two)) <= 1


def test_many_hunks_are_read_in_part() -> None:
    hunk = "@@ -{0},0 +{0},2 @@ class A:\n+    def f{0}(self):\n+        self.x = {1}\n"
    texts = [
        "--- a/a.py\n+++ b/a.py\n" + "".join(hunk.format(n * 9 + 1, value) for n in range(3_000))
        for value in ("[]", "{}")
    ]
    [found] = find_representation_conflicts(*map(parse_patch, texts))
    assert found.kind == "shape"
    assert len(found.ours.lines) == 4


PIECES = st.sampled_from([
    "class A:", "class B(A):", "    def f(self, x):", "    def f(self):", "        self.x = []",
    "        self.x = {}", "        self.x.append(x)", "        self.y = x",
    "        return self.x", "        for a, b in self.x:", "            print(a)",
    "def g(a, b=1):", "    return 1, 2", '    """', "    )", "    else:", "@dataclass",
    "    z: int", "x = g(1)", "    a, b = g()", "        self.f(1, *x)", "", "\x00",
    "        [k for k in self.x.items()]", "(", "try:", "        raise NotImplementedError",
    "        self.x[k] += 1", "        return {k: v for k, v in self.x.items()}",
    "        self.x.extend((a, b) for a in x)", "        c = sorted(self.x, key=lambda e: e[0])",
    "        self.x: dict[str, list[int]] = {}", "        c, d = heappop(self.x)",
    "        yield x", "V = {}", "        V[x] = self", "@dataclass(frozen=True)",
    "class C(NamedTuple):", "        super().f(x)", "        cls(x)", "        x.z = 1",
    "        return C(x)", "        return x",
])  # fmt: skip
LINES = st.lists(st.tuples(st.sampled_from("++ -"), PIECES | st.text(max_size=12)), max_size=25)


def a_patch(lines: list[tuple[str, str]], section: str) -> Patch:
    text = "".join(sign + text.replace("\n", " ") + "\n" for sign, text in lines)
    counts = [sum(sign != one for sign, _ in lines) for one in "+-"]
    head = f"--- a/a.py\n+++ b/a.py\n@@ -5,{counts[0]} +5,{counts[1]} @@ {section}\n"
    return parse_patch(head + text)


@settings(max_examples=300)
@given(LINES, LINES, st.sampled_from(["", "class A:", "def f(", "x = 1"]))
def test_any_hunks(
    ours: list[tuple[str, str]], theirs: list[tuple[str, str]], section: str
) -> None:
    one, two = a_patch(ours, section), a_patch(theirs, section)
    found = find_representation_conflicts(one, two)
    assert [mirrored(x) for x in find_representation_conflicts(two, one)] == found
    assert find_representation_conflicts(one, one) == []


def test_many_names_take_linear_time() -> None:
    ours, theirs = (
        new_file("a.py", "\n".join(f"def {x}{n}(p): return {y}{n}(1, 2)" for n in range(4_000)))
        for x, y in ("fg", "gf")
    )
    before = time.process_time()
    assert len(find_representation_conflicts(ours, theirs)) == 8_000
    assert time.process_time() - before < 10
