"""The files and hunks of patches, and where two patches meet."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotator.evidence import spans_in
from annotator.facts import conflicts, patches, symbols
from annotator.facts.patches import KINDS, parse_patch, same_path
from annotator.facts.registry import know
from annotator.traces import Source
from tests.facts.diffs import HEAD, change, checked, trace
from tests.growth import FACTOR, LIMIT, growth, parts

GIT = "diff --git a/{0} b/{1}\n"
FILES = {
    "changed": (HEAD.format("x.py") + "@@ -1 +1 @@\n-a = 1\n+a = 2\n", ("x.py", "x.py", "")),
    "git": (GIT.format("x.py", "x.py") + "index 1..2 100644\n" + change(" a", "x.py"),
            ("x.py", "x.py", "")),
    "new": ("--- /dev/null\n+++ b/x.py\n@@ -0,0 +1 @@\n+a\n", ("x.py", "x.py", "new")),
    "new, empty": (GIT.format("x.py", "x.py") + "new file mode 100644\n", ("x.py", "x.py", "new")),
    "deleted": ("--- a/x.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", ("x.py", "x.py", "deleted")),
    "renamed": (GIT.format("a/x.py", "b/y.py") + "similarity index 100%\nrename from a/x.py\n"
                "rename to b/y.py\n", ("b/y.py", "a/x.py", "renamed")),
    "copied": (GIT.format("x.py", "y.py") + "copy from x.py\ncopy to y.py\n",
               ("y.py", "x.py", "")),
    "binary": (GIT.format("x.png", "x.png") + "Binary files a/x.png and b/x.png differ\n",
               ("x.png", "x.png", "binary")),
    "binary, plain": ("Binary files a/x.png and b/x.png differ\n", ("x.png", "x.png", "binary")),
    "binary, git": (GIT.format("x.png", "x.png") + "GIT binary patch\nliteral 10\nzc$@-\n\n",
                    ("x.png", "x.png", "binary")),
    "blanks": (GIT.format("a b.py", "a b.py") + "new mode 100755\n", ("a b.py", "a b.py", "")),
    "quoted": ('--- "a/caf\\303\\251.py"\n+++ "b/caf\\303\\251.py"\n@@ -1 +1 @@\n-a\n+b\n',
               ("café.py", "café.py", "")),
    "times": ("--- x.py\t2020-01-01\n+++ x.py\t2020-01-02\n@@ -1 +1 @@\n-a\n+b\n",
              ("x.py", "x.py", "")),
    "windows": ("--- a/x.py\r\n+++ b/x.py\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n", ("x.py", "x.py", "")),
    "no name": ("@@ -1 +1 @@\n-a\n+b\n", ("", "", "")),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), FILES.values(), ids=FILES)
def test_files(text, expected):
    (file,) = parse_patch(text).files
    flags = [name for name in ("new", "deleted", "renamed", "binary") if getattr(file, name)]
    assert (file.path, file.old_path, " ".join(flags)) == expected
    checked(trace(text))


def test_lines_have_numbers_and_offsets():
    text = change(" one\n-two\n+TWO\n+2.5\n three", at=7)
    (hunk,) = parse_patch(text).files[0].hunks
    assert [(line.sign, line.text, line.old, line.new) for line in hunk.lines] == [
        (" ", "one", 7, 7),
        ("-", "two", 8, 8),
        ("+", "TWO", 9, 8),
        ("+", "2.5", 9, 9),
        (" ", "three", 9, 10),
    ]
    assert [text[line.start : line.end] for line in hunk.lines][1] == "-two"
    assert text[hunk.start : hunk.end] == "@@ -7,3 +7,4 @@"
    assert [(edit.start, edit.end, len(edit.lines)) for edit in hunk.edits()] == [(8, 9, 3)]


MALFORMED = {
    "too short": HEAD.format("a.py") + "@@ -1,9 +1,9 @@\n-a\n+b\n" + change("+x", "b.py"),
    "too long": HEAD.format("a.py") + "@@ -1 +1 @@\n-a\n+b\n+c\n c\n" + change("+x", "b.py"),
    "no such header": HEAD.format("a.py") + "@@ nonsense @@\n-a\n" + change("+x", "b.py"),
    "combined": "diff --cc a.py\n--- a/a.py\n+++ b/a.py\n@@@ -1 -1 +1 @@@\n++a\n"
    + change("+x", "b.py"),
    "prose between": change("+a", "a.py") + "That was it.\n\n" + change("+x", "b.py"),
    "signature": change("+a", "a.py") + "-- \n2.39.2\n\n" + change("+x", "b.py"),
    "removed dashes": change("--- x\n+++ y\n a", "a.py") + change("+x", "b.py"),
    "no newline": change("-a\n\\ No newline at end of file\n+b", "a.py") + change("+x", "b.py"),
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_part_does_not_lose_the_rest(text):
    files = parse_patch(text).files
    assert [file.path for file in files] == ["a.py", "b.py"]
    assert [line.text for line in files[1].hunks[0].lines] == ["x"]
    checked(trace(text))


def facts_of(one):
    return know(one).of(*KINDS, "not_read")


def test_malformed_hunks_are_told():
    kinds = [fact.kind for fact in checked(trace(MALFORMED["too short"]), [patches])]
    assert kinds == ["patch_file", "patch_malformed", "patch_file"]
    found = facts_of(trace(MALFORMED["no such header"]))
    said = [fact for fact in found if fact.kind == "not_read"]
    assert [fact.about["characters"] for fact in said] == [len("@@ nonsense @@\n-a\n")]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("shop/parser.py", True),
        ("parser.py", True),
        ("./shop/parser.py", True),
        ("/srv/repo/shop/parser.py", True),
        ("arser.py", False),
        ("shop", False),
        ("", False),
    ],
)
def test_one_file_may_have_several_names(path, expected):
    assert same_path(path, "shop/parser.py") is same_path("shop/parser.py", path) is expected


MEETINGS = {
    "same line": ("-a\n+b\n c", "-a\n+d\n c", "hunks_overlap", False),
    "same text": ("-a\n+b\n c", "-a\n+b\n c", "hunks_overlap", True),
    "both insert": (" a\n+b\n c", " a\n+d\n c", "hunks_overlap", False),
    "insert inside": ("-a\n-b\n c", " a\n+x\n b\n c", "hunks_overlap", False),
    "one after the other": ("-a\n+b\n c", " a\n-c\n+d", "hunks_adjoin", False),
    "insert behind": ("-a\n+b\n c", " a\n+x\n c", "hunks_adjoin", False),
    "apart": ("-a\n+x\n b\n c", " a\n b\n-c\n+y", None, False),
}


@pytest.mark.parametrize(("one", "two", "kind", "same"), MEETINGS.values(), ids=MEETINGS)
def test_meetings(one, two, kind, same):
    found = checked(trace(change(one), change(two)), [patches])
    met = [fact for fact in found if fact.kind.startswith("hunks")]
    assert [fact.kind for fact in met] == ([kind] if kind else [])
    for fact in met:
        assert fact.agents == ("agent1", "agent2")
        assert fact.about["same"] is same
        assert [span.source for span in fact.spans] == ["patch:agent1", "patch:agent2"]


def test_other_files_do_not_meet_and_both_may_create_one():
    assert not [f for f in facts_of(trace(change("+a"), change("+a", "b.py"))) if "hunks" in f.kind]
    new = "--- /dev/null\n+++ b/x.py\n@@ -0,0 +1 @@\n+a = 1\n"
    (fact,) = [f for f in facts_of(trace(new, new)) if "hunks" in f.kind]
    assert fact.kind == "hunks_overlap"


def test_sentences():
    text = FILES["renamed"][0] + FILES["binary"][0]
    says = [fact.says for fact in checked(trace(text, " \n"), [patches])]
    assert says == [
        "agent1's patch renames a/x.py to b/y.py: 0 lines added, 0 removed, in 0 hunks.",
        "agent1's patch changes x.png, a binary file.",
        "agent2 handed in an empty patch.",
    ]


@cache
def hostile(part):
    """Patches, what is long in each one part in so many of the whole."""
    n = 100_000 // part
    long = "x" * n
    huge = 10**9 // part**3  # what counts to a number that stands there takes far too long
    return {
        "ten megabytes": change("+a = 1\n+def f(x): pass\n" * (2 * n) + "+b"),
        "half a million lines": HEAD.format("x.py")
        + f"@@ -0,0 +1,{5 * n} @@\n"
        + "+x = 1\n" * 5 * n,
        "a long line": change(f"+{long * 20}"),
        "repeated letters": change(f"+{long}\n+def {long}({long}):\n-class {long}:"),
        "repeated blanks": change(f"+x: {' ' * n}\n+x{' ' * n}y\n+def f{' ' * n}("),
        "repeated brackets": change(f"+def f({'(' * n}\n+x = {'[' * n}"),
        "nested brackets": change(f"+def f(a={'(' * (3000 // part)}{')' * (3000 // part)}): pass"),
        "repeated signs": "@" * n + "\n" + "-" * n + "\n" + "+" * n,
        "repeated and": "Binary files " + " and " * n + " differ",
        "quotation marks": change("+" + '"""' * (30_000 // part)),
        "many definitions": change("+def f(x): pass\n" * (n // 5) + "+a"),
        "many nested": change("\n".join(f"+{' ' * k}def f{k}(x):" for k in range(1_500 // part))),
        "many files": "".join(change("+a = 1", f"{k}.py") for k in range(3_000 // part)),
        "many hunks": HEAD.format("x.py") + "@@ -1 +1 @@\n-a = b\n+b = c\n" * (n // 5),
        "one class, much use": change(
            "-@dataclass\n class A:\n" + "+    x: int = A()\n" * (n // 5)
        ),
        "go": change(f"+func ({long}\n+func (r *{long}) \n+type {long}", "x.go"),
        "typescript": change(
            f"+const a = ({long}\n+type A{'<' * (n // 100)}\n+const a:{long}=", "x.ts"
        ),
        "java": change(
            f"+public {'static ' * (n // 300)}{'A ' * (n // 150)}\n+private {'a.' * (n // 100)}",
            "x.java",
        ),
        "rust": change(f"+{'pub ' * (n // 250)}\n+{'async ' * (n // 300)}fn", "x.rs"),
        "nul": change("+def f(\x00): pass\n+\x00\x00 = 1\n+import \x00"),
        "surrogates": change("+def f(\ud800): '\udfff'\n+x\ud800y = 1", "a\ud800.py"),
        "replaced bytes": change("+def \ufffd(): pass\n+x = '\ufffd\ufffd b'"),
        "marks": change("+\u202eabc def\n+a\u0301b = c\x85d = 1\n+\x0c\x1c x = 2"),
        "escapes": change('+def f(a="\\d\\w"): pass\n+def g(a=1if 2else 3): pass'),
        "huge numbers": HEAD.format("x.py") + f"@@ -{huge},{huge} +1,{huge} @@\n+a b\n",
        "only blanks": "\n" * (30 * n),
        "prose": "I could not make a patch, sorry.",
    }


@pytest.mark.parametrize("part", parts(10))
@pytest.mark.parametrize("name", hostile(1_000))
def test_hostile_patches_take_bounded_time(name, part):
    def facts(text):
        return know(trace(text, text)).of(*patches.KINDS, *symbols.KINDS, *conflicts.KINDS)

    small, text = (hostile(one)[name] for one in (FACTOR * part, part))
    assert growth(facts, small, text) < LIMIT
    found = facts(text)
    for fact in found[:: max(1, len(found) // 30)]:
        for span in fact.spans:
            assert 0 <= span.start < span.end <= len(text)
            quote = text[span.start : span.end]
            shown = Source(span.source, text[max(0, span.start - 9) : span.end + 9], "patches")
            assert spans_in(quote, shown), (fact.kind, quote)


def test_what_is_not_read_is_said():
    for name, part in (
        ("ten megabytes", 2),
        ("half a million lines", 4),
        ("prose", 8),
        ("many files", 8),
    ):
        text = hostile(part)[name]
        said = [fact for fact in facts_of(trace(text)) if fact.kind == "not_read"]
        assert [fact.about["source"] for fact in said] == ["patch:agent1"], name
        assert 0 < said[0].about["characters"] <= len(text)
    many = trace(*[change("+a = 1")] * 12)
    said = [fact.agents for fact in facts_of(many) if fact.kind == "not_read"]
    assert said == [("agent11",), ("agent12",)]


PIECES = ["--- a/x.py\n", "+++ b/x.py\n", "@@ -1,3 +1,4 @@ class A:\n", "+def f(a,\n", "+):\n",
          "-def f(a):\n", "+    return []\n", " class A:\n", "+    self.x = {}\n", "+@dataclass\n",
          "\n", "\\ No newline\n", "+'''\n", "+import a, b\n", "+from x import (\n",
          "\r\n", "+é\x00 b"]  # fmt: skip


@settings(max_examples=150)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=8)), st.lists(st.sampled_from(PIECES)))
def test_any_text_gives_quotable_facts(one, two):
    both = trace("".join(one), "".join(two))
    assert checked(both) == checked(both)


def test_kinds_have_meanings():
    assert all(KINDS.values())


def test_real_runs(real_runs):
    with_patches = [one for one in real_runs if one.patches]
    assert with_patches
    for one in with_patches:
        checked(one)
