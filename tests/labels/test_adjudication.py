"""Two annotators: where they agree, where not, and the gold that comes of it."""

import pytest

from annotator.base.errors import AnnotatorError
from annotator.calibration.matching import GOLD
from annotator.labels import read_labels
from annotator.labels.adjudication import (
    combine_drawing,
    compare_annotators,
    drop_stale_spans,
    find_contradicted,
    merge_agreed,
    write_agreed,
)
from annotator.labels.decisions import Decision
from annotator.labels.model import Passage
from annotator.labels.store import LabelStore
from annotator.traces import Unreadable, read_traces
from tests.calibration.build import label, make_rubric, make_run, said, write_labels
from tests.conftest import run_name, write_run

DRAWN = {"task": "p/1", "split": "dev", "inclusion_probability": 0.25, "design": "d1"}


def span(quote, source="message:1", start=0, code=None):
    end = start + len(quote)
    return {"quote": quote, "source": source, "start": start, "end": end, "code": code}


def labels_of(tmp_path, rubric, *rows):
    return read_labels([write_labels(tmp_path / "l.jsonl", rows)], rubric.scheme())


def pair_of(tmp_path, rubric, ann, bob):
    rows = [
        label("t1", rubric, "alpha", by=who) | more for who, more in [("ann", ann), ("bob", bob)]
    ]
    labels = labels_of(tmp_path, rubric, *rows)
    return labels.of("ann")["t1"], labels.of("bob")["t1"]


@pytest.mark.parametrize(
    ("choice", "ann", "bob", "agreed", "differing", "only_one"),
    [
        # t1: another order of the same codes; t2: none both; t6 and t7: one label
        (
            "primary",
            "t1=alpha,beta,gamma t2= t3=alpha t4=alpha,beta t5=beta,alpha t6=alpha",
            "t7=alpha t5=alpha,beta t4=alpha t3= t2= t1=alpha,gamma,beta",
            *(["t1", "t2"], ["t3", "t4", "t5"], ["t6", "t7"]),
        ),
        ("many", "t1=alpha,beta t2=alpha", "t1=beta,alpha t2=", ["t1"], ["t2"], []),
    ],
)
def test_who_agrees_on_what(tmp_path, choice, ann, bob, agreed, differing, only_one):
    rubric = make_rubric(tmp_path, choice)
    rows = [label("t8", rubric, by="zoe")]
    for who, words in (("ann", ann), ("bob", bob)):
        for word in words.split():
            trace_id, _, codes = word.partition("=")
            rows.append(label(trace_id, rubric, *filter(None, codes.split(",")), by=who))
    readers = compare_annotators(labels_of(tmp_path, rubric, *rows), "ann", "bob")
    assert [one.trace_id for one, _ in readers.agreed] == agreed
    assert [one.trace_id for one in readers.differing] == differing
    pairs = [*readers.agreed, *((one.first, one.second) for one in readers.differing)]
    assert {(one.annotator, other.annotator) for one, other in pairs} == {("ann", "bob")}
    assert readers.only_one == only_one


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("ann", "eve"), "no labels of 'eve', only of ann, bob, zoe"),
        (("ann", "ann"), "two annotators are needed, and 'ann' is one"),
        (("ann", "zoe"), "ann and zoe labelled no trace in common"),
    ],
)
def test_who_cannot_be_compared(tmp_path, rubric, names, message):
    by = {"ann": "t1", "bob": "t1", "zoe": "t2"}
    rows = [label(trace_id, rubric, by=who) for who, trace_id in by.items()]
    with pytest.raises(AnnotatorError, match=message):
        compare_annotators(labels_of(tmp_path, rubric, *rows), *names)


def test_a_trace_that_was_skipped_is_of_one_only(tmp_path, rubric):
    skipped = {"trace_id": "t2", "rubric": "faults", "annotator": "bob", "skipped": True}
    rows = [label(t, rubric, by=by) for t, by in [("t1", "ann"), ("t2", "ann"), ("t1", "bob")]]
    labels = labels_of(tmp_path, rubric, *rows, skipped)
    assert compare_annotators(labels, "ann", "bob").only_one == ["t2"]


# The gold of two labels


def test_the_evidence_of_both_and_no_quote_twice(tmp_path, rubric):
    two = span("two", start=9)
    first = {"evidence": ["one", "two", "three"], "spans": [span("one"), two]}
    second = {"evidence": ["two", "three", "four"], "spans": [two, span("four", code="alpha")]}
    decision, extra = merge_agreed(*pair_of(tmp_path, rubric, first, second))
    evidence = (
        Passage("one", "message:1", 0, 3),
        Passage("two", "message:1", 9, 12),
        Passage("four", "message:1", 0, 4, "alpha"),
    )
    note = "agreed by ann and bob"
    assert decision == Decision("t1", "alpha", evidence=evidence, quotes=("three",), note=note)
    assert extra == {}


def test_columns_are_carried_over(tmp_path, rubric):
    assert combine_drawing(*pair_of(tmp_path, rubric, DRAWN, DRAWN)) == DRAWN
    assert combine_drawing(*pair_of(tmp_path, rubric, DRAWN, {})) == DRAWN
    assert combine_drawing(*pair_of(tmp_path, rubric, {}, {"split": "dev"})) == {"split": "dev"}


@pytest.mark.parametrize(
    ("name", "other", "said"),
    [
        ("inclusion_probability", 0.5, r"0\.25 \(.*line 1\) and 0\.5 \(.*line 2\)"),
        ("task", "p/\x1b2", "p/1 .* and p/\ufffd2 "),
        ("design", "d2", "d1 .* and d2 "),
    ],
)
def test_columns_must_not_contradict_each_other(tmp_path, rubric, name, other, said):
    """Nothing is shown or written before it is known how the traces were drawn."""
    first, second = pair_of(tmp_path, rubric, DRAWN, DRAWN | {name: other})
    labels = read_labels([tmp_path / "l.jsonl"], rubric.scheme())
    with pytest.raises(AnnotatorError, match=f"^{name} of 't1': {said}"):
        combine_drawing(first, second)
    with pytest.raises(AnnotatorError, match=f"^{name} of 't1': {said}"):
        compare_annotators(labels, "ann", "bob")


def test_gold_is_all_that_two_agree_on_and_what_was_settled(annotate_cli, tmp_path, rubric):
    """Three agreed and one settled: the judge, who says alpha of all, is right in 3 of 4."""
    rows = [
        label(f"t{n}", rubric, code, by=by, **DRAWN | {"task": f"p/{n}"})
        for by, codes in [("ann", "alpha alpha alpha beta"), ("bob", "alpha alpha alpha gamma")]
        for n, code in enumerate(codes.split())
    ]
    file = write_labels(tmp_path / "l.jsonl", rows)
    before = file.read_bytes()
    compared = compare_annotators(read_labels([file], rubric.scheme()), "ann", "bob")
    with LabelStore.open(file, GOLD, rubric) as store:
        assert write_agreed(store, compared.agreed) == 3
        (open_,) = compared.differing
        store.decide(Decision("t3", "beta"), combine_drawing(open_.first, open_.second))
        store.decide(Decision("t0", "alpha", note="looked at again"), DRAWN | {"task": "p/0"})
    with LabelStore.open(file, GOLD, rubric) as store:  # another day
        assert write_agreed(store, compared.agreed) == 0
        assert store.decisions["t0"].note == "looked at again"
        assert store.decisions["t1"].note == "agreed by ann and bob"
        assert store.undo({one.trace_id for one in compared.differing}).trace_id == "t3"
        store.decide(Decision("t3", "beta"), combine_drawing(open_.first, open_.second))
    assert file.read_bytes().startswith(before)
    run = make_run(
        tmp_path / "run",
        rubric,
        [said(f"t{n}", "alpha", project="p", task=str(n)) for n in range(4)],
    )
    done = annotate_cli("calibrate", "-v", run, "--labels", file)
    assert done.code == 0, done.err
    assert "4 labels by gold. A uniform random sample. The dev split." in done.out
    assert "agreement (primary code, none is a code)  3/4" in done.out


def test_what_was_skipped_is_written_and_what_was_decided_otherwise_is_named(tmp_path, rubric):
    """They differed on all once: t0 was skipped, t1 decided as both say now, t2 otherwise."""
    rows = [label(f"t{n}", rubric, "alpha", by=by) for by in ("ann", "bob") for n in range(3)]
    compared = compare_annotators(labels_of(tmp_path, rubric, *rows), "ann", "bob")
    with LabelStore.open(tmp_path / "gold.jsonl", GOLD, rubric) as store:
        store.decide(Decision("t0", skipped=True))
        store.decide(Decision("t1", "alpha"))
        store.decide(Decision("t2", "beta"))
        assert find_contradicted(store, compared.agreed) == ["t2"]
        assert write_agreed(store, compared.agreed) == 1
        codes = {trace_id: one.primary for trace_id, one in store.decisions.items()}
        assert codes == {"t0": "alpha", "t1": "alpha", "t2": "beta"}
        assert find_contradicted(store, compared.agreed) == ["t2"]


@pytest.mark.parametrize(
    ("made", "kept"),
    [
        (span("I take a.py"), True),
        (span("I take b.py"), False),
        (span("take", start=3), False),
        (span("I take a.py", source="message:9"), False),
    ],
)
def test_a_place_is_kept_only_where_the_quote_stands(tmp_path, rubric, made, kept):
    write_run(tmp_path / run_name(1), [("agent1", "I take a.py")])
    [trace] = read_traces([str(tmp_path / "logs")])
    more = {"spans": [made], "evidence": [made["quote"]]}
    first, _ = pair_of(tmp_path, rubric, more, {})
    found = drop_stale_spans(first, trace, rubric)
    assert bool(found.spans) is kept
    assert found.evidence == (made["quote"],)
    assert drop_stale_spans(first, Unreadable("t1", "", "gone"), rubric).spans == ()
