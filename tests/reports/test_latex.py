"""Tables for a paper: pdflatex sets them, whatever strangers put into names."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from annotator.reports.formats import latex
from annotator.reports.table import Table
from tests.calibration.build import label, make_rubric, make_run, said
from tests.conftest import EXAMPLES
from tests.reports.test_formats import NAMES, renamed, traces

PACKAGES = {"pdflatex": "texlive-latex-recommended", "pdftotext": "poppler-utils"}


def words(document: str, folder: Path) -> str:
    """The text of the page that pdflatex makes; any error of it fails the test."""
    for program, package in PACKAGES.items():
        if not shutil.which(program):
            pytest.skip(f"no {program} here: apt-get install {package}")
    (folder / "paper.tex").write_text(
        "\\documentclass{article}\n\\usepackage{booktabs,graphicx}\n\\usepackage[T1]{fontenc}\n"
        f"\\begin{{document}}\n{document}\n\\end{{document}}\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "paper.tex"],
        cwd=folder,
        capture_output=True,
        timeout=120,
    )
    said_ = done.stdout.decode(errors="replace")
    assert done.returncode == 0, said_[-2000:]
    assert "Missing character" not in said_
    assert "multiply defined" not in said_
    read = subprocess.run(
        ["pdftotext", "-layout", "paper.pdf", "-"], cwd=folder, capture_output=True, check=True
    )
    return read.stdout.decode()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", make_rubric(tmp_path, id="first"), traces())


def printed(annotate_cli, *arguments: object) -> str:
    done = annotate_cli(*arguments, "--format", "latex")
    assert done.code == 0, done.err
    text: str = done.out
    return text


@pytest.fixture
def calibrated(calibrate, tmp_path: Path, run: Path):
    rubric = make_rubric(tmp_path, id="first")
    rows = [label(f"t{m}", rubric, *(["alpha"] if m % 6 == 0 else [])) for m in range(48)]
    return calibrate(run, rows)


def test_every_kind_of_table_can_be_set(annotate_cli, tmp_path, run, calibrated):
    reports = [
        ("report", run),
        ("report", run, "--meanings"),
        ("report", run, *calibrated),
        ("report", run, "--by", "model"),
        ("compare", run, "--by", "model", "--values", "m1", "m2", *calibrated),
        ("report", run, "--co-occurrence"),
        ("stats", EXAMPLES, "--by", "setting"),
    ]
    for arguments in reports:
        text = printed(annotate_cli, *arguments)
        assert text.startswith("% Needs ")
        labels = re.findall(r"\\label{(.*?)}", text)
        assert len(labels) == len(set(labels)) == len(re.findall(r"\\begin{table\*?}", text))
        words(text, tmp_path)


def test_a_caption_has_two_sentences_and_the_notes_are_below_the_table(
    annotate_cli, run, calibrated
):
    for more in ((), calibrated):
        text = printed(annotate_cli, "report", run, *more)
        [caption] = re.findall(r"\\caption{(.*)}", text)
        assert re.fullmatch(
            r"first v1 \(\w+\); judge llm:m \(\w+\); judged 60 \(labelled 30, none 30\);"
            r" skipped 0; failed 0\."
            r" Counted: traces with the code as primary, with 95 \\% intervals\.",
            caption,
        )
        [document] = json.loads(annotate_cli("report", run, *more, "--format", "json").out)
        below = text[text.index(r"\end{tabular}}") :]
        assert document["notes"]
        assert all(latex.escape(note) in below for note in document["notes"])
        assert "labels: where the judge gave the code + others" in below
        assert "design unknown" not in below


def test_none_is_ruled_off(annotate_cli, run):
    lines = printed(annotate_cli, "report", run).splitlines()
    none = next(n for n, line in enumerate(lines) if line.startswith("none &"))
    assert (lines[none - 1], lines[none + 1]) == (r"\midrule", r"\bottomrule")


def test_names_of_strangers_are_shown_and_run_nothing(annotate_cli, tmp_path):
    codes = [f"c{n}" for n in range(len(NAMES))]
    rubric = make_rubric(tmp_path, "primary", codes, id="first")
    ones = [said(f"t{n}", code, who=NAMES[n]) for n, code in enumerate(codes)]
    run = make_run(tmp_path / "run", rubric, ones, judge=f"llm:{NAMES[4]}{NAMES[5]}")
    renamed(run, dict(zip(codes, NAMES, strict=True)))
    for kind in ((), ("--by", "who"), ("--co-occurrence",)):
        text = words(printed(annotate_cli, "report", run, *kind), tmp_path)
        if text:
            assert r"\input{/etc/passwd}" in text
            assert r"\write18{touch x} $x^2$ 100%" in text
            assert "root:" not in text
            assert "[U+534F][U+8C03]" in text


def test_every_character_can_be_set(tmp_path):
    """All of ASCII beside each other in both directions, and the first thousand of Unicode."""
    ascii_ = "".join(map(chr, range(33, 127)))
    many = [chr(n) for n in range(32, 1400)] + ["\ufffd", "ﬁ", "⁉", "😀", "e\u0301", "\ud800"]
    rows = [(ascii_, "1"), (ascii_[::-1], "-0.5"), *((f"[{char}", "-") for char in many)]
    rows += [(f"*{char}{char}", "-") for char in ascii_]
    tables = [
        Table(rows[start][0], ("[", "%"), rows[start : start + 40], last=True, name="all")
        for start in range(0, len(rows), 40)
    ]
    text = words(latex.render([*tables, Table(notes=[ascii_])]), tmp_path)
    if text:
        assert "--" in text  # not made one dash
        assert "[é" in text
        assert "[[U+FFFD]" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a_b", r"a\_b"),
        ("{\\x}", r"\{\textbackslash{}x\}"),
        ("--all ''", "-{}-all '{}'"),
        ("<0.1", r"\textless{}0.1"),
        ("naïve Łódź", "naïve Łódź"),
        ("中", "[U+4E2D]"),
        ("a\n\x1b b\u202e", "a [U+FFFD] b[U+FFFD]"),
    ],
)
def test_escape(text, expected):
    assert latex.escape(text) == expected


def test_labels_are_distinct_and_plain():
    names = ("a", "a", "a}\\x", "中", "")
    tables = [Table(header=("code",), rows=[("x",)], name=name) for name in names]
    labels = re.findall(r"\\label{(.*)}", latex.render(tables))
    assert labels == ["tab:a", "tab:a-2", "tab:a-x", "tab:table", "tab:table-2"]


def test_more_tables_than_latex_keeps_waiting(tmp_path):
    words(latex.render([Table("b", ("code",), [("x",)], name="a")] * 90), tmp_path)


def test_a_minus_is_one(tmp_path):
    table = Table(header=("a", "b", "c"), rows=[("x", "-1.5", "-")])
    [row] = re.findall(r"^x.*", table.to("latex"), re.M)
    assert row == r"x & $-$1.5 & -- \\"


def test_a_wide_table_takes_both_columns_of_a_paper(annotate_cli, run, calibrated):
    narrow = printed(annotate_cli, "report", run, "--no-calibration")
    wide = printed(annotate_cli, "report", run, *calibrated)
    for text, place in ((narrow, "table"), (wide, "table*")):
        begun = re.findall(r"\\(?:begin|end){(table\*?)}", text)
        assert set(begun) == {place}
