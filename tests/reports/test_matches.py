"""Which codes of two runs or inductions match, by their findings on the same traces."""

import json
from dataclasses import replace

import pytest

import annotator as an
from annotator.induction.codebook import Codebook, InducedCode, OpenFinding, save_codebook
from annotator.rubrics.annotations import Evidence
from tests.calibration.build import make_rubric, make_run, said

N = 40
# 40 traces of 20 tasks. a and p agree on 36: 12 with both, 2 with either alone. By hand:
# po = 36/40, pe = .35 * .35 + .65 * .65 = .545, kappa = .355 / .455.
# b and q: 5 with both, 7 with either alone: po = 26/40, pe = .3 * .3 + .7 * .7, kappa = .07 / .42.
# c and r are in the same four traces, too few for an interval.
FIRST = {"a": range(14), "b": range(20, 32), "c": range(32, 36), "d": ()}
SECOND = {
    "p": [*range(12), 14, 15],
    "q": [16, 17, 18, *range(27, 32), *range(36, 40)],
    "r": range(32, 36),
}
KAPPAS = {("a", "p"): 0.355 / 0.455, ("c", "r"): 1.0}
MOVED = range(3)  # the traces in which p has another quote than a


def annotate_traces(codes, moved=()):
    for n in range(N):
        annotation = said(
            f"t{n}", *[code for code, ns in codes.items() if n in ns], task=str(n // 2)
        )
        if n in moved:
            evidence = (Evidence("and here", "message:1", 11, 19, "exact"),)
            findings = tuple(replace(x, evidence=evidence) for x in annotation.findings)
            annotation = replace(annotation, findings=findings)
        yield annotation


@pytest.fixture
def folders(tmp_path):
    """Two runs by rubrics of their own. Each has traces that the other did not judge."""
    for name, codes, moved in (("one", FIRST, ()), ("two", SECOND, MOVED)):
        rubric = make_rubric(tmp_path, "many", codes, id=name)
        more = [said(f"{name} alone", next(iter(codes))), said("open", status="undecided")]
        make_run(tmp_path / "runs" / name, rubric, [*annotate_traces(codes, moved), *more])
    return tmp_path / "runs" / "one", tmp_path / "runs" / "two"


def test_codes_match_by_kappa_over_the_traces_both_judged(folders):
    result = an.match_codes(*folders)
    assert (result.n, result.tasks) == (40, 20)
    found = {(x.first, x.second): x for x in result.matches}
    assert {pair: x.kappa.value for pair, x in found.items()} == pytest.approx(KAPPAS)
    match = found["a", "p"]
    assert (match.verdict, match.n, match.first_count, match.second_count, match.both) == (
        *("match", 40, 14, 14, 12),
    )
    assert match.overlaps == 12 - len(MOVED)
    assert found["c", "r"].verdict == "open"
    [lone, absent], [other] = result.only_first, result.only_second
    assert (absent.code, absent.count, absent.n, absent.nearest) == ("d", 0, 40, None)
    assert (lone.code, lone.count, lone.n, other.code, other.count) == ("b", 12, 40, "q", 12)
    assert lone.nearest == other.nearest
    assert lone.nearest.kappa.value == pytest.approx(0.07 / 0.42)
    assert lone.nearest.kappa.low < 0


def test_the_table_fits_a_terminal(annotate_cli, folders):
    done = annotate_cli("rubric", "diff", *folders)
    assert done.code == 0
    table = done.raw.split("code of A")[1].split("In none")[0]
    assert max(map(len, table.splitlines())) <= 80
    rows = [line.split() for line in done.out.splitlines()]
    assert ["a", "p", "14", "14", "12", "0.78"] in [row[:6] for row in rows]
    assert ["c", "r", "4", "4", "4", "1.00", "-", "4/4"] in rows
    assert "In none of these traces, of A: d" in done.out
    document = json.loads(annotate_cli("rubric", "diff", *folders, "--json").out)
    [value] = [x["kappa"]["value"] for x in document[0]["matches"] if x["first"] == "a"]
    assert value == pytest.approx(0.355 / 0.455)


def make_codebook(codes):
    evidence = (Evidence("quoted here", "message:1", 0, 11, "exact"),)
    findings = [
        OpenFinding(f"t{n}#{code}", f"t{n}", code, "so", evidence)
        for code, ns in codes.items()
        for n in ns
    ]
    induced = [
        InducedCode(code, code, "x", "x", findings=tuple(f"t{n}#{code}" for n in ns))
        for code, ns in codes.items()
    ]
    traces = {f"t{n}": {"task": str(n // 2)} for n in range(N)}
    return Codebook("Induced", "m", tuple(induced), tuple(findings), traces)


def test_an_induction_is_compared_as_a_run_is(annotate_cli, folders, tmp_path):
    folder = tmp_path / "induced"
    folder.mkdir()
    save_codebook(make_codebook(SECOND), folder)
    by_run = an.match_codes(folders[0], folders[1])
    for source in (make_codebook(SECOND), folder):
        result = an.match_codes(folders[0], source)
        assert [x.kappa for x in result.matches] == [x.kappa for x in by_run.matches]
        assert result.matches[0].overlaps == 12  # here all quotes are the same
    assert f"B: {folder}" in annotate_cli("rubric", "diff", folders[0], folder).out


def test_a_group_of_narrow_codes_matches_a_wide_code(folders):
    narrow = {"p1": SECOND["p"][:6], "p2": SECOND["p"][6:], "q": SECOND["q"]}
    book = make_codebook(narrow)
    groups = {"p1": "wide", "p2": "wide", "q": "other"}
    codes = tuple(replace(code, group=groups[code.id]) for code in book.codes)
    found = {x.first: x for x in an.match_codes(folders[0], replace(book, codes=codes)).matches}
    assert found["a"].second == "wide (group)"
    assert (found["a"].verdict, found["a"].second_count) == ("match", 14)
    assert found["a"].kappa.value == pytest.approx(KAPPAS["a", "p"])


def test_codes_of_a_run_with_two_rubrics_have_their_names(folders, tmp_path):
    rubrics = [
        make_rubric(tmp_path, "many", codes, id=name)
        for name, codes in (("one", FIRST), ("two", SECOND))
    ]
    both = make_run(
        tmp_path / "both",
        rubrics[0],
        annotate_traces(FIRST),
        more=[(rubrics[1], annotate_traces(SECOND))],
    )
    result = an.match_codes(folders[1], both)
    assert ("p", "two.p", 1.0) in [(x.first, x.second, x.kappa.value) for x in result.matches]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["runs/one", "symptoms"], "symptoms: neither a run nor an induction"),
        (["symptoms", "runs/one"], "symptoms: neither a run nor an induction"),
        (["runs/one", "other"], "judged no trace in common (one alone and 40 more; x)"),
        (["symptoms", "mast", "--json"], "--json is for two runs or inductions"),
    ],
)
def test_what_cannot_be_compared(annotate_cli, folders, tmp_path, arguments, message):
    make_run(tmp_path / "other", make_rubric(tmp_path, "many"), [said("x", "alpha")])
    done = annotate_cli("rubric", "diff", *arguments)
    assert done.code == 2
    assert message in done.err


def test_codes_that_a_judge_has_no_rule_for_are_named(annotate_cli, folders, tmp_path):
    rubric = make_rubric(tmp_path, "many", FIRST, id="one")
    some = make_run(tmp_path / "some", rubric, annotate_traces(FIRST), known=["a", "c"])
    out = annotate_cli("rubric", "diff", some, folders[1]).out
    assert f"{some}: the judge has no rule for b, d." in out
    assert "Only in A: 0, only in B: 1." in out


def test_pairs_that_do_not_match_take_no_code_from_one_that_does():
    # By hand: a and p are both in 10 traces, and either alone in 8: kappa = .255 / .455. a and q
    # in 8 and 12, b and p in 7 and 12: kappa .34 and .32, together more, with intervals around 0.
    first = {"a": range(14), "b": [1, 2, 3, 5, 6, 20, 22, 27, 31, 33, 34, 36]}
    second = {
        "p": [*range(10), *range(20, 24)],
        "q": [1, 3, *range(7, 13), 24, 26, 30, 31, 34, 35],
    }
    result = an.match_codes(make_codebook(first), make_codebook(second))
    [match] = result.matches
    assert (match.first, match.second, match.verdict) == ("a", "p", "match")
    assert match.kappa.value == pytest.approx(0.255 / 0.455)
    assert [code.nearest.second for code in result.only_first] == ["p"]
