"""The store of decisions: nothing acknowledged is lost, nothing of others is touched."""

import json
import signal
import stat
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotator.base.errors import AnnotatorError
from annotator.base.text import replace_surrogates
from annotator.labels import read_labels
from annotator.labels.decisions import Decision, check_passages
from annotator.labels.model import Passage
from annotator.labels.store import LabelStore, Undone
from annotator.traces import Feature, Message, Outcome, Trace
from annotator.traces.model import AgentEnd
from tests.calibration.build import label, make_rubric, write_labels
from tests.conftest import ROOT, limit_file_size

PASSAGE = Passage("I take it", "message:1", 3, 12, "alpha")
SHEET = {"order": 4, "task": "p/1", "split": "dev", "inclusion_probability": 0.25}
SHEET |= {"design": "d1", "rater": 2}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "labels.jsonl"


def opened(file, rubric, who="ann"):
    return LabelStore.open(file, who, rubric)


def refused(file, rubric, who="ann"):
    with pytest.raises(AnnotatorError) as error:
        opened(file, rubric, who)
    assert "\n" not in str(error.value)
    return str(error.value)


def lines(file):
    return [json.loads(line) for line in file.read_bytes().split(b"\n") if line]


def test_a_store_that_is_closed_without_a_label_leaves_no_file(file, rubric):
    """An empty file would hide a filled sheet beside it from annotate calibrate."""
    opened(file, rubric).close()
    assert not file.exists()
    with opened(file, rubric) as store:
        store.decide(Decision("t1", "alpha"))
    opened(file, rubric).close()
    assert [line["primary"] for line in lines(file)] == ["alpha"]


# How a trace was drawn


@pytest.mark.parametrize("reopened", [False, True])
def test_a_label_changed_without_the_sheet_keeps_how_its_trace_was_drawn(file, rubric, reopened):
    """Without its inclusion probability a stratified label would be read as a uniform one."""
    store = opened(file, rubric)
    store.decide(Decision("t1", "alpha"), SHEET)
    if reopened:
        store.close()
        store = opened(file, rubric)
    store.decide(Decision("t1", "beta"))
    store.withdraw("t1")
    store.decide(Decision("t1", "gamma"), {"rater": 1})
    store.close()
    (line,) = lines(file)
    assert {name: line[name] for name in SHEET} == SHEET | {"rater": 1}
    (found,) = read_labels([file], rubric.scheme()).labels
    assert (found.primary, found.inclusion_probability, found.split) == ("gamma", 0.25, "dev")


def test_what_waits_is_in_the_file_and_is_no_label(file, rubric):
    with opened(file, rubric) as store:
        store.decide(Decision("t1", "alpha"))
        store.wait("t1")
        store.wait("t2", SHEET)
        store.wait("t2")
    labels = read_labels([file], rubric.scheme())
    assert [one.trace_id for one in labels.labels] == ["t1"]
    assert labels.unlabelled == ("t2",)
    with opened(file, rubric) as store:
        store.decide(Decision("t2"))
        assert store.undoes() == ("t2", False)
        store.undo()
        assert store.undoes() == ("t1", True)
    assert read_labels([file], rubric.scheme()).unlabelled == ("t2",)


# What is written


def test_a_decision_is_a_line_of_the_contract(file, rubric):
    decision = Decision("t1", "alpha", ("beta",), (PASSAGE,), ("no place",), "why", 3, seconds=1.5)
    with opened(file, rubric) as store:
        store.decide(decision, SHEET | {"primary": "gamma", "unknown": 1})
    (line,) = lines(file)
    assert line.pop("labelled_at").endswith("+00:00")
    assert line.pop("sequence") == 1
    span = {"quote": "I take it", "source": "message:1", "start": 3, "end": 12, "code": "alpha"}
    ids = {"trace_id": "t1", "rubric": "faults", "annotator": "ann", "rubric_sha256": rubric.sha256}
    codes = {"primary": "alpha", "secondary": ["beta"]}
    more = {"evidence": ["I take it", "no place"], "note": "why", "confidence": 3, "seconds": 1.5}
    assert line == {**ids, **codes, **more, "spans": [span], **SHEET}
    (read,) = read_labels([file], rubric.scheme()).labels
    assert read.spans == (PASSAGE,)
    assert (read.task, read.split, read.inclusion_probability) == ("p/1", "dev", 0.25)


@pytest.mark.parametrize(
    ("choice", "decision", "message"),
    [
        ("primary", Decision("t", "alpa"), "did you mean 'alpha'?"),
        ("primary", Decision("t", "alpha", quotes=(" ",)), "evidence: found an empty text"),
        ("primary", Decision("t", "alpha", seconds=float("nan")), "seconds: found nan"),
        ("primary", Decision("t", "alpha", skipped=True), "skipped: true, but the trace has a"),
        ("many", Decision("t", evidence=(PASSAGE,), skipped=True), "evidence and spans are filled"),
    ],
)
def test_what_is_no_decision_changes_nothing(tmp_path, file, choice, decision, message):
    with opened(file, make_rubric(tmp_path, choice)) as store:
        store.decide(Decision("t"))
        before = file.read_bytes()
        with pytest.raises(AnnotatorError) as error:
            store.decide(decision)
        assert message in str(error.value)
        assert store.decisions == {"t": Decision("t")}
    assert file.read_bytes() == before


def test_a_new_decision_takes_the_place_of_the_line(file, rubric):
    with opened(file, rubric) as store:
        for n in (1, 2, 3):
            store.decide(Decision(f"t{n}", "alpha"))
        before = file.read_bytes().split(b"\n")
        file.chmod(0o640)
        with pytest.raises(AnnotatorError, match="no code"):
            store.decide(Decision("t2", "zzz"))
        store.decide(Decision("t2", "beta"))
    after = file.read_bytes().split(b"\n")
    assert [after[n] for n in (0, 2, 3)] == [before[n] for n in (0, 2, 3)]
    assert json.loads(after[1])["primary"] == "beta"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path.name for path in file.parent.iterdir() if path.name.startswith(".")] == []


def test_lines_of_others_stay_as_they_are(tmp_path, file, rubric):
    others = [
        b'{"annotator":"bob",  "trace_id":"t1","rubric":"faults","primary":"zzz"}\r\n',
        b"\n",
        b'{"trace_id": "t1", "rubric": "causes", "annotator": "ann", "primary": "q\xe2\x80\xa8"}\n',
        b'{"trace_id": "t1", "rubric": "faults", "order": 1}\n',  # a sheet's row
    ]
    file.write_bytes(b"".join(others))
    with opened(file, rubric) as store:
        assert store.decisions == {}
        for n in (1, 2, 1, 2, 1):
            store.decide(Decision(f"t{n}", "alpha", note=f"\u2028{n}"))
        store.undo()
    assert file.read_bytes().startswith(b"".join(others))
    assert len(lines_ := file.read_bytes().split(b"\n")) == len(others) + 3, lines_


# Going back


def test_undo_goes_on_with_earlier_sessions_the_latest_first(file, rubric):
    by_hand = label("hand", rubric, "alpha", by="ann")
    write_labels(file, [by_hand])
    before = file.read_bytes()
    for trace_id, code in [("t1", "alpha"), ("t2", "beta"), ("t1", "gamma")]:
        with opened(file, rubric) as store:
            store.decide(Decision(trace_id, code))
    with opened(file, rubric) as store:
        assert [store.undo(), store.undo(), store.undo()] == [
            Undone("t1", Decision("t1", "gamma"), None),
            Undone("t2", Decision("t2", "beta"), None),
            None,  # what nobody decided here is not taken away
        ]
        assert set(store.decisions) == {"hand"}
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("times", "counted", "undone"),
    [
        (("12:00", "12:00", "12:00"), True, ["t1", "t3", "t2"]),  # within one tick
        (("12:00", "11:00", "10:00"), True, ["t1", "t3", "t2"]),  # a clock that was set back
        (("12:00", "11:00", "10:00"), False, ["t2", "t3", "t1"]),  # written before they counted
        (("12:00", "11:00", "12:00"), False, ["t2", "t1", "t3"]),  # a tie: the later line is first
    ],
)
def test_undo_follows_the_order_of_decisions_whatever_the_clock_said(
    file, rubric, times, counted, undone
):
    """t1 is decided again after t2 and t3, in the place of its line."""
    for trace_id in ("t1", "t2", "t3", "t1"):
        with opened(file, rubric) as store:
            store.decide(Decision(trace_id, "alpha"))
    clock = dict(zip(("t2", "t3", "t1"), times, strict=True))
    rows = [one | {"labelled_at": f"2026-01-01T{clock[one['trace_id']]}"} for one in lines(file)]
    if not counted:
        for row in rows:
            del row["sequence"]
    write_labels(file, rows)
    with opened(file, rubric) as store:
        assert [store.undo().trace_id for _ in rows] == undone


ANY = st.text(st.characters(exclude_categories=()), max_size=5)
CODE = st.sampled_from(["alpha", "beta", "gamma", "none", "x"])
DECISIONS = st.builds(
    Decision,
    trace_id=st.sampled_from(["t1", "t2", "t\u2028"]),
    primary=st.none() | CODE,
    secondary=st.lists(CODE, max_size=2).map(tuple),
    evidence=st.lists(
        st.builds(
            lambda text, at: Passage(text, "outcome", at, at + len(text)), ANY, st.integers(-1, 9)
        ),
        max_size=2,
    ).map(tuple),
    quotes=st.lists(ANY, max_size=2).map(tuple),
    note=ANY,
    confidence=st.none() | st.integers(0, 6),
    skipped=st.booleans(),
    seconds=st.none() | st.floats(),
)


@settings(max_examples=60)
@given(
    choice=st.sampled_from(["one", "primary", "many"]),
    steps=st.lists(DECISIONS | st.none() | st.just("withdraw"), max_size=6),
)
def test_what_is_written_can_be_read(tmp_path_factory, choice, steps):
    """Against a model: what each trace is, and how it was before. None undoes, a word takes t1."""
    folder = tmp_path_factory.mktemp("store")
    rubric = make_rubric(folder, choice)
    file = write_labels(folder / "l.jsonl", [label("t1", rubric, "alpha", by="bob")])
    expected, past = {}, []
    with opened(file, rubric) as store:
        for step in steps:
            if step is None:
                done = store.undo()
                assert (done is None) == (not past)
                expected = past.pop() if past else expected
                continue
            if step == "withdraw":
                store.withdraw("t1")
                past += [expected] if "t1" in expected else []
                expected = {key: one for key, one in expected.items() if key != "t1"}
                continue
            before = file.read_bytes()
            try:
                written = store.decide(step)
            except AnnotatorError:
                assert file.read_bytes() == before
                continue
            past.append(expected)
            expected = expected | {written.trace_id: written}
            assert written.note == replace_surrogates(step.note)
        assert store.decisions == expected
    with opened(file, rubric) as store:
        assert store.decisions == expected
    labels = read_labels([file], rubric.scheme())
    assert len(labels.of("bob")) == 1
    read = {one.trace_id: (one.primary, one.secondary) for one in labels.of("ann").values()}
    assert read == {
        trace_id: (one.primary, one.secondary)
        for trace_id, one in expected.items()
        if not one.skipped
    }
    skipped = {trace_id for trace_id, one in expected.items() if one.skipped}
    assert skipped - {"t1"} <= set(labels.unlabelled) <= skipped


# Killed, torn, full, shared


WORKER = """
import sys
from itertools import count
from pathlib import Path
from annotator.labels.decisions import Decision
from annotator.labels.store import LabelStore
from annotator.rubrics import load_rubric

file, rubric, start = sys.argv[1:]
with LabelStore.open(Path(file), "ann", load_rubric(rubric)) as store:
    for n in count(int(start)):
        trace = n % 9 if n % 2 else n
        store.decide(Decision(f"t{trace}", "alpha", note=f"{n} " + "x" * 30_000))
        print(n, trace, flush=True)
"""


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path, file, rubric):
    other = label("t1", rubric, "beta", by="bob", note="not to be touched")
    write_labels(file, [other])
    last: dict[str, int] = {}
    start = 0
    for killed_after in (1, 5, 13, 34):
        command = [sys.executable, "-c", WORKER, file, tmp_path / "faults.yaml", str(start)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as worker:
            for done in worker.stdout:
                n, trace = map(int, done.split())
                last[f"t{trace}"] = n
                if n - start >= killed_after:
                    break
            worker.send_signal(signal.SIGKILL)
            for done in worker.stdout:  # acknowledged before the signal came
                n, trace = map(int, done.split())
                last[f"t{trace}"] = n
        with opened(file, rubric) as store:
            found = {trace: int(one.note.split()[0]) for trace, one in store.decisions.items()}
        assert all(found[trace] >= n for trace, n in last.items())
        assert json.loads(file.read_bytes().split(b"\n")[0]) == other
        start = max(found.values()) + 1
    assert len(read_labels([file], rubric.scheme()).of("ann")) == len(found)


def test_a_torn_end_is_mended_and_told(file, rubric):
    with opened(file, rubric) as store:
        store.decide(Decision("t1", "alpha"))
        store.decide(Decision("t2", "beta", note="ü"))
    whole = file.read_bytes()
    first, end = whole.index(b"\n") + 1, len(whole)
    notes = {first: (), end: (), end - 1: (f"{file}, line 2: had no line end; it has one now",)}
    for cut in range(first, end + 1):
        file.write_bytes(whole[:cut])
        torn = f"{file}, line 2: cut off while it was written, {cut - first} bytes; taken out"
        with opened(file, rubric) as store:
            assert set(store.decisions) == ({"t1", "t2"} if cut >= end - 1 else {"t1"})
            assert store.notes == notes.get(cut, (torn,))
            store.decide(Decision("t3", "gamma"))
        assert [one["trace_id"] for one in lines(file)][-1] == "t3"
        assert file.read_bytes().endswith(b"\n")


def test_a_write_that_fails_leaves_the_file_as_it_was(file, rubric):
    with opened(file, rubric) as store:
        store.decide(Decision("t1", "alpha"))
        before = file.read_bytes()
        for trace_id in ("t2", "t1"):  # appended, and replaced
            with (
                limit_file_size(len(before) + 1000),
                pytest.raises(AnnotatorError, match=r"cannot write .*: File too large"),
            ):
                store.decide(Decision(trace_id, "beta", note="x" * 100_000))
        assert file.read_bytes() == before
        assert store.decisions == {"t1": Decision("t1", "alpha")}
        store.decide(Decision("t2", "beta"))  # and it can go on
        assert store.undo() == Undone("t2", Decision("t2", "beta"), None)
    assert file.read_bytes() == before
    assert sorted(path.name for path in file.parent.iterdir()) == ["faults.yaml", "labels.jsonl"]


def test_one_process_at_a_time(tmp_path, file, rubric):
    link = tmp_path / "link.jsonl"
    with opened(file, rubric):
        link.symlink_to(file)
        for name in (file, link):
            assert "another process labels into this file" in refused(name, rubric, "bob")
    with opened(link, rubric) as store:
        store.decide(Decision("t1", "alpha"))
        store.decide(Decision("t1", "beta"))
    assert link.is_symlink()
    assert lines(file)[0]["primary"] == "beta"


def test_a_change_by_another_program_is_not_overwritten(file, rubric):
    with opened(file, rubric) as store:
        store.decide(Decision("t1", "alpha"))
        with file.open("ab") as out:
            out.write(json.dumps(label("t9", rubric, "beta", by="bob")).encode() + b"\n")
        before = file.read_bytes()
        for change in (lambda: store.decide(Decision("t1", "beta")), store.undo):
            with pytest.raises(AnnotatorError, match="was changed by another program"):
                change()
    assert file.read_bytes() == before


# Files that are none of labels


NOT_LABELS = [
    ("s.csv", b"trace_id,rubric\n", "label into a .jsonl file"),
    ("l.jsonl", b"trace_id,rubric,annotator,primary\nt1,faults,ann,\n", "line 1: not valid JSON"),
    ("l.jsonl", b'{"trace_id": "t1", "rubric": "faults"}\n{"trace_id"\n', "line 2: not valid JSON"),
    ("l.jsonl", b'{"messages": []}\n', "line 1: no label (a JSON object with trace_id and rubric"),
    ("l.jsonl", b'{"trace_id": "\xff", "rubric": "faults"}\n', "line 1: not UTF-8"),
]


@pytest.mark.parametrize(("name", "data", "message"), NOT_LABELS)
def test_a_file_that_is_no_labels_is_refused_and_left_alone(tmp_path, rubric, name, data, message):
    file = tmp_path / name
    file.write_bytes(data)
    assert message in refused(file, rubric)
    assert file.read_bytes() == data
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["faults.yaml", name])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"primary": "alpa"}], "line 2: primary: faults has no code 'alpa', did you mean"),
        ([{"rubric_sha256": "0" * 64}], "line 2: rubric_sha256: labelled with another version"),
        ([{}, {}], "line 3: trace_id: 't1' is decided by 'ann' in line 2 already"),
    ],
)
def test_wrong_labels_of_the_annotator_are_named(file, rubric, rows, message):
    first = label("t0", rubric, "alpha", by="bob")
    write_labels(file, [first, *(label("t1", rubric, "alpha") | one for one in rows)])
    before = file.read_bytes()
    assert message in refused(file, rubric)
    assert file.read_bytes() == before
    with opened(file, rubric, "bob") as store:
        assert set(store.decisions) == {"t0"}


@pytest.mark.parametrize("who", ["", "a\nb", "a" * 101, " ann"])
def test_an_annotator_has_a_name(file, rubric, who):
    assert "expected a name" in refused(file, rubric, who)
    assert not file.exists()


# Passages


TRACE = Trace(
    "t1",
    "generic",
    "t1.json",
    messages=(
        Message(1, "a", (), "So I take it.\n\tÜ 🙂 end"),
        Message(2, "a", (), "one\ntwo", breaks=(3,)),
        Message(3, "env", (), "exit code 1", author="tool"),
    ),
    patches={"a": "+x = 1\n"},
    outcome=Outcome(merge="clean", features=(Feature("f"),), agents=(AgentEnd("a"),)),
)


def place(quote, source="message:1", shift=0):
    start = TRACE.source(source).text.index(quote) + shift
    return Passage(quote, source, start, start + len(quote))


@pytest.mark.parametrize(
    "passages",
    [
        [],
        [place("I take it.\n\tÜ 🙂"), place("two", "message:2"), place("one", "message:2")],
        [place("+x = 1\n", "patch:a"), place("clean", "outcome")],
    ],
)
def test_exact_passages_are_evidence(rubric, passages):
    assert check_passages(TRACE, rubric, passages) is None


@pytest.mark.parametrize(
    ("passage", "problem"),
    [
        (Passage("x", "message:9", 0, 1), 'quote "x" of message:9: the trace has no such text'),
        (place("exit", "message:3"), "faults takes no quotes from the tools, only from messages,"),
        (place("take", shift=1), "other words stand from 6 to 10"),
        (Passage("end", "message:1", -3, 0), "no place from -3 to 0 in 22 characters"),
        (place("\n\t"), "nothing but white space"),
        (place("one\ntwo", "message:2"), "it runs across two pieces"),
    ],
)
def test_what_is_no_exact_passage(rubric, passage, problem):
    assert problem in check_passages(TRACE, rubric, [place("take"), passage])
