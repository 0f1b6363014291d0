"""The hunks of patches, where two of them meet, what they merge to, and what they both carry."""

import random
import shutil
import subprocess

import pytest

from annotator.cooperbench.facts import draw_facts, patches, truncation
from annotator.cooperbench.patches.diff import is_same_path, parse_patch
from tests.cooperbench.facts.diffs import HEAD, change, checked, quotes, run, trace

KINDS = (*patches.MEETINGS, *patches.MERGES, *patches.CARRIED, *truncation.KINDS)
MEETING = ("hunks_overlap", "hunks_adjoin")

GIT = "diff --git a/{0} b/{1}\n"
FILES = {
    "changed": (HEAD.format("x.py") + "@@ -1 +1 @@\n-a = 1\n+a = 2\n", ("x.py", "x.py", "")),
    "new": ("--- /dev/null\n+++ b/x.py\n@@ -0,0 +1 @@\n+a\n", ("x.py", "x.py", "")),
    "new, empty": (GIT.format("x.py", "x.py") + "new file mode 100644\n", ("x.py", "x.py", "")),
    "deleted": ("--- a/x.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", ("x.py", "x.py", "deleted")),
    "renamed": (GIT.format("a/x.py", "b/y.py") + "similarity index 100%\nrename from a/x.py\n"
                "rename to b/y.py\n", ("b/y.py", "a/x.py", "")),
    "binary": (GIT.format("x.png", "x.png") + "Binary files a/x.png and b/x.png differ\n",
               ("x.png", "x.png", "binary")),
    "binary, git": (GIT.format("x.png", "x.png") + "GIT binary patch\nliteral 10\nzc$@-\n\n",
                    ("x.png", "x.png", "binary")),
    "blanks": (GIT.format("a b.py", "a b.py") + "new mode 100755\n", ("a b.py", "a b.py", "")),
    "quoted": ('--- "a/caf\\303\\251.py"\n+++ "b/caf\\303\\251.py"\n@@ -1 +1 @@\n-a\n+b\n',
               ("café.py", "café.py", "")),
    "windows": ("--- a/x.py\r\n+++ b/x.py\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n", ("x.py", "x.py", "")),
    "no name": ("@@ -1 +1 @@\n-a\n+b\n", ("", "", "")),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), FILES.values(), ids=FILES)
def test_files(text, expected):
    (file,) = parse_patch(text).files
    flags = [name for name in ("deleted", "binary") if getattr(file, name)]
    assert (file.path, file.old_path, " ".join(flags)) == expected
    checked(trace(text))


def test_lines_have_numbers_and_offsets():
    text = change(" one\n-two\n+TWO\n+2.5\n three", at=7)
    (hunk,) = parse_patch(text).files[0].hunks
    assert [(line.sign, line.text, line.old) for line in hunk.lines] == [
        *((" ", "one", 7), ("-", "two", 8), ("+", "TWO", 9), ("+", "2.5", 9), (" ", "three", 9))
    ]
    assert [text[line.start : line.end] for line in hunk.lines][1] == "-two"
    assert text[hunk.start : hunk.end] == "@@ -7,3 +7,4 @@"
    assert [(edit.start, edit.end, len(edit.lines)) for edit in hunk.edits()] == [(8, 9, 3)]


MALFORMED = {
    "too short": HEAD.format("a.py") + "@@ -1,9 +1,9 @@\n-a\n+b\n" + change("+x", "b.py"),
    "too long": HEAD.format("a.py") + "@@ -1 +1 @@\n-a\n+b\n+c\n c\n" + change("+x", "b.py"),
    "no such header": HEAD.format("a.py") + "@@ nonsense @@\n-a\n" + change("+x", "b.py"),
    "prose between": change("+a", "a.py") + "That was it.\n\n" + change("+x", "b.py"),
    "removed dashes": change("--- x\n+++ y\n a", "a.py") + change("+x", "b.py"),
    "no newline": change("-a\n\\ No newline at end of file\n+b", "a.py") + change("+x", "b.py"),
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_part_does_not_lose_the_rest(text):
    files = parse_patch(text).files
    assert [file.path for file in files] == ["a.py", "b.py"]
    assert [line.text for line in files[1].hunks[0].lines] == ["x"]
    checked(trace(text))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("shop/parser.py", True),
        ("parser.py", True),
        ("/srv/repo/shop/parser.py", True),
        ("arser.py", False),
        ("", False),
    ],
)
def test_one_file_may_have_several_names(path, expected):
    assert is_same_path(path, "shop/parser.py") is is_same_path("shop/parser.py", path) is expected


# --- where two patches meet ---------------------------------------------------------------------

NEW = "--- /dev/null\n+++ b/{0}\n@@ -0,0 +1 @@\n"
MEETINGS = {
    "same line": ("-a\n+b\n c", "-a\n+d\n c", "hunks_overlap", False),
    "same text": ("-a\n+b\n c", "-a\n+b\n c", "hunks_overlap", True),
    "same text, another place": ("-a\n+b\n c", " a\n+b\n c", "hunks_adjoin", False),
    "both insert": (" a\n+b\n c", " a\n+d\n c", "hunks_overlap", False),
    "insert inside": ("-a\n-b\n c", " a\n+x\n b\n c", "hunks_overlap", False),
    "one after the other": ("-a\n+b\n c", " a\n-c\n+d", "hunks_adjoin", False),
    "apart": ("-a\n+x\n b\n c", " a\n b\n-c\n+y", None, False),
}


@pytest.mark.parametrize(("one", "two", "kind", "same"), MEETINGS.values(), ids=MEETINGS)
def test_meetings(one, two, kind, same):
    both = trace(change(one), change(two, section="def later(hour):"))
    met = checked(both, *MEETING)
    assert [fact.kind for fact in met] == ([kind] if kind else [])
    for fact in met:
        assert fact.agents == ("agent1", "agent2")
        assert (fact.about["path"], fact.about["same"]) == ("shop/parser.py", same)
        assert {"later", "hour"} <= set(fact.about["names"])
        assert [span.source for span in fact.spans] == ["patch:agent1", "patch:agent2"]


def test_other_files_do_not_meet_both_may_create_one_and_a_renamed_one_has_its_old_name():
    assert checked(trace(change("+a"), change("+a", "b.py")), *MEETING) == []
    for two in (NEW.format("x.py") + "+b = 1\n", NEW.format("y.py") + "+a = 1\n"):
        met = checked(trace(NEW.format("x.py") + "+a = 1\n", two), *MEETING)
        assert [fact.kind for fact in met] == (["hunks_overlap"] if "x.py" in two else [])
    git = GIT.format("a/x.py", "b/y.py") + "rename from a/x.py\nrename to b/y.py\n"
    renamed = git + change("-a\n+b", "b/y.py").replace("a/b/y.py", "a/a/x.py")
    [fact] = checked(trace(renamed, change("-a\n+c", "a/x.py")), *MEETING)
    assert fact.about["path"] == "a/x.py"


LONG = "x" * 300
PASSAGES = {
    "a run": ("+tide = 1\n+ebb = 2\n c", "+moon = 1\n c", "+tide = 1\n+ebb = 2"),
    "not what both write": ("+tide = 1\n+ebb = 2\n c", "+tide = 1\n+flow = 2\n c", "+ebb = 2"),
    "not what any file holds": ("+def __init__(\n+    ebb,\n c", "+x y\n c", "+    ebb,"),
    "any file's, if there is no other": (
        "+def __init__(self):\n c", "+x y\n c", "+def __init__(self):",
    ),
    "a line of two words": ("+)\n+ebb()\n+ebb = 2\n c", "+x y\n c", "+ebb = 2"),
    "what is removed": ("-tide = 1\n c", "-tide = 1\n+x y\n c", "-tide = 1"),
    "no long line": (f"+{LONG}\n+ebb = 2\n c", "+x y\n c", "+ebb = 2"),
    "only a long line": (f"+{LONG}\n c", "+x y\n c", "@@"),
}  # fmt: skip


@pytest.mark.parametrize(("one", "two", "shown"), PASSAGES.values(), ids=PASSAGES)
def test_a_passage_is_what_says_something_of_this_patch(one, two, shown):
    both = trace(change(one), change(two))
    [fact] = checked(both, *MEETING)
    assert quotes(both, fact)[0].startswith(shown)
    if shown != "@@":
        assert quotes(both, fact)[0] == shown


def test_an_empty_patch_is_told():
    assert [one.agents for one in checked(trace("+x", " \n"), "patch_empty")] == [("agent2",)]


# --- what they merge to -------------------------------------------------------------------------

PLAIN = change(" a\n-b\n+c\n d")
BINARY = "Binary files a/shop/parser.py and b/shop/parser.py differ\n"
SHORT = HEAD.format("x") + "@@ -1,9 +1,9 @@\n-a\n+b\n"
MERGES = {
    "other files": (PLAIN, change("+a", "b.py"), "clean"),
    "a line between": (change("-a\n+x\n b\n c"), change(" a\n b\n-c\n+y"), "clean"),
    "the same change": (PLAIN, change(" a\n-b\n+c\n d", section="x"), "clean"),
    "the same patch": (PLAIN, PLAIN + "\n", "identical"),
    "the same line": (PLAIN, change(" a\n-b\n+e\n d"), "conflicts"),
    "beside each other": (change("-a\n+b\n c"), change(" a\n-c\n+d"), "conflicts"),
    "both create": (NEW.format("x") + "+a\n", NEW.format("x") + "+b\n", "conflicts"),
    "binary": (BINARY, BINARY + "\n" + change("+a", "x"), "not known"),
    "binary beside a conflict": (
        BINARY + change("-a\n+b", "x"), BINARY + change("-a\n+c", "x"), "conflicts",
    ),
    "no diff": (PLAIN, "I made no patch.", "not known"),
    "a hunk that is not whole": (SHORT, change("-c\n+d", "x", at=30), "not known"),
}  # fmt: skip


@pytest.mark.parametrize(("one", "two", "merge"), MERGES.values(), ids=MERGES)
def test_merges(one, two, merge):
    for sides in ({"a": one, "b": two}, {"a": two, "b": one}):
        for reported in (None, "clean", "conflicts", "identical", "odd"):
            [fact] = checked(run(patches=sides, merge=reported), "merge_simulated")
            agrees = None
            if merge != "not known" and reported not in (None, "odd"):
                agrees = (merge == "conflicts") == (reported == "conflicts")
                if (merge, reported) == ("conflicts", "identical"):  # of the sources alone
                    agrees = None
            assert fact.about == {"merge": merge, "reported": reported, "agrees": agrees}


def test_of_three_patches_every_two_and_nothing_is_said_of_the_report():
    three = run(patches={"a": PLAIN, "b": PLAIN, "c": change("+x y", "b.py")}, merge="clean")
    found = [
        (one.about["merge"], one.about["agrees"]) for one in draw_facts(three).of(*patches.MERGES)
    ]
    assert found == [("identical", None), ("clean", None), ("clean", None)]


@pytest.mark.skipif(shutil.which("git") is None, reason="no git here: apt-get install git")
def test_random_edits_merge_as_git_merges_the_whole_texts(tmp_path):
    rng = random.Random(4)

    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=tmp_path, capture_output=True, timeout=20)

    results = []
    for _ in range(40):
        base = [f"w{n}\n" for n in range(30)]
        (tmp_path / "y").write_text("".join(base))
        diffs = []
        for side in "xz":
            lines = list(base)
            for n in range(rng.randint(1, 3)):
                at, length = rng.randint(0, len(lines)), rng.randint(0, 2)
                lines[at : at + length] = [f"{side}{n}\n"] * rng.randint(not length, 2)
            (tmp_path / side).write_text("".join(lines))
            shown = git("diff", "--no-index", "y", side).stdout.decode()
            diffs.append(shown.replace(f"b/{side}", "b/y"))
        [fact] = draw_facts(trace(*diffs)).of(*patches.MERGES)
        truth = git("merge-file", "-p", "x", "y", "z").returncode
        assert fact.about["merge"] == ("conflicts" if truth else "clean"), diffs
        results.append(truth > 0)
    assert 5 < sum(results) < 35


# --- work that stands in both -------------------------------------------------------------------


def added(*names, at=1):
    lines = (f"+{name} = level({len(name)})" for name in names)
    return change("\n".join(lines), "tides.py", at=at)


FOUR = ("tide", "ebb", "pier", "quay")
CARRIED = {
    "all": (("tide", "ebb"), (*FOUR, "lock"), [("b", "a")]),
    "half": (FOUR, ("tide", "ebb", "lock", "lamp", "rope"), [("b", "a")]),
    "each half": (FOUR, ("tide", "ebb", "lock", "lamp"), [("a", "b"), ("b", "a")]),
    "under half": ((*FOUR, "buoy"), ("tide", "ebb", "lock", "lamp", "rope"), []),
    "one line": (("tide",), ("tide", "lock", "lamp"), []),
}


@pytest.mark.parametrize("case", CARRIED)
def test_how_much_is_carried(case):
    ours, theirs, expected = CARRIED[case]
    both = run(patches={"a": added(*ours), "b": added(*theirs, at=60)})
    found = checked(both, "work_carried")
    assert sorted(fact.agents for fact in found) == expected
    for fact in found:
        assert quotes(both, fact) == ["+tide = level(4)"] * 2
        wrote = len(ours if fact.agents[1] == "a" else theirs)
        assert (fact.about["lines"], fact.about["of"]) == (2, wrote)


def test_code_shown_in_messages_is_not_carried_over_and_blanks_do_not_count():
    small, large = added("tide", "ebb"), added("tide", "ebb", "pier", at=60)
    shown = "a: ```\ntide = level(4)\nebb = level(3)\n```"
    assert checked(run([shown], {"a": small, "b": large}), "work_carried") == []
    wide = small.replace(" = ", "  =  ")
    assert checked(run(["a: Hello."], {"a": wide, "b": large}), "work_carried")
    nothing = change("+)\n+}\n+]\n+\n+x", "tides.py")
    assert checked(run(patches={"a": nothing, "b": nothing}), "work_carried") == []


# --- any text -----------------------------------------------------------------------------------


def test_what_is_not_read_is_said():
    header = f"@@ -{10**9},{10**9} +1,{10**9} @@\n+a b\n@@ nonsense @@\n-a\n"
    for text in ("I could not make a patch, sorry.", HEAD.format("x.py") + header):
        [said] = checked(trace(text), "not_read")
        assert said.about["source"] == "patch:agent1"
        assert 0 < said.about["characters"] <= len(text)
    [said] = checked(trace(MALFORMED["no such header"]), "not_read")
    assert said.about["characters"] == len("@@ nonsense @@\n-a\n")


def test_real_runs(real_runs):
    with_patches = [one for one in real_runs if one.patches]
    assert with_patches
    for one in with_patches[::2]:
        found = checked(one, *KINDS)
        # The patches alone say what the harness reports of the merge.
        assert not any(fact.about.get("agrees") is False for fact in found), one.id
