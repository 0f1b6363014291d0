"""The index of runs: every count is held against the plain reading of the same annotations."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, replace

import pytest

from annotator.base.errors import AnnotatorError
from annotator.base.files import read_bounded_lines
from annotator.rubrics.annotations import Evidence, Finding, Rejected, read_annotations
from annotator.runs.run import open_run, open_runs
from annotator.web.index import Filter, Index
from annotator.web.reading import read_person_labels
from tests.calibration.build import label, make_rubric, make_run, said, write_labels
from tests.conftest import EXAMPLES
from tests.web.conftest import tool

HOSTILE = "\x1b[31m'); drop table rows; --\u202e"


@pytest.fixture
def opened():
    """Return a function that opens an index and waits for it; all are closed at the end."""
    indexes = []

    def open_(runs, labels=None):
        index = Index(open_runs(runs), labels)
        indexes.append(index)
        index.wait()
        return index

    yield open_
    for one in indexes:
        one.close()


def all_rows(index, **wanted):
    page = index.rows(Filter(**wanted), 0, 1000)
    assert page.total == len(page.rows)
    return page.rows


def ids(index, **wanted):
    return [one.trace_id for one in all_rows(index, **wanted)]


def rejecting(one, *quotes):
    return replace(one, rejected=(Rejected("beta", "quote not found", quotes),))


def quoting(trace_id, quote, rationale="because"):
    evidence = (Evidence(quote, "message:1", 0, len(quote), "exact"),)
    return replace(said(trace_id, "alpha"), findings=(Finding("alpha", rationale, evidence),))


ONE = [
    said("t1", "alpha", passed=False, merge="clean", model="m"),
    said("t2", "beta", "alpha", passed=False, merge="conflicts", model="m"),
    rejecting(said("t3", passed=True, model="n"), "a made-up quote"),
    said("t4", status="skipped", passed=True),
    said("t5", status="failed", passed=None),
    rejecting(said("t6", "gamma", passed=False, seconds=1.5), "another"),
]
TWO = [said("t1", "beta"), said("t7", "alpha", passed=False)]


@pytest.fixture
def two_runs(tmp_path):
    rubric = make_rubric(tmp_path)
    runs = [make_run(tmp_path / "one", rubric, ONE), make_run(tmp_path / "two", rubric, TWO)]
    return rubric, runs


@pytest.fixture
def index(two_runs, opened, tmp_path):
    rubric, runs = two_runs
    rows = [
        label("t1", rubric, "alpha", "gamma"),
        label("t2", rubric, "alpha", "beta"),
        label("t3", rubric),
        label("t4", rubric, "alpha"),
        label("t5", rubric, "alpha"),
    ]
    labels = read_person_labels([write_labels(tmp_path / "labels.jsonl", rows)], open_runs(runs))
    return opened(runs, labels)


def test_rows_in_the_order_of_the_files(index, two_runs):
    rows = all_rows(index)
    given = [(n, one) for n, run in enumerate(two_runs[1]) for one in read_annotations(run)]
    assert [one.number for one in rows] == list(range(1, 9))
    for row, (run, one) in zip(rows, given, strict=True):
        assert (row.run, row.trace_id, row.rubric, row.status) == (
            run,
            one.trace_id,
            one.rubric,
            one.status,
        )
        assert (row.primary, row.secondary) == (one.primary, one.secondary)
        assert (row.findings, row.rejected) == (len(one.findings), len(one.rejected))
        assert row.attributes == one.attributes
    progress = index.progress
    size = sum((run / "annotations.jsonl").stat().st_size for run in two_runs[1])
    assert (progress.annotations, progress.read, progress.bytes) == (8, size, size)
    assert (progress.done, progress.error) == (True, None)


def test_agreement_counts_what_calibrate_counts(index):
    # The primary code alone counts; no code is a label; skipped and failed are not judged.
    agreements = {(one.run, one.trace_id): one.agreement for one in all_rows(index)}
    assert agreements == {
        (0, "t1"): "agrees",
        (0, "t2"): "differs",
        (0, "t3"): "agrees",
        (0, "t4"): None,
        (0, "t5"): None,
        (0, "t6"): "unlabelled",
        (1, "t1"): "differs",
        (1, "t7"): "unlabelled",
    }
    human = {one.trace_id: one.human for one in all_rows(index, run=0)}
    assert (human["t1"], human["t3"], human["t6"]) == (("alpha", "gamma"), ("none",), None)


def test_undecided_is_a_status_of_its_own(tmp_path, opened):
    """It is no judgement: it has no code, not even none, and agrees with nobody."""
    rubric = make_rubric(tmp_path)
    traces = [said("a", "alpha"), said("b"), said("c", status="undecided")]
    run = make_run(tmp_path / "run", rubric, traces)
    rows = [label("c", rubric, "alpha")]
    people = read_person_labels([write_labels(tmp_path / "labels.jsonl", rows)], [open_run(run)])
    index = opened([run], people)
    facets = index.facets(Filter())
    assert dict(facets.status) == {"labelled": 1, "none": 1, "undecided": 1}
    assert dict(facets.code) == {"alpha": 1, "none": 1}
    [one] = all_rows(index, status="undecided")
    assert (one.trace_id, one.agreement) == ("c", None)


def test_agreement_of_many_codes_is_that_of_the_sets(tmp_path, opened):
    rubric = make_rubric(tmp_path, "many")
    run = make_run(tmp_path / "run", rubric, [said("a", "alpha", "beta"), said("b", "alpha")])
    rows = [label("a", rubric, "beta", "alpha"), label("b", rubric, "alpha", "beta")]
    labels = read_person_labels([write_labels(tmp_path / "labels.jsonl", rows)], [open_run(run)])
    found = all_rows(opened([run], labels))
    assert [one.agreement for one in found] == ["agrees", "differs"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, "t1 t2 t3 t4 t5 t6 t1 t7"),
        ({"run": 1}, "t1 t7"),
        ({"run": 2}, ""),
        ({"rubric": "faults"}, "t1 t2 t3 t4 t5 t6 t1 t7"),
        ({"rubric": "others"}, ""),
        ({"status": "labelled"}, "t1 t2 t6 t1 t7"),
        ({"code": "alpha"}, "t1 t2 t7"),
        ({"code": "none"}, "t3"),
        ({"code": "' or true --"}, ""),
        ({"rejected": True}, "t3 t6"),
        ({"rejected": False}, "t1 t2 t4 t5 t1 t7"),
        ({"agreement": "agrees"}, "t1 t3"),
        ({"agreement": "differs"}, "t2 t1"),
        ({"agreement": "unlabelled"}, "t6 t7"),
        ({"attributes": (("passed", "false"),)}, "t1 t2 t6 t7"),
        ({"attributes": (("passed", "false"), ("merge", "clean"))}, "t1"),
        ({"attributes": (("merge", "clean"), ("merge", "conflicts"))}, ""),
        ({"attributes": (("seconds", "1.5"),)}, "t6"),
        ({"attributes": (("no such", "x"),)}, ""),
        ({"code": "alpha", "run": 0, "attributes": (("merge", "conflicts"),)}, "t2"),
        ({"text": "MADE-UP"}, "t3"),
        ({"text": "because of GAMMA"}, "t6"),
        ({"text": "quoted here", "run": 1}, "t1 t7"),
        ({"text": "%"}, ""),
        ({"text": "_"}, ""),
        ({"text": "\ud800"}, ""),
        ({"text": ""}, "t1 t2 t3 t4 t5 t6 t1 t7"),
    ],
)
def test_filters(index, wanted, expected):
    assert ids(index, **wanted) == expected.split()


def test_pages(index):
    page = index.rows(Filter(run=0), 2, 3)
    assert (page.total, [one.trace_id for one in page.rows]) == (6, ["t3", "t4", "t5"])
    assert index.rows(Filter(), 8, 10).rows == ()
    assert index.rows(Filter(), 0, -1).rows == ()


FILTERS = [
    Filter(),
    Filter(run=0),
    Filter(status="labelled"),
    Filter(code="alpha"),
    Filter(code="none", agreement="agrees"),
    Filter(rejected=True, text="t"),
    Filter(attributes=(("passed", "false"), ("merge", "clean"))),
    Filter(attributes=(("no such", "x"),), status="none"),
    Filter(text="beta", attributes=(("model", "m"),)),
    Filter(attributes=(("merge", "clean"), ("merge", "conflicts"))),
]


def without(filter, part):
    if part in ("run", "rubric", "status", "code", "agreement", "rejected"):
        return replace(filter, **{part: None})
    return replace(filter, attributes=tuple(one for one in filter.attributes if one[0] != part))


def values_of(row, part):
    fixed = {
        "run": [str(row.run)],
        "rubric": [row.rubric],
        "status": [row.status],
        "agreement": [row.agreement] if row.agreement else [],
        "rejected": [str(row.rejected > 0).lower()],
        "code": ["none"]
        if row.status == "none"
        else [*filter(None, [row.primary]), *row.secondary],
    }
    if part in fixed:
        return fixed[part]
    value = row.attributes.get(part)
    return [] if value is None else [value if isinstance(value, str) else json.dumps(value)]


def expected_counts(index, filter, part):
    """Count one facet the slow way: every row under all parts of the filter but that one."""
    counts = {}
    for row in index.rows(without(filter, part), 0, 1000).rows:
        for value in values_of(row, part):
            counts[value] = counts.get(value, 0) + 1
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


def same_counts(index, filter, names):
    facets = index.facets(filter)
    for part in ("run", "rubric", "status", "code", "agreement", "rejected"):
        assert list(getattr(facets, part)) == expected_counts(index, filter, part), part
    found = dict.fromkeys(names, 0) | facets.attributes | dict(facets.omitted)
    for name in names:
        expected = expected_counts(index, filter, name)
        if name in facets.attributes:
            assert len(expected) <= 200
            assert list(found[name]) == expected, name
        else:
            assert found[name] == len(expected) > 200, name


@pytest.mark.parametrize("filter", FILTERS)
def test_facets_are_counted_under_the_other_parts(index, filter):
    same_counts(index, filter, ["passed", "merge", "model", "seconds"])


def test_attributes_with_too_many_values_are_omitted_with_their_count(tmp_path, opened):
    # "late" is seen after the first rows are written, "seed" gets its 201st value after that.
    lots = [
        said(f"t{n}", "alpha", seed=n % 250, few=n % 200, task=f"x{n % 3}")
        if n < 300
        else said(f"t{n}", "beta", seed=n % 4, late=f"v{n % 2}")
        for n in range(500)
    ]
    index = opened([make_run(tmp_path / "run", make_rubric(tmp_path), lots)])
    names = ["seed", "few", "task", "late"]
    for one in (
        Filter(),
        Filter(code="beta"),
        Filter(attributes=(("seed", "3"),)),
        Filter(attributes=(("seed", "3"), ("late", "v1"))),
        Filter(attributes=(("task", "x1"),), text="t1"),
    ):
        same_counts(index, one, names)
    assert index.facets(Filter()).omitted == (("seed", 250),)
    assert dict(index.facets(Filter(code="beta")).attributes["seed"]) == dict.fromkeys("0123", 50)
    assert len(ids(index, attributes=(("seed", "3"),))) == 2 + 50


def test_hostile_names_and_values_are_only_data(tmp_path, opened):
    run = make_run(
        tmp_path / "run",
        make_rubric(tmp_path),
        [said(HOSTILE, "alpha", **{HOSTILE: HOSTILE, "a1": "x"}), said("t2", **{"a0 text": "y"})],
    )
    index = opened([run])
    assert ids(index, attributes=((HOSTILE, HOSTILE),)) == [HOSTILE]
    assert ids(index, attributes=(("a0 text", "y"),)) == ["t2"]
    assert ids(index, text=HOSTILE.upper()) == [HOSTILE]
    assert index.facets(Filter()).attributes[HOSTILE] == ((HOSTILE, 1),)
    assert [one.trace_id for _, one in index.annotations(HOSTILE)] == [HOSTILE]
    assert len(all_rows(index)) == 2


@pytest.mark.parametrize(
    ("text", "quote"),
    [("STRASSE", "Straße"), ("straße", "STRASSE"), ("ÉTÉ", "un été"), ("100%", "at 100% of it")],
)
def test_text_is_found_in_any_case(tmp_path, opened, text, quote):
    lots = [quoting("t1", quote), quoting("t2", "nothing"), quoting("t3", "x", f"as {quote}")]
    assert ids(opened([make_run(tmp_path / "r", make_rubric(tmp_path), lots)]), text=text) == [
        "t1",
        "t3",
    ]


def test_text_of_a_row_is_what_is_searched(index):
    assert index.text(3) == "t3\na made-up quote"
    assert index.text(1) == "t1\nbecause of alpha\nquoted here"


def test_annotations_of_a_trace_are_those_of_the_files(index, two_runs):
    found = index.annotations("t1")
    first, second = (next(iter(read_annotations(run))) for run in two_runs[1])
    assert found == [(0, first), (1, second)]
    assert index.annotations("no such trace") == []
    assert (index.first("t1"), index.first("t7"), index.first("no such trace")) == (1, 8, None)


def test_neighbours_are_other_traces(tmp_path, opened):
    one, other = make_rubric(tmp_path), make_rubric(tmp_path, id="others")
    lines = [said(f"t{n}", "alpha") for n in range(3)]
    index = opened([make_run(tmp_path / "run", one, lines, more=[(other, lines[::-1])])])
    # The rows: t0 t1 t2 by one rubric, then t2 t1 t0 by the other.
    near = index.neighbours(3, Filter())
    assert (near.previous.number, near.next.number) == (2, 5)
    assert (near.position, near.total) == (3, 6)
    near = index.neighbours(5, Filter(rubric="others"))
    assert (near.previous.trace_id, near.next.trace_id) == ("t2", "t0")
    assert (near.position, near.total) == (2, 3)
    assert index.neighbours(1, Filter(rubric="others")) is None
    assert index.neighbours(1, Filter()).previous is None
    assert index.neighbours(6, Filter()).next is None
    assert json.dumps(asdict(near))


def test_traces_stand_once(index):
    assert index.traces(1) == [(n, f"t{n}") for n in (1, 2, 3, 4, 5, 6)] + [(8, "t7")]
    assert index.traces(6) == [(6, "t6"), (8, "t7")]
    assert index.traces(7) == [(8, "t7")]
    assert index.traces(9) == []


def damage(lines, what):
    values = [json.loads(line) for line in lines]
    changes = {
        "not JSON": lambda: lines[3] + "{",
        "no annotation": lambda: json.dumps({"trace_id": "x"}),
        "twice": lambda: lines[0],
        "code": lambda: json.dumps(values[1] | {"trace_id": "x", "primary": "omega"}),
        "version": lambda: json.dumps(values[1] | {"trace_id": "x", "rubric_sha256": "0" * 64}),
        "rubric": lambda: json.dumps(values[1] | {"trace_id": "x", "rubric": "others"}),
        "no number": lambda: json.dumps(values[1] | {"usage": {"cost_usd": math.nan}}),
        "no attribute": lambda: json.dumps(values[1] | {"attributes": {"model": math.nan}}),
    }
    return [*lines[:3], changes[what](), *lines[4:]]


@pytest.mark.parametrize(
    ("what", "said_"),
    [
        ("not JSON", "not an annotation"),
        ("no annotation", "not an annotation: rubric"),
        ("no number", "not an annotation: usage.cost_usd"),
        ("no attribute", "Out of range float"),
        ("twice", "'t1' has a second annotation by faults"),
        ("code", "x: 'omega' is no code of faults"),
        ("version", "x was judged by another version of faults"),
        ("rubric", "x: rubric 'others' is not one of the run"),
    ],
)
def test_damage_is_told_with_its_line_and_what_is_before_it_stays(two_runs, what, said_):
    file = two_runs[1][0] / "annotations.jsonl"
    lines = damage(file.read_text().splitlines(), what)
    file.write_text("\n".join(lines) + "\n")
    with closing(Index(open_runs(two_runs[1]))) as index:
        with pytest.raises(AnnotatorError) as error:
            index.wait()
        assert str(error.value) == index.progress.error
        assert f"{file}, line 4: " in str(error.value)
        assert said_ in str(error.value)
        assert index.progress.done
        assert ids(index) == ["t1", "t2", "t3"]


def test_lines_lost_from_a_finished_run(two_runs):
    file = two_runs[1][1] / "annotations.jsonl"
    file.write_text(file.read_text().splitlines()[0] + "\n")
    with closing(Index(open_runs(two_runs[1]))) as index:
        with pytest.raises(AnnotatorError, match="recorded 2 annotations, 1 are left"):
            index.wait()
        assert len(all_rows(index)) == 7


def test_a_run_that_is_being_written(two_runs, opened):
    folder = two_runs[1][0]
    manifest = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(manifest | {"status": "running"}))
    file = folder / "annotations.jsonl"
    file.write_text(file.read_text()[:-20])
    assert ids(opened(two_runs[1]), run=0) == ["t1", "t2", "t3", "t4", "t5"]


def test_progress_of_a_growing_run_ends_at_all_of_it(two_runs, monkeypatch):
    path = two_runs[1][1] / "annotations.jsonl"
    more = path.read_text().replace('"t1"', '"t8"').replace('"t7"', '"t9"')

    def grow(file):
        if more not in path.read_text():
            with path.open("a") as out:
                out.write(more)
        yield from read_bounded_lines(file)

    monkeypatch.setattr("annotator.web.index.read_bounded_lines", grow)
    with closing(Index(open_runs(two_runs[1]))) as index:
        with pytest.raises(AnnotatorError):
            index.wait()
        assert index.progress.read == index.progress.bytes


def test_a_run_that_is_written_anew_meanwhile_is_read_as_it_was(two_runs, opened):
    index = opened(two_runs[1])
    file = two_runs[1][0] / "annotations.jsonl"
    part = file.with_name("part")
    part.write_text("")
    part.replace(file)
    assert ids(index, run=0) == ["t1", "t2", "t3", "t4", "t5", "t6"]


def test_no_trace_gets_the_annotation_of_another_from_a_file_changed_in_its_place(tmp_path, opened):
    lines = [said(trace, "alpha") for trace in ("t1", "t2")]
    run = make_run(tmp_path / "run", make_rubric(tmp_path), lines)
    index = opened([run])
    file = run / "annotations.jsonl"
    first, second = file.read_text().splitlines(keepends=True)
    assert len(first) == len(second)
    file.write_text(second + first)
    for ask in (lambda: index.annotations("t1"), lambda: index.text(1), lambda: ids(index)):
        with pytest.raises(AnnotatorError, match="changed since it was read"):
            ask()


@pytest.mark.parametrize("missing", ["run.json", "annotations.jsonl"])
def test_no_run(two_runs, missing):
    (two_runs[1][1] / missing).unlink()
    with pytest.raises(AnnotatorError, match=str(two_runs[1][1])):
        Index(open_runs(two_runs[1]))


def test_a_run_without_annotations_has_no_rows(tmp_path, opened):
    index = opened([make_run(tmp_path / "run", make_rubric(tmp_path), [])])
    assert (all_rows(index), index.facets(Filter()).status, index.traces(1)) == ((), (), [])
    assert (index.neighbours(1, Filter()), index.annotations("t1")) == (None, [])


def test_many_threads_read_while_it_is_filled(tmp_path):
    """Facets, page and progress of one moment must never contradict each other."""
    lots = [said(f"t{n}", "alpha", task=f"x{n % 7}", number=n) for n in range(8_000)]
    run = make_run(tmp_path / "run", make_rubric(tmp_path), lots)

    def look(index):
        sums = []
        done = False
        while not done:
            progress = index.progress
            done = progress.done
            facets = index.facets(Filter())
            total = index.rows(Filter(), 0, 10).total
            counted = sum(n for _, n in facets.status)
            assert progress.annotations <= counted <= total
            assert counted == sum(n for _, n in facets.code)
            assert counted == sum(n for _, n in facets.attributes.get("task", ()))
            index.neighbours(1, Filter())
            sums.append(counted)
        assert sums == sorted(sums)
        return sums[-1]

    with closing(Index([open_run(run)])) as index, ThreadPoolExecutor(4) as pool:
        assert list(pool.map(look, [index] * 4)) == [8_000] * 4
        index.wait()
        assert index.facets(Filter()).omitted == (("number", 8_000),)


def test_closing_does_not_wait_for_the_end(tmp_path):
    lots = [said(f"t{n}", "alpha") for n in range(8_000)]
    index = Index([open_run(make_run(tmp_path / "run", make_rubric(tmp_path), lots))])
    index.close()
    assert index.progress.annotations < 8_000


# --- whose label decides


def test_labels_of_rubrics_of_the_runs_only(two_runs, tmp_path):
    rubric, runs = two_runs
    other = make_rubric(tmp_path, id="others")
    rows = [label("t1", rubric, "alpha"), label("t1", other, "beta")]
    labels = read_person_labels([write_labels(tmp_path / "l.jsonl", rows)], open_runs(runs))
    assert {name: list(own) for name, own in labels.items()} == {"faults": ["t1"]}
    with pytest.raises(AnnotatorError, match="labels are for others, the runs judged by faults"):
        read_person_labels([write_labels(tmp_path / "l.jsonl", rows[1:])], open_runs(runs))


def test_gold_decides_and_without_it_all_are_shown(two_runs, tmp_path, opened):
    rubric, runs = two_runs
    people = [label("t1", rubric, "alpha", by="A"), label("t1", rubric, "beta", by="B")]
    file = write_labels(tmp_path / "l.jsonl", people)
    for names, expected in (((), "alpha beta"), ("B", "beta"), ("BA", "beta alpha")):
        labels = read_person_labels([file], open_runs(runs), names)
        assert [one.primary for one in labels["faults"]["t1"]] == expected.split()
        assert all_rows(opened(runs, labels), text="t1")[0].human == (expected.split()[0],)
    write_labels(file, [*people, label("t1", rubric, "gamma", by="gold")])
    [gold] = read_person_labels([file], open_runs(runs))["faults"]["t1"]
    assert gold.primary == "gamma"


def test_labels_of_the_test_split_are_not_looked_at(two_runs, tmp_path):
    rubric, runs = two_runs
    rows = [label("t1", rubric, "alpha", split="dev"), label("t2", rubric, "beta", split="test")]
    rows.append(label("t1", rubric, "beta", by="B", split="test"))
    file = write_labels(tmp_path / "l.jsonl", rows)
    labels = read_person_labels([file], open_runs(runs))["faults"]
    assert {trace_id: len(own) for trace_id, own in labels.items()} == {"t1": 1}
    write_labels(file, rows[1:2])
    with pytest.raises(AnnotatorError, match="held-out test set"):
        read_person_labels([file], open_runs(runs))


def test_labels_for_another_version_of_a_rubric(two_runs, tmp_path):
    rubric, runs = two_runs
    rows = [label("t1", rubric, "alpha", rubric_sha256="0" * 64)]
    with pytest.raises(AnnotatorError, match="another version"):
        read_person_labels([write_labels(tmp_path / "l.jsonl", rows)], open_runs(runs))


# --- runs made by the command


def test_examples(tmp_path, opened):
    out = tmp_path / "run"
    tool(EXAMPLES, "--rubric", "symptoms", "--rubric", "emergent", "--out", out, cwd=tmp_path)
    index = opened([out])
    for one in (Filter(), Filter(rubric="symptoms"), Filter(code="work_overlap")):
        same_counts(index, one, ["passed", "merge", "model", "project", "task"])


def test_real_runs(tmp_path, shared_data, opened):
    out = tmp_path / "run"
    logs = shared_data / "cooperbench" / "logs"
    tool(logs, "--rubric", "symptoms", "--out", out, cwd=tmp_path)
    labels = read_person_labels([shared_data / "labels" / "cooperbench_dev.jsonl"], [open_run(out)])
    index = opened([out], labels)
    assert len(all_rows(index)) == 263
    for one in (
        Filter(),
        Filter(agreement="differs"),
        Filter(status="skipped", attributes=(("setting", "coop"),)),
        Filter(code="none", text="a"),
    ):
        same_counts(index, one, ["passed", "merge", "model", "project", "task", "run_name"])
    agreement = dict(index.facets(Filter()).agreement)
    assert sum(agreement.get(one, 0) for one in ("agrees", "differs")) > 0
    assert sum(agreement.values()) <= 263
