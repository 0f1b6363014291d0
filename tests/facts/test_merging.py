"""What git makes of two agents' changes, held against git on the whole texts."""

import random
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotator.facts import merging, threeway
from annotator.facts.registry import know
from annotator.traces import Outcome, Trace
from tests.facts.diffs import HEAD, change, checked, trace
from tests.facts.test_patches import PIECES, hostile
from tests.growth import FACTOR, LIMIT, growth, parts

pytestmark = pytest.mark.skipif(
    shutil.which("git") is None, reason="no git here: apt-get install git"
)

NEW = "--- /dev/null\n+++ b/{0}\n@@ -0,0 +1,{1} @@\n"
GONE = "--- a/{0}\n+++ /dev/null\n@@ -1,{1} +0,0 @@\n"


def told(*patches, path="shop/parser.py"):
    """The facts about one file, and the summary."""
    found = checked(trace(*patches), [merging])
    return [fact for fact in found if fact.about.get("path") == path], found[-1]


def new(body, path="shop/parser.py"):
    return NEW.format(path, body.count("\n") + 1) + body + "\n"


def gone(body, path="shop/parser.py"):
    return GONE.format(path, body.count("\n") + 1) + body + "\n"


MERGES = {
    "same line": (change("-a\n+b\n c"), change("-a\n+d\n c"), 1, [[1, 2]]),
    "same change": (change("-a\n+b\n c"), change("-a\n+b\n c", section="x"), 0, None),
    "same change and another": (change("-a\n+b\n c\n d\n-e\n+f"), change("-a\n+b\n c\n d\n-e\n+g"),
                                1, [[4, 5]]),
    "both insert": (change(" a\n+b\n c"), change(" a\n+d\n c"), 1, [[2, 2]]),
    "both insert the same and more": (change(" a\n+b\n+x\n c"), change(" a\n+b\n c"), 1, [[2, 2]]),
    "insert inside": (change("-a\n-b\n c"), change(" a\n+x\n b\n c"), 1, [[1, 3]]),
    "one after the other": (change("-a\n+b\n c"), change(" a\n-c\n+d"), 1, [[1, 3]]),
    "insert behind": (change("-a\n+b\n c"), change(" a\n+x\n c"), 1, [[1, 2]]),
    "one line between": (change("-a\n+x\n b\n c"), change(" a\n b\n-c\n+y"), 0, None),
    "two places": (change("-a\n+b\n c\n d\n e\n f\n-g\n+h\n i"),
                   change("-a\n+c\n c\n d\n e\n f\n-g\n+k\n i"), 2, [[1, 2], [6, 7]]),
    "far apart": (change(" a\n-b\n+c\n d"), change(" x\n-y\n+z\n v", at=900_000), 0, None),
    "far down": (change(" a\n-b\n+c\n d", at=900_000), change(" a\n-b\n+e\n d", at=900_000),
                 1, [[900_001, 900_002]]),
    "both append": (change(" a\n b\n+c"), change(" a\n b\n+d"), 1, [[3, 3]]),
    "both create": (new("+a"), new("+b"), 1, [[1, 1]]),
    "both create the same": (new("+a\n+b"), "index 0..1\n" + new("+a\n+b"), 0, None),
    "both delete": (gone("-a\n-b"), "index 1..0\n" + gone("-a\n-b"), 0, None),
    "delete and change": (gone("-a\n-b\n-c"), change(" a\n-b\n+x\n c"), 1, [[1, 4]]),
    "markers": (change(" a\n+<<<<<<< ours\n+=======\n b"), change(" a\n b\n c\n+>>>>>>> theirs"),
                0, None),
    "marker against marker": (change(" a\n+<<<<<<< ours\n b"), change(" a\n+>>>>>>> theirs\n b"),
                              1, [[2, 2]]),
    "carriage returns": (change(" a\r\n-b\r\n+c\r\n d\r"), change(" a\r\n-b\r\n+e\r\n d\r"),
                         1, [[2, 3]]),
    "only the line end differs": (change(" a\n-b\n+b\r\n d"), change(" a\n-b\n+c\n d"),
                                  1, [[2, 3]]),
    "no newline": (change(" a\n-b\n+b\n+c").replace("-b\n", "-b\n\\ No newline at end of file\n"),
                   change("-a\n+x\n b") + "\\ No newline at end of file\n", 1, [[1, 3]]),
    "no newline, apart": (
        change(" a\n b\n-c\n+c\n+d").replace("-c\n", "-c\n\\ No newline at end of file\n"),
        change("-a\n+x\n b\n c") + "\\ No newline at end of file\n", 0, None),
    "mode only": ("diff --git a/shop/parser.py b/shop/parser.py\nold mode 100644\n"
                  "new mode 100755\n", change("+a"), 0, None),
}  # fmt: skip


@pytest.mark.parametrize(("one", "two", "conflicts", "lines"), MERGES.values(), ids=MERGES)
def test_merges(one, two, conflicts, lines):
    for ours, theirs in ((one, two), (two, one)):
        about, whole = told(ours, theirs)
        assert whole.about["merge"] == ("conflicts" if conflicts else "clean")
        assert about[0].kind == ("merge_conflict" if conflicts else "merge_clean")
        assert about[0].about["conflicts"] == conflicts
        assert about[0].about.get("lines") == lines
        assert about[0].about["strategy"] == "three-way"
        assert len(about) == 1 + bool(conflicts)


def test_facts_about_a_conflict():
    one, two = change(" a\n+b = 1\n+c = 1\n d"), change(" a\n+c = 1\n+e = 2\n d")
    (conflict, union), whole = told(one, two)
    assert conflict.says == (
        "agent1's and agent2's changes of shop/parser.py merge with 1 conflict, at line 2."
    )
    assert [span.source for span in conflict.spans] == ["patch:agent1", "patch:agent2"]
    assert conflict.agents == ("agent1", "agent2")
    assert union.says == (
        "A union merge of agent1's and agent2's changes of shop/parser.py keeps "
        "2 of 2 lines that agent1 adds and 2 of 2 lines that agent2 adds."
    )
    assert (union.kind, union.about["strategy"]) == ("merge_clean", "union")
    assert (union.about["added"], union.about["kept"]) == ([2, 2], [2, 2])
    assert union.about["interleaved"] is True
    assert whole.says == "agent1's and agent2's patches merge with conflicts."
    (_, union), _ = told(change("-a\n+b\n c"), change("-a\n c"))
    assert union.about["interleaved"] is False


RENAMED = (
    "diff --git a/shop/parser.py b/shop/reader.py\nrename from shop/parser.py\n"
    "rename to shop/reader.py\n"
)
BINARY = "Binary files a/shop/parser.py and b/shop/parser.py differ\n"
PLAIN = change(" a\n-b\n+c\n d")
UNKNOWN = {
    "renamed": (RENAMED, "agent1's patch renames or copies it"),
    "binary": (BINARY, "in agent1's patch it is binary"),
    "twice": (PLAIN + PLAIN, "agent1's patch has the file 2 times"),
    "created": (new("+a"), "agent1's patch creates it and agent2's patch changes it"),
    "not whole": (
        HEAD.format("shop/parser.py") + "@@ -1,9 +1,9 @@\n-a\n+b\n",
        "a hunk of agent1's patch has other lines than its header announces",
    ),
    "another base": (change(" a\n-x\n+c\n d"), "the patches do not agree about line 2"),
    "another end": (change(" a\n-b\n+c"), "the patches do not agree about where it ends"),
    "another newline": (
        change(" a\n-b\n+c\n d") + "\\ No newline at end of file\n",
        "the patches do not agree about line 3",
    ),
    "another line end": (PLAIN.replace(" a\n", " a\r\n"), "the patches do not agree about line 1"),
    "not in order": (
        change(" x\n-y\n+z", at=7) + change(" a\n-b\n+c\n d").split("b/shop/parser.py\n")[1],
        "the hunks of agent1's patch are not in order",
    ),
    "not read": (PLAIN + "@@ nonsense @@\n-a\n", "a part of agent1's patch was not read"),
    "NUL": (
        change(" a\n-b\n+\0\n d"),
        "it has NUL characters, by which git takes it for binary",
    ),
    "unknown lines repeat": (
        HEAD.format("shop/parser.py") + "@@ -1 +0,0 @@\n-a\n",
        "lines that no patch shows could move one change to another",
    ),
}


@pytest.mark.parametrize(("text", "why"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_cannot_be_known(text, why):
    second = change("-z\n+y", at=3) if "could move" in why else PLAIN
    (fact, *more), whole = told(text, second)
    assert (fact.kind, fact.about["why"], more) == ("merge_unknown", why, [])
    assert fact.says.endswith(f"shop/parser.py merge to is not known: {why}.")
    assert (whole.about["merge"], whole.about["agrees"]) == ("not known", None)


def test_a_conflict_is_one_whatever_else_is_not_known():
    one, two = change("-a\n+b\n c"), change("-a\n+d\n c")
    binary = BINARY.replace("shop/parser.py", "x.png")
    _, whole = told(one + binary, two + binary)
    assert whole.about["merge"] == "conflicts"


SUMMARIES = [
    ("", "", "clean", "clean", True),
    (PLAIN, "", "clean", "conflicts", False),
    (PLAIN, PLAIN, "identical", "identical", True),
    (PLAIN, PLAIN + "\n", "identical", "clean", True),
    (PLAIN, PLAIN, "identical", "missing_input", None),
    (PLAIN, PLAIN, "identical", None, None),
    (PLAIN, change("+a", "b.py"), "clean", "clean", True),
    (PLAIN, change(" a\n-b\n+e\n d"), "conflicts", "conflicts", True),
    (PLAIN, change(" a\n-b\n+e\n d"), "conflicts", "clean", False),
    (PLAIN, "I made no patch.", "not known", "clean", None),
]


@pytest.mark.parametrize(("one", "two", "result", "reported", "agrees"), SUMMARIES)
def test_summary(one, two, result, reported, agrees):
    patches = {"agent1": one, "agent2": two}
    run = Trace("t", "x", "x", patches=patches, outcome=Outcome(merge=reported))
    (fact,) = know(run).of("merge_simulated")
    assert fact.about == {"merge": result, "reported": reported, "agrees": agrees}


def test_bounds():
    many = trace(*[PLAIN + f"\n{'x' * n}" for n in range(6)])
    found = know(many).of("merge_simulated")
    assert len(found) == 15
    assert [f.about["merge"] for f in found].count("identical") == 0
    assert [f.about["merge"] for f in found[10:]] == ["not known"] * 5
    assert {f.about["agrees"] for f in found} == {None}
    one, two = ("".join(change(f"-a\n+{n}\n c", f"{k}.py") for k in range(25)) for n in "bd")
    found = know(trace(one, two)).of(*merging.KINDS)
    assert [f.kind for f in found].count("merge_conflict") == 20
    assert found[-2].says == "5 more files that agent1 and agent2 change were not merged."


# What can happen to git


def files_left(folder):
    return list(folder.iterdir())


def why_not(one="-a\n+b\n c", two="-a\n+d\n c"):
    (fact,), whole = told(change(one), change(two))
    assert (fact.kind, whole.about["merge"]) == ("merge_unknown", "not known")
    return fact.about["why"]


@pytest.fixture
def fake_git(tmp_path, monkeypatch):
    """Set a script in the place of git."""

    def install(script):
        program = tmp_path / "bin" / "git"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent))

    return install


def test_no_git(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert why_not() == "git is not installed"
    _, whole = told(PLAIN, change("+a", "b.py"))
    assert whole.about["merge"] == "clean"  # no file that both change


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 255", "git failed"),
        ("kill -9 $$", "git failed"),
        ("exec /bin/sleep 60", "git took too long"),
    ],
)
def test_git_that_fails(fake_git, monkeypatch, tmp_path, script, why):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(threeway, "LONGEST_RUN", 0.3)
    fake_git(script)
    assert why_not() == why
    assert not files_left(folder)


def test_git_that_cannot_be_run(fake_git):
    fake_git("")
    program = Path(shutil.which("git"))
    program.write_text("#!/no/such/program\n")
    assert why_not() == "git could not be run"


def test_no_temporary_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert why_not() == "git could not be run"


def test_time_for_one_trace(monkeypatch):
    monkeypatch.setattr(threeway, "LONGEST_TRACE", -1.0)
    assert why_not() == "merging took too long"


def test_too_long(monkeypatch):
    monkeypatch.setattr(threeway, "MOST_SIDE", 4)
    assert why_not() == "it is too long"


def test_settings_and_repositories_have_no_say(monkeypatch, tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    config = tmp_path / ".git" / "config"
    config.write_text("[merge\n")
    (tmp_path / ".gitconfig").write_text("[merge\n")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))
    monkeypatch.chdir(tmp_path)
    found, _ = told(change("-a\n+b\n c"), change("-a\n+d\n c"))
    assert found[0].kind == "merge_conflict"
    assert not files_left(tmp_path / "temporary")


@pytest.mark.parametrize("path", ["../../x", "/etc/passwd", "-p", "a\tb", ".git/config", "\ud800"])
def test_names_of_the_trace_are_no_names_on_disk(path, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    written = []
    real = Path.write_text
    monkeypatch.setattr(
        Path, "write_text", lambda self, *a, **k: (written.append(self), real(self, *a, **k))[1]
    )
    found = checked(trace(change("-a\n+b\n c", path), change("-a\n+d\n c", path)), [merging])
    assert found[0].kind == "merge_conflict"
    assert {file.name for file in written} == {"ours", "base", "theirs"}
    assert {file.parent.parent for file in written} == {tmp_path}
    assert not files_left(tmp_path)


def test_many_conflicts():
    body = "\n".join(f" {n}\n x{n}\n y{n}\n z{n}\n-a{n}\n+{{0}}{n}" for n in range(200))
    found, _ = told(change(body.format("b")), change(body.format("c")))
    assert found[0].about["conflicts"] == 127
    assert "merge with at least 127 conflicts, at lines 5, 10, 15 and 197 more." in found[0].says
    assert len(found[0].spans) == 20


@cache
def more_hostile(part):
    n = 90_000 // part
    head = HEAD.format("x.py")
    return hostile(part) | {
        "ninety thousand lines": head + f"@@ -0,0 +1,{n} @@\n" + "+x = 1\n" * n,
        "many conflicts": head
        + "".join(f"@@ -{k},3 +{k},3 @@\n a{k}\n-x{k}\n+b{k}\n c{k}\n" for k in range(5, n, 9)),
        "many hunks apart": head
        + "".join(f"@@ -{k} +{k} @@\n-a\n+b {k}\n" for k in range(5, n, 3)),
        "many insertions": head + "".join(f"@@ -{k},0 +{k} @@\n+b {k}\n" for k in range(1, n, 2)),
        "no newline anywhere": head + "@@ -1,3 +1,3 @@\n-\n\\ No newline\n-\n\\ No newline\n+\n"
        "\\ No newline\n c\n",
        "line 0": head + "@@ -0,2 +0,2 @@\n-a\n+b\n c\n",
    }


@pytest.mark.parametrize("part", parts(10))
@pytest.mark.parametrize("name", more_hostile(1_000))
def test_hostile_patches_take_bounded_time(name, part):
    def facts(text):
        return know(trace(text, text.replace("+b", "+c") + "\n")).of(*merging.KINDS)

    small, large = (more_hostile(one)[name] for one in (FACTOR * part, part))
    assert growth(facts, small, large) < LIMIT
    *found, whole = facts(large)
    assert whole.kind == "merge_simulated"
    assert not any("renames" in one.about.get("why", "") for one in found)  # or nothing is merged


@settings(max_examples=60)
@given(st.lists(st.sampled_from(PIECES)), st.lists(st.sampled_from(PIECES)))
def test_any_text_gives_quotable_facts(one, two):
    both = trace(HEAD.format("x.py") + "".join(one), HEAD.format("x.py") + "".join(two))
    assert checked(both, [merging])[-1].kind == "merge_simulated"


# git itself


def git(folder, *arguments):
    quiet = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    names = {f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER")
             for what in ("NAME", "EMAIL")}  # fmt: skip
    path = {"PATH": str(Path(shutil.which("git")).parent)}
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=folder, env=quiet | names | path, capture_output=True, timeout=20
    )


def patch_of(folder, base, changed):
    """The patch from one text to another, as git writes it."""
    (folder / "a").write_bytes(base.encode())
    (folder / "b").write_bytes(changed.encode())
    shown = git(folder, "diff", "--no-index", "a", "b").stdout.decode()
    return shown.replace("b/b", "b/a")


def simulated(folder, base, one, two):
    """The number of conflicts by the patches alone, None if it is not known."""
    found = know(trace(patch_of(folder, base, one), patch_of(folder, base, two))).of(*merging.KINDS)
    return found[0].about["conflicts"] if len(found) > 1 else 0


def edited(rng, lines, words):
    """Lines after one to three insertions, removals, replacements or copies."""
    for _ in range(rng.randint(1, 3)):
        at, length = rng.randint(0, len(lines)), rng.randint(1, 3)
        fresh = [rng.choice(words) for _ in range(length)]
        other = rng.randint(0, len(lines))
        cut, put = rng.choice([
            (0, fresh), (length, []), (length, fresh), (0, lines[other : other + length]),
        ])  # fmt: skip
        lines = [*lines[:at], *put, *lines[at + cut :]]
    return lines


@pytest.mark.parametrize(("words", "length"), [(3, 20), (5, 60), (12, 80), (60, 80)])
def test_random_edits_merge_as_the_whole_texts_do(tmp_path, words, length):
    rng = random.Random(words)
    vocabulary = ["\n", *(f"w{n}\n" for n in range(words))]
    known = conflicts = 0
    for _ in range(50):
        base = [rng.choice(vocabulary) for _ in range(rng.randint(0, length))]
        texts = ["".join(text) for text in
                 (edited(rng, base, vocabulary), base, edited(rng, base, vocabulary))]  # fmt: skip
        texts = [text[: len(text) - (rng.random() < 0.1)] for text in texts]
        for name, text in zip("xyz", texts, strict=True):
            (tmp_path / name).write_text(text)
        truth = git(tmp_path, "merge-file", "-p", "x", "y", "z").returncode
        found = simulated(tmp_path, texts[1], texts[0], texts[2])
        known += found is not None
        conflicts += bool(truth)
        assert found in (None, truth)
    assert known >= 35
    assert conflicts > 5


@pytest.mark.parametrize(("one", "two"), [
    ("a\nb\nX\nd\ne\nf\ng\nh\n", "a\nb\nY\nd\ne\nf\ng\nh\n"),
    ("a\nb\nX\nd\ne\nf\ng\nh\n", "a\nb\nc\nd\ne\nY\ng\nh\n"),
    ("a\nb\nX\nd\ne\nf\ng\nh\n", "a\nb\nX\nd\ne\nY\ng\nh\n"),
    ("a\nb\nc\nd\ne\nf\ng\nh\ni\n", "a\nb\nc\nd\ne\nf\ng\nh"),
    ("", "a\nb\nc\nd\ne\nf\ng\nH\n"),
])  # fmt: skip
def test_merges_as_in_a_repository(tmp_path, one, two):
    base = "a\nb\nc\nd\ne\nf\ng\nh\n"
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q")
    for branch, text in (("base", base), ("one", one), ("two", two)):
        git(repository, "checkout", "-q", *(["base"] if branch != "base" else []))
        git(repository, "checkout", "-q", "-b", branch)
        (repository / "f").write_text(text)
        git(repository, "add", "f")
        assert git(repository, "commit", "-q", "-m", branch).returncode == 0
    conflicts = bool(git(repository, "merge", "-q", "one").returncode)
    assert bool(simulated(tmp_path, base, one, two)) is conflicts


def test_real_runs(real_runs):
    for one in random.Random(2).sample([one for one in real_runs if len(one.patches) == 2], 60):
        assert checked(one, [merging])[-1].about["agrees"] in (True, None), one.id
