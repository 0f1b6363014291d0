"""One table in every format: the same numbers, and names of strangers that do nothing in any."""

import csv
import io
import json
import os
import pty
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from pyarrow import parquet as pq

from annotator.base.text import sanitize_line
from annotator.cli import main
from annotator.reports.formats import parquet
from annotator.reports.frequency import count_frequencies
from annotator.reports.table import flatten, render
from annotator.reports.tables.frequency import tabulate
from annotator.runs.run import open_run
from tests.calibration.build import label, make_rubric, make_run, said
from tests.conftest import unwrap
from validation import compute_wilson_interval

# (value of --by, code) -> count, n, percent, interval, then as far as there are such columns:
# bounds; primary or secondary; corrected percent, corrected interval, labels, mark.
Numbers = dict[tuple[str, str], tuple[str, ...]]
TEXT = ("table", "csv", "json", "md", "latex")
FORMATS = (*TEXT, "parquet")


def on_screen(*arguments: object, columns: int = 250, **env: str) -> str:
    """What a command prints on a terminal."""
    ours, its = pty.openpty()

    def read() -> Iterator[bytes]:
        with suppress(OSError):  # Linux says so at the end
            while part := os.read(ours, 65536):
                yield part

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as thread:
        patch.delenv("NO_COLOR", raising=False)
        for name, value in ({"TERM": "xterm", "COLUMNS": str(columns)} | env).items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["annotate", *map(str, arguments)])
        printed = thread.submit(lambda: b"".join(read()))
        patch.setattr(sys, "stdout", os.fdopen(its, "w", encoding="utf-8"))
        with pytest.raises(SystemExit) as stop:
            main()
        sys.stdout.close()
    os.close(ours)
    assert not stop.value.code
    return printed.result().decode().replace("\r\n", "\n")


def plain(text: str) -> str:
    """Text of a terminal without weights."""
    return re.sub("\x1b\\[[0-9;]*m", "", text)


# Readers


LATEX = {r"\textless{}": "<", r"\textgreater{}": ">", r"\_": "_", "&": "|", "--": "-"}


def from_lines(text: str) -> Numbers:
    """Rows of a table for people: a code, two counts and more, with blanks or bars between."""
    found: Numbers = {}
    group = ""
    for line in text.replace(" (group)", "(group)").splitlines():
        if re.search(r"v\d+ \(\w+\).*judge ", line):
            match = re.search(r"[ ;] (?!n )\S+ = ([^\s;]+)", line)
            group = match[1] if match else ""
        for old, new in LATEX.items():
            line = line.replace(old, new)
        code, *cells = re.findall(r"\[[^]]*\]|[^\s|\\]+", line) or [""]
        if len(cells) > 3 and all(re.fullmatch(r"\d+|-", cell) for cell in cells[:2]):
            found[group, code] = tuple(cells)
    return found


def named(row: Mapping[str, object]) -> str:
    return f"{row['code']}(group)" if row["kind"] == "group" else str(row["code"])


def from_csv(text: str) -> Numbers:
    rows = [{key: cell or None for key, cell in row.items()} for row in csv_rows(text)]
    return from_values([(row["rubric"], row["attribute_value"] or "", row) for row in rows])


def csv_rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def from_values(rows: list[tuple[str, str, Mapping[str, object]]]) -> Numbers:
    """Rows of JSON or Parquet: the rubric, the group's value, the row."""
    found = {}
    bounded = {group for _, group, row in rows if row["bounds_percent"] not in (None, "-")}
    for rubric, group, row in rows:
        count = row["k"] if "k" in row else row["count"]
        cells = [count, row["n"], row["percent"], row["interval_percent"]]
        cells += [row["bounds_percent"]] if group in bounded else []
        cells += [row["primary_or_secondary"]] if rubric == "first" else []
        if row.get("mark"):
            labels = f"{row['labels_flagged']}+{row['labels_missed']}"
            corrected = row["corrected_percent"], row["corrected_interval_percent"]
            cells += [*corrected, labels, row["mark"]]
        shown = ("-" if cell is None else str(cell) for cell in cells)
        found[group, named(row)] = tuple(shown)
    return found


def from_json(text: str) -> Numbers:
    return from_values(
        [
            (table["rubric"], (table["group"] or {}).get("value", ""), row | {"kind": kind})
            for table in json.loads(text)
            for kind, rows in (("code", table["rows"]), ("group", table["code_groups"]))
            for row in rows
        ]
    )


def from_parquet(file: Path) -> Numbers:
    rows = pq.read_table(file).to_pylist()
    return from_values([(row["rubric"], row["attribute_value"] or "", row) for row in rows])


READERS: dict[str, Callable[[str], Numbers]] = {
    **dict.fromkeys(("table", "md", "latex"), from_lines),
    "csv": from_csv,
    "json": from_json,
}


def read_all(annotate_cli, *arguments: object) -> dict[str, Numbers]:
    """The numbers of one report in every format."""
    found = {}
    for name, reader in READERS.items():
        done = annotate_cli("report", "-v", *arguments, "--format", name)
        assert done.code == 0, done.err
        found[name] = reader(done.out)
    file = Path("report.parquet").resolve()
    done = annotate_cli("report", "-v", *arguments, "--format", "parquet", "--out", file)
    assert (done.code, done.out) == (0, ""), done.err
    return found | {"parquet": from_parquet(file)}


def same(found: dict[str, Numbers]) -> Numbers:
    expected = found["json"]
    assert expected
    for name in FORMATS:
        assert found[name] == expected, name
    return expected


# Runs


@pytest.fixture
def first(tmp_path: Path):
    """A rubric with a primary code."""
    return make_rubric(tmp_path, "primary", id="first")


def traces(n: int = 60):
    """A third alpha (every second with beta besides), a sixth beta, the rest none; two models."""
    codes = [("alpha", "beta"), ("alpha",), ("beta",), (), (), ()]
    return [
        said(f"t{m}", *codes[m % 6], project="p", task=str(m % 24), model=f"m{m % 4 % 3}")
        for m in range(n)
    ]


# The same numbers


def test_a_primary_rubric(annotate_cli, tmp_path, first):
    """Wilson for 20 of 60: [.2273, .4594], 10 of 60: [.0932, .2803] (by hand from its formula).

    Over 24 tasks, of which 8 have nothing but alpha: sum of (k_g - n_g / 3)^2 = 34.667, variance
    24/23 of it over 60^2, design effect 2.713, 22.12 effective traces, t on 23 = 2.0687: [.1686,
    .5521].
    """
    run = make_run(tmp_path / "run", first, traces(), known=("alpha", "beta"))
    alone = same(read_all(annotate_cli, run, "--cluster", "none"))
    assert alone["", "alpha"] == ("20", "60", "33.3", "[22.7, 45.9]", "20")
    assert alone["", "beta"] == ("10", "60", "16.7", "[9.3, 28.0]", "20")
    found = same(read_all(annotate_cli, run))
    assert found["", "alpha"] == ("20", "60", "33.3", "[16.9, 55.2]", "20")
    assert found["", "gamma"] == ("-", "60", "-", "-", "-")
    assert found["", "none"][:3] == ("30", "60", "50.0")
    [table] = json.loads(annotate_cli("report", "-v", run, "--format", "json").out)
    gamma = table["rows"][2]
    assert [gamma[key] for key in ("code", "k", "value", "low")] == ["gamma", None, None, None]
    assert gamma["reason"] == "the judge has no rule for this code"
    assert any("unknown, not 0" in note for note in table["notes"])


def test_groups(annotate_cli, tmp_path, first):
    run = make_run(tmp_path / "run", first, traces())
    found = same(read_all(annotate_cli, run, "--by", "model"))
    assert {group: found[group, "alpha"][1] for group in ("m0", "m1", "m2")} == {
        "m0": "30",  # of every four, 0 and 3
        "m1": "15",
        "m2": "15",
    }


def test_a_calibrated_table(annotate_cli, calibrate, tmp_path, first):
    run = make_run(tmp_path / "run", first, traces(), known=("alpha", "beta"))
    rows = [label(f"t{m}", first, *(["alpha"] if m % 6 == 0 else [])) for m in range(48)]
    options = calibrate(run, rows)
    found = same(read_all(annotate_cli, run, *options))
    assert all(len(cells) == 9 for cells in found.values())
    # Of 16 labelled traces with alpha 8 are right, of the 32 others none is alpha: 1/3 * 1/2.
    assert found["", "alpha"][5] == "16.7"
    assert found["", "alpha"][7] == "16+0"


def test_several_codes_in_a_trace(annotate_cli, tmp_path):
    """Wilson for 6, 1 and 0 of 6: [.6097, 1], [.0300, .5635], [0, .3903] (by hand)."""
    rubric = make_rubric(tmp_path, "many", id="many")
    ones = [said(f"t{m}", "alpha", *(["beta"] if m == 0 else [])) for m in range(6)]
    found = same(read_all(annotate_cli, make_run(tmp_path / "run", rubric, ones)))
    assert found["", "alpha"] == ("6", "6", "100.0", "[61.0, 100.0]")
    assert found["", "beta"] == ("1", "6", "16.7", "[3.0, 56.4]")
    assert found["", "gamma"] == ("0", "6", "0.0", "[0.0, 39.0]")


@pytest.mark.parametrize(
    ("n", "every", "one", "no"),
    [  # Wilson: n of n from n / (n + z**2), 0 of n to z**2 / (n + z**2)
        (6_000, "[99.9, 100.0]", "[0.0, 0.1]", "[0.0, 0.1]"),  # 0 of n to 0.064
        (12_000, "[>99.9, 100.0]", "[0.0, <0.1]", "[0.0, <0.1]"),
    ],
)
def test_limits_never_look_closed_when_they_are_not(tmp_path, n, every, one, no):
    run = make_run(tmp_path / "run", make_rubric(tmp_path, "many", id="many"), [said("t", "alpha")])
    [small] = count_frequencies(open_run(run))
    counts = {"alpha": n, "beta": 1, "gamma": 0, "none": 0}
    rows = tuple(
        replace(row, count=counts[row.code], share=compute_wilson_interval(counts[row.code], n))
        for row in small.rows
    )
    counts = replace(small.counts, status=Counter(labelled=n))
    tables = tabulate([replace(small, rows=rows, counts=counts)])
    parquet.write(tables, tmp_path / "t.parquet")
    found = {name: reader(render(tables, name)) for name, reader in READERS.items()}
    found = same(found | {"parquet": from_parquet(tmp_path / "t.parquet")})
    assert found["", "alpha"] == (str(n), str(n), "100.0", every)
    assert found["", "beta"] == ("1", str(n), "0.0", one)
    assert found["", "gamma"] == found["", "none"] == ("0", str(n), "0.0", no)


def test_nothing_judged(annotate_cli, tmp_path, first):
    run = make_run(tmp_path / "run", first, [said("t", status="failed")])
    found = read_all(annotate_cli, run)
    assert {name for name, rows in found.items() if not rows} == {"table", "md", "latex"}
    for name in found.keys() - {"table", "md", "latex"}:
        assert found[name]["", "none"] == ("0", "0", "-", "-", "[0.0, 100.0]", "-"), name
    assert "other: 1 trace failed" in on_screen("report", "-v", run)


LIMITS = ("value", "low", "high")
MACHINES = {
    # Options of report; value, low and high of alpha. Wilson for 20 of 60 as in
    # test_a_primary_rubric, for 10 of 30: [.1923, .5122] (by hand). One task tells no limits.
    "independent": (("--cluster", "none"), [1 / 3, 0.2273, 0.4594]),
    "tasks": ((), [1 / 3, 0.1686, 0.5521]),
    "groups": (("--by", "model", "--cluster", "none"), [1 / 3, 0.1923, 0.5122]),
    "one task": (("--by", "task"), [1.0, 0.0, 1.0]),
    "nothing": ((), [None, 0.0, 1.0]),
    "calibrated": ((), [1 / 3, 0.1686, 0.5521]),
}


@pytest.mark.parametrize("case", MACHINES)
def test_low_and_high_are_the_same_shares_in_every_format_for_machines(
    annotate_cli, calibrate, tmp_path, first, case
):
    options, expected = MACHINES[case]
    failed = [said("t", status="failed")]
    run = make_run(tmp_path / "run", first, failed if case == "nothing" else [*traces(), *failed])
    if case == "calibrated":
        options = calibrate(run, [label(f"t{m}", first, "alpha") for m in range(48)])
    for name in ("csv", "json", "parquet"):
        out = tmp_path / name
        done = annotate_cli("report", "-v", run, *options, "--format", name, "--out", out)
        assert done.code == 0, done.err
    tables = json.loads((tmp_path / "json").read_text())
    rows = [row for table in tables for row in (*table["rows"], *table["code_groups"])]
    found = {
        "json": list(map(flatten, rows)),
        "csv": csv_rows((tmp_path / "csv").read_text()),
        "parquet": pq.read_table(tmp_path / "parquet").to_pylist(),
    }
    names = [f"{of}{name}" for of in ("", "bounds_", "corrected_") for name in LIMITS]
    names.remove("bounds_value")
    numbers = {
        name: [[None if row.get(x) in (None, "") else float(row[x]) for x in names] for row in rows]
        for name, rows in found.items()
    }
    assert numbers["json"][0][:3] == pytest.approx(expected, abs=1e-4)
    assert numbers["csv"] == numbers["parquet"] == numbers["json"]
    assert (numbers["json"][0][5] is not None) == (case == "calibrated")
    told = {
        name: [[row.get(x) or None for x in ("reason", "method", "name")] for row in rows]
        for name, rows in found.items()
    }
    assert told["csv"] == told["parquet"] == told["json"]


def test_parquet_counts_what_the_table_counts(annotate_cli, tmp_path, first):
    run = make_run(tmp_path / "run", first, traces())
    annotate_cli("report", "-v", run, "--format", "parquet")
    [table] = json.loads(annotate_cli("report", "-v", run, "--format", "json").out)
    rows = pq.read_table(run / "report.parquet").to_pylist()
    assert (rows[0]["labelled"], rows[0]["none"], rows[0]["version"]) == (30, 30, 1)
    assert rows[0]["notes"].splitlines() == table["notes"]


COMPARE = ("compare", "--by", "model", "--values", "m1", "m2")


@pytest.mark.parametrize("kind", [("report",), ("report", "--co-occurrence"), COMPARE])
def test_the_judge_and_the_rubric_are_told_in_every_format(annotate_cli, tmp_path, first, kind):
    run = make_run(tmp_path / "run", first, traces())
    judge = open_run(run).judge_sha256
    for name in TEXT:
        out = annotate_cli(*kind, "-v", run, "--format", name).out
        full = name in ("csv", "json")
        for sha256 in (judge, first.sha256):
            assert (sha256 if full else f"({sha256[:12]})") in out, name


# On a terminal


def test_a_terminal_loses_no_digit(annotate_cli, tmp_path, first):
    run = make_run(tmp_path / "run", first, traces())
    wide = from_lines(plain(on_screen("report", "-v", run)))
    narrow = plain(on_screen("report", "-v", run, columns=20))
    assert from_lines(plain(on_screen("report", "-v", run, columns=60))) == wide
    for (_, code), cells in wide.items():
        for cell in (code, *cells):
            assert cell.strip("[]").split(", ")[0] in narrow


def test_weights_and_bars(annotate_cli, tmp_path, first):
    run = make_run(tmp_path / "run", first, traces())
    out = on_screen("report", run).splitlines()
    rows = [line.partition("|")[0] for line in out if line.startswith(("alpha", "beta"))]
    bars = {row.split()[0]: row.count("#") for row in rows}
    assert bars == {"alpha": 10, "beta": 5}  # of 30: a third, a sixth
    [gamma] = [line for line in out if "gamma" in line]
    assert gamma.startswith("\x1b[2m")  # nothing found is dim
    assert next(line for line in out if "code " in line).startswith("\x1b[1m")


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_plain_text_where_it_is_asked_for(annotate_cli, tmp_path, first, env):
    run = make_run(tmp_path / "run", first, traces())
    printed = unwrap(on_screen("report", "-v", run, **env))
    assert printed == annotate_cli("report", "-v", run).out


# Strangers

NAMES = [
    "=cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd",
    "\x1b]0;title\x07\x9b31m",
    "abc\u202edef\u2066",
    r"\input{/etc/passwd}",
    r"\write18{touch x} $x^2$ 100% a_b #1 & ~",
    "😀 协调失败 עברית",
    "<script>alert(1)</script><!-- x",
    "[a](http://evil.example) ![i](x.png) [b]",
    "<https://evil.example> https://evil.example",
    "www.evil.example mailto:a@b.example",
    "a|b \\| c \\",
    "**b** _c_ `d` &lt; ~~e~~",
    "[bold]x[/bold] :smile:",
    "[x][y] [^1] [z]: http://evil.example",
    "two\nlines",
]


def renamed(run: Path, names: Mapping[str, str]) -> Path:
    """The run with other codes: the manifest and the annotations of a stranger."""
    manifest = json.loads((run / "run.json").read_text())
    for code in manifest["rubrics"][0]["codes"]:
        code["id"] = code["name"] = names.get(code["id"], code["id"])
    (run / "run.json").write_text(json.dumps(manifest))
    lines = []
    for line in (run / "annotations.jsonl").read_text(encoding="utf-8").splitlines():
        value = json.loads(line)
        value["primary"] = names.get(value["primary"], value["primary"])
        value["secondary"] = [names.get(code, code) for code in value["secondary"]]
        for finding in value["findings"]:
            finding["code"] = names[finding["code"]]
        lines.append(json.dumps(value))
    (run / "annotations.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return run


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    """A run whose codes, judge and attribute are such names."""
    codes = [f"c{n}" for n in range(len(NAMES))]
    rubric = make_rubric(tmp_path, "primary", codes, id="first")
    ones = [said(f"t{n}", code, who=NAMES[n]) for n, code in enumerate(codes)]
    run = make_run(tmp_path / "run", rubric, ones, judge=f"llm:{NAMES[2]}{NAMES[8]}")
    return renamed(run, dict(zip(codes, NAMES, strict=True)))


RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


COMPARED = ("compare", "--by", "who", "--values", NAMES[0], NAMES[2])
STRANGE = [("report", "--by", "who"), ("report", "--co-occurrence"), COMPARED]


@pytest.mark.parametrize("kind", [("report",), *STRANGE])
def test_nothing_reaches_the_terminal(annotate_cli, strange, kind):
    for name in TEXT:
        done = annotate_cli(*kind, "-v", strange, "--format", name)
        assert done.code == 0, done.err
        assert not RAW.search(done.out), name
    assert not RAW.search(re.sub("\x1b\\[[0-9;]*m", "", on_screen(*kind, "-v", strange)))


def test_markup_is_not_read_on_a_terminal(strange):
    assert "[bold]x[/bold] :smile:" in on_screen("report", "-v", strange)


def test_a_machine_reads_the_very_names(annotate_cli, strange):
    [table] = json.loads(annotate_cli("report", "-v", strange, "--format", "json").out)
    assert [row["code"] for row in table["rows"]] == [*NAMES, "none"]
    annotate_cli("report", "-v", strange, "--by", "who", "--format", "parquet")
    rows = pq.read_table(strange / "report.parquet").to_pylist()
    assert {row["attribute_value"] for row in rows} == set(NAMES)
    assert {row["code"] for row in rows} == {*NAMES, "none"}


@pytest.mark.parametrize("kind", STRANGE)
def test_no_cell_is_a_formula(annotate_cli, strange, kind):
    out = annotate_cli(*kind, "-v", strange, "--format", "csv").out
    cells = [cell for row in csv.reader(io.StringIO(out)) for cell in row]
    assert any(cell.startswith("'=cmd") for cell in cells)
    texts = [cell for cell in cells if not re.fullmatch(r"-[\d.]+", cell)]
    assert not [cell for cell in texts if cell[:1] in ("=", "+", "-", "@", "\t", "\r")]


@pytest.mark.parametrize("kind", [(), ("--by", "who"), ("--co-occurrence",)])
def test_markdown_shows_names_and_does_nothing(annotate_cli, strange, kind):
    out = annotate_cli("report", "-v", strange, *kind, "--format", "md").out
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(out)
    inline = [child for token in tokens for child in token.children or []]
    kinds = {token.type for token in (*tokens, *inline)}
    assert not kinds & {"link_open", "image", "html_inline", "html_block", "em_open", "s_open"}
    assert "code_inline" not in kinds
    # GitHub makes links of bare addresses as well.
    assert not re.search(r"(?<!\\)://|(?i:www)\.|mailto:", out)
    text = "".join(child.content if child.type != "softbreak" else " " for child in inline)
    for name in NAMES:
        assert sanitize_line(name) in text, name
