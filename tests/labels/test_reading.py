"""Files of labels: every format, every problem, and no traceback whatever stands in them."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from annotator.base.errors import AnnotatorError
from annotator.labels import Label, LabelFiles, Labels, read_labels
from annotator.labels.model import Passage
from annotator.rubrics import Scheme, load_rubric
from tests.conftest import make_scheme

SHA = "a" * 64
IDS = ("work_overlap", "parameter_flow", "repetition")
PRIMARY = make_scheme("symptoms", IDS, "primary", SHA)
ONE = make_scheme("symptoms", IDS, "one", SHA)
MANY = make_scheme("symptoms", IDS, "many", SHA)


def row(**fields: Any) -> dict[str, Any]:
    row = {"trace_id": "t1", "rubric": "symptoms", "annotator": "ann", "primary": "work_overlap"}
    return row | fields


def without(name: str, **fields: Any) -> dict[str, Any]:
    return {key: value for key, value in row(**fields).items() if key != name}


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return path


def table(path: Path, header: str, *rows: str, encoding: str = "utf-8") -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding=encoding)
    return path


def saved(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")
    return path


def problem(*files: Path, codes: Scheme = PRIMARY) -> str:
    with pytest.raises(AnnotatorError) as error:
        read_labels(files, codes)
    return str(error.value)


def only(labels: Labels) -> Label:
    (label,) = labels.labels
    return label


# JSON lines


def test_every_field_of_a_line_is_read(tmp_path):
    fields = row(note="n", confidence=3, rubric_sha256=SHA, inclusion_probability=0.25)
    fields |= {"task": "dspy_task/1", "split": "test", "design": "d1"}
    lists = {"secondary": ["repetition"], "evidence": ["a\nb", "c"]}
    file = lines(tmp_path / "labels.jsonl", fields | lists | {"order": 4, "slot": "double"})
    tuples = {name: tuple(texts) for name, texts in lists.items()}
    label = Label(**fields, **tuples, where=f"{file}, line 1")
    assert only(read_labels([file], PRIMARY)) == label


@pytest.mark.parametrize(
    ("fields", "codes", "expected"),
    [
        (row(), PRIMARY, ("work_overlap",)),
        (row(primary=None), PRIMARY, ()),
        (row(primary="none"), PRIMARY, ()),
        (row(secondary=["repetition"]), PRIMARY, ("work_overlap", "repetition")),
        (row(secondary=None, evidence=None, note=None, confidence=None), ONE, ("work_overlap",)),
        (without("primary", secondary=["repetition", "work_overlap"]), MANY, (IDS[2], IDS[0])),
        (row(secondary=["repetition"]), MANY, ("work_overlap", "repetition")),
        (row(primary=None, secondary=[]), MANY, ()),
        (row(primary="none", secondary=["none"]), MANY, ()),
    ],
)
def test_codes(tmp_path, fields, codes, expected):
    label = only(read_labels([lines(tmp_path / "labels.jsonl", fields)], codes))
    assert label.codes == expected
    assert label.primary == (None if codes is MANY else (expected[0] if expected else None))


@pytest.mark.parametrize("absent", [{}, {"secondary": [], "note": "", "confidence": None}])
@pytest.mark.parametrize("codes", [ONE, PRIMARY, MANY])
def test_a_row_without_primary_is_not_labelled_and_not_none(tmp_path, codes, absent):
    sheet = without("primary", trace_id="t2", order=1, **absent)
    labels = read_labels([lines(tmp_path / "l.jsonl", row(primary=None), sheet, sheet)], codes)
    assert only(labels).codes == ()
    assert labels.unlabelled == ("t2",)


def test_what_is_labelled_elsewhere_is_not_open(tmp_path):
    sheet = [without("primary", trace_id=f"t{n}", annotator="") for n in (1, 2)]
    own = [without("primary", trace_id="t1", annotator="bob")]
    labels = read_labels([lines(tmp_path / "l.jsonl", row(), *sheet)], PRIMARY)
    assert labels.unlabelled == ("t2",)
    assert read_labels([lines(tmp_path / "l.jsonl", row(), *own)], PRIMARY).unlabelled == ("t1",)


def test_annotators_and_rubrics(tmp_path):
    file = lines(
        tmp_path / "l.jsonl",
        row(annotator="zoe"),
        row(annotator="ann", trace_id="t2"),
        row(rubric="causes", primary="no such code", confidence="?"),
        row(rubric="causes"),
    )
    labels = read_labels([file], PRIMARY)
    assert labels.annotators == ("ann", "zoe")
    assert set(labels.of("ann")) == {"t2"}
    assert labels.of("nobody") == {}
    assert LabelFiles([file]).count_rubrics() == {"symptoms": 2, "causes": 2}


def test_format_is_told_by_content_and_bom_and_blank_lines_do_not_matter(tmp_path):
    odd = tmp_path / "labels.txt"
    odd.write_bytes(b"\xef\xbb\xbf" + f"{json.dumps(row())}\r\n\r\n".encode())
    with odd.open("ab") as file:
        file.write(json.dumps(row(trace_id="t2")).encode())
    assert [one.trace_id for one in read_labels([odd], PRIMARY).labels] == ["t1", "t2"]


def test_places_of_quotes_are_read(tmp_path):
    span = {"quote": "a\nb", "source": "message:1", "start": 4, "end": 7, "code": "repetition"}
    file = lines(tmp_path / "l.jsonl", row(evidence=["a\nb"], spans=[span, span | {"code": None}]))
    assert only(read_labels([file], PRIMARY)).spans == (
        Passage("a\nb", "message:1", 4, 7, "repetition"),
        Passage("a\nb", "message:1", 4, 7),
    )


@pytest.mark.parametrize("codes", [ONE, PRIMARY, MANY])
def test_a_skipped_trace_may_have_a_note(tmp_path, codes):
    skipped = without("primary", trace_id="t2", skipped=True, note="?")
    file = lines(tmp_path / "l.jsonl", row(), skipped | {"secondary": [], "evidence": []})
    assert read_labels([file], codes).unlabelled == ("t2",)
    header = "trace_id,rubric,annotator,primary,note,skipped,spans"
    cells = ("t1,symptoms,ann,none,,False,[]", "t2,symptoms,ann,,?,True,[{'quote': 'a'}]")
    assert read_labels([table(tmp_path / "l.csv", header, *cells)], codes).unlabelled == ("t2",)


# Problems


def test_all_codes_that_are_equally_near_are_named(tmp_path):
    file = lines(tmp_path / "l.jsonl", row(rubric="comm_errors", primary="C3"))
    scheme = load_rubric("comm_errors").scheme()
    assert "no code 'C3', did you mean 'C3a' or 'C3b'?" in problem(file, codes=scheme)


WRONG = yaml.safe_load((Path(__file__).parent / "data" / "wrong.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("changes", "choice", "field", "message"), WRONG)
def test_a_wrong_field_is_named_with_its_place(tmp_path, changes, choice, field, message):
    good = row(trace_id="good", annotator="good")
    fields = {name: value for name, value in row(**changes).items() if value != "missing"}
    codes = {"one": ONE, "primary": PRIMARY, "many": MANY}[choice]
    text = problem(lines(tmp_path / "l.jsonl", good, fields), codes=codes)
    assert text.startswith(f"{tmp_path / 'l.jsonl'}, line 2: ")
    assert field in text
    assert message in text


def test_a_line_that_is_a_list_is_named_with_its_place(tmp_path):
    text = problem(lines(tmp_path / "l.jsonl", row(), []))
    assert f"{tmp_path / 'l.jsonl'}, line 2: found a list, expected an object" in text


def test_versions_are_not_compared_where_one_is_not_known(tmp_path):
    file = lines(tmp_path / "l.jsonl", row(rubric_sha256="b" * 64), row(trace_id="t2"))
    labels = read_labels([file], make_scheme("symptoms", IDS, "primary"))
    assert [one.rubric_sha256 for one in labels.labels] == ["b" * 64, None]


def test_all_problems_are_reported_together(tmp_path):
    first = lines(tmp_path / "a.jsonl", row(primary="x1"), row(annotator="", confidence=9))
    second = table(tmp_path / "b.csv", "trace_id,rubric,annotator,primary", "t1,symptoms,,none")
    text = problem(first, second, tmp_path / "missing.csv")
    assert text.startswith("5 problems in the labels: ")
    for part in (
        f"{first}, line 1: primary: ",
        f"{first}, line 2: annotator: ",
        f"{first}, line 2: confidence: ",
        f"{second}, line 2: annotator: ",
        f"{tmp_path / 'missing.csv'}: no such file or folder",
    ):
        assert part in text


def test_twenty_problems_are_shown_and_the_rest_counted(tmp_path):
    text = problem(lines(tmp_path / "l.jsonl", *(row(primary="x") for _ in range(50))))
    assert "50 problems" in text
    assert text.count("no code 'x'") == 20
    assert text.endswith("and 30 more")


@pytest.mark.parametrize("other", [row(), row(primary=None, note="later")])
def test_a_trace_labelled_twice_by_one_annotator_names_both_places(tmp_path, other):
    one, two = lines(tmp_path / "a.jsonl", row()), lines(tmp_path / "b.jsonl", other)
    text = problem(one, two)
    assert text.startswith(f"{two}, line 1: trace_id: 't1' is labelled by 'ann' in {one}, line 1")
    assert "keep one of them" in text
    assert f"{one}, line 1 already" in problem(one, one)


def test_a_folder_or_a_link_that_holds_no_labels(tmp_path):
    assert f"{tmp_path}: no file with labels in this folder" in problem(tmp_path)
    lines(tmp_path / "l.jsonl", row())
    (tmp_path / "m.jsonl").symlink_to("m.jsonl")
    assert f"{tmp_path / 'm.jsonl'}: Too many levels" in problem(tmp_path)


def test_no_label_for_the_rubric_names_those_that_are_there(tmp_path):
    other = lines(tmp_path / "l.jsonl", row(rubric="causes"), row(rubric="emergent"))
    assert problem(other).endswith(
        "no label for the rubric symptoms; labels for another rubric: causes (1), emergent (1)"
    )
    sheet = lines(tmp_path / "s.jsonl", without("primary"))
    assert problem(sheet).endswith("1 traces are there, and none is labelled yet")


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path):
    lines(tmp_path / "b.jsonl", row(trace_id="t2"))
    table(tmp_path / "a.csv", "trace_id,rubric,annotator,primary", "t1,symptoms,ann,none")
    (tmp_path / "readme.md").write_text("not labels")
    (tmp_path / ".hidden.jsonl").write_text("not labels")
    assert [one.trace_id for one in read_labels([tmp_path], PRIMARY).labels] == ["t1", "t2"]


# Tables


COLUMNS = ("trace_id", "rubric", "annotator", "primary", "secondary", "evidence", "note")


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_table_as_a_spreadsheet_saves_it(tmp_path, separator, encoding):
    file = tmp_path / "labels.csv"
    with file.open("w", encoding=encoding, newline="") as out:
        writer = csv.writer(out, delimiter=separator)
        writer.writerow([*COLUMNS, "Confidence ", "inclusion_probability", "order"])
        evidence = 'first, "quoted"; one\n\nsecond\tone'
        writer.writerow(
            ["t1", "symptoms", "ann", "work_overlap", "", evidence, "ü", "3", "0,25", "1"]
        )
        writer.writerow(["t2", "symptoms", "ann", "none", "", "", "", "", "", "2"])
        writer.writerow([""] * 10)
        writer.writerow(["t3", "symptoms", "", "", "", "", "", "", "", "3"])
        writer.writerow(["t4", "symptoms", "ann", "repetition"])
    labels = read_labels([file], PRIMARY)
    first, none, short = labels.labels
    assert first.evidence == ('first, "quoted"; one', "second\tone")
    assert (first.note, first.confidence, first.inclusion_probability) == ("ü", 3, 0.25)
    assert (none.trace_id, none.codes, none.confidence) == ("t2", (), None)
    assert (short.trace_id, short.primary) == ("t4", "repetition")
    assert labels.unlabelled == ("t3",)
    assert first.where == f"{file}, line 2"
    assert none.where == f"{file}, line 5"


@pytest.mark.parametrize(
    ("cells", "codes", "expected"),
    [
        ("work_overlap,repetition;parameter_flow,,", PRIMARY, (IDS[0], IDS[2], IDS[1])),
        ('work_overlap,"repetition, parameter_flow",,', PRIMARY, (IDS[0], IDS[2], IDS[1])),
        ('work_overlap,"[""repetition""]",,', PRIMARY, ("work_overlap", "repetition")),
        (",repetition;work_overlap,,", MANY, ("repetition", "work_overlap")),
        (",none,,", MANY, ()),
        ("none,,,", MANY, ()),
    ],
)
def test_codes_in_cells(tmp_path, cells, codes, expected):
    file = table(tmp_path / "l.csv", ",".join(COLUMNS), f"t1,symptoms,ann,{cells}")
    assert only(read_labels([file], codes)).codes == expected


def test_the_apostrophe_before_a_formula_is_dropped(tmp_path):
    file = table(tmp_path / "l.csv", ",".join(COLUMNS[:4]), "'=a/b,symptoms,'@ann,none")
    label = only(read_labels([file], PRIMARY))
    assert (label.trace_id, label.annotator) == ("=a/b", "@ann")


def test_a_table_of_many_codes_needs_no_primary_column(tmp_path):
    file = table(tmp_path / "l.csv", "trace_id,rubric,annotator,secondary", "t,symptoms,a,none")
    assert only(read_labels([file], MANY)).codes == ()
    assert "primary: no such column" in problem(file)


def test_a_table_as_excel_saves_it_in_europe_is_read_with_a_note(tmp_path):
    header = "trace_id;rubric;annotator;primary;note"
    file = table(tmp_path / "l.csv", header, "t1;symptoms;J\u00fcrgen;none;", encoding="cp1252")
    labels = read_labels([file], PRIMARY)
    assert labels.annotators == ("J\u00fcrgen",)
    assert labels.notes == (
        f"{file}: not UTF-8 (byte 0xfc in line 2), read as Windows-1252; if letters are wrong,"
        " save it as CSV UTF-8",
    )


def test_a_table_as_excels_unicode_text_is_read(tmp_path):
    header, line = "trace_id\trubric\tannotator\tprimary", "t1\tsymptoms\tJ\u00fcrgen\tnone"
    labels = read_labels([table(tmp_path / "l.tsv", header, line, encoding="utf-16")], PRIMARY)
    assert (labels.annotators, labels.notes) == (("J\u00fcrgen",), ())


def test_labels_in_other_terms_are_read_beside_our_own(tmp_path):
    """Records without a label are counted; categories without a code are listed."""
    record = {"id": "t2", "label": "repetition", "annotator": "bob"}
    odd = {"id": "t3", "label": "odd"}
    file = lines(tmp_path / "l.jsonl", row(), record, odd, {"messages": []})
    labels = read_labels([file], PRIMARY, ["runs/t1.json", "runs/t2.json", "t3"])
    assert [(each.trace_id, each.codes) for each in labels.labels] == [
        ("t1", ("work_overlap",)),
        ("runs/t2.json", ("repetition",)),
    ]
    assert labels.notes == (
        f"1 record without a label: {file}, line 4",
        "1 of 2 labels left out: no code for 'odd' (1 label); to give them codes: --code"
        " WORD=CODE, or a rubric with codes of these names (annotate rubric new) (options of"
        " annotate labels).",
    )
    text = problem(lines(tmp_path / "odd.jsonl", odd))
    assert "no label for the rubric symptoms" in text
    assert "no code for 'odd' (1 label); to give them codes: --code WORD=CODE" in text


# Label Studio


def choice(name: str, *picks: str) -> dict[str, Any]:
    return {"from_name": name, "to_name": "t", "type": "choices", "value": {"choices": [*picks]}}


def task(*annotations: dict[str, Any], trace_id: Any = "t1", **data: Any) -> dict[str, Any]:
    return {
        "id": 17,
        "data": {"trace_id": trace_id, "text": "work_overlap"} | data,
        "annotations": list(annotations),
        "predictions": [{"result": [choice("primary", "parameter_flow")]}],
    }


def by(who: Any, *results: dict[str, Any], cancelled: bool = False) -> dict[str, Any]:
    return {"completed_by": who, "was_cancelled": cancelled, "result": list(results)}


def test_label_studio_reads_all_its_controls(tmp_path):
    results = [
        choice("primary", "work_overlap"),
        choice("secondary", "repetition", "parameter_flow"),
        {"from_name": "quote", "type": "labels", "value": {"text": "q1", "labels": ["Evidence"]}},
        {"from_name": "evidence", "type": "textarea", "value": {"text": ["q2"]}},
        {"from_name": "why", "type": "textarea", "value": {"text": ["a", "b"]}},
        {"from_name": "sure", "type": "rating", "value": {"rating": 4}},
        {"from_name": "work_overlap", "type": "relation"},
    ]
    data = task(by({"id": 3, "email": "ann@x.org"}, *results), inclusion_probability="0.5", task=7)
    file = saved(tmp_path / "export.json", [data])
    assert only(read_labels([file], PRIMARY)) == Label(
        trace_id="t1",
        rubric="symptoms",
        annotator="ann@x.org",
        primary="work_overlap",
        secondary=("repetition", "parameter_flow"),
        evidence=("q1", "q2"),
        note="a\nb",
        confidence=4,
        inclusion_probability=0.5,
        task="7",
        where=f"{file}, record 1 (task 17), annotation 1",
    )


@pytest.mark.parametrize(
    ("results", "codes", "expected"),
    [
        ([choice("primary", "none")], PRIMARY, ()),
        ([choice("symptom", "repetition", "work_overlap")], PRIMARY, (IDS[2], IDS[0])),
        ([choice("symptom", "repetition", "work_overlap")], MANY, (IDS[2], IDS[0])),
        ([choice("symptoms", "repetition"), choice("x", "work_overlap")], ONE, (IDS[2],)),
        ([choice("quality", "good"), choice("code", "repetition")], ONE, (IDS[2],)),
        ([choice("confidence", "3"), choice("code", "none")], ONE, ()),
    ],
)
def test_label_studio_controls_of_other_names(tmp_path, results, codes, expected):
    file = saved(tmp_path / "export.json", [task(by(3, *results))])
    label = only(read_labels([file], codes))
    assert (label.codes, label.annotator) == (expected, "3")


def test_label_studio_cancelled_and_empty_are_not_labelled(tmp_path):
    tasks = [
        task(by(1, choice("primary", "none")), by(2, choice("primary", "none"), cancelled=True)),
        task(by(1), trace_id="t2"),
        task(trace_id=3),
        {"data": {"trace_id": "t4"}, "predictions": []},
    ]
    labels = read_labels([saved(tmp_path / "export.json", tasks)], PRIMARY)
    assert only(labels).trace_id == "t1"
    assert labels.unlabelled == ("t1", "t2", "3", "t4")


def test_label_studio_data_may_name_another_rubric_and_must_name_the_trace(tmp_path):
    other = task(by(1, choice("primary", "x")), rubric="causes")
    file = saved(tmp_path / "e.json", [other, task(by(1, choice("primary", "none")))])
    assert LabelFiles([file]).count_rubrics() == {"causes": 1}
    text = problem(saved(tmp_path / "e.json", [task(by(1, choice("p", "none")), trace_id=None)]))
    assert "trace_id: missing" in text
    assert "annotator: missing" in problem(
        saved(tmp_path / "e.json", [task(by(None, choice("p", "none")))])
    )


# Potato


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        (
            "user,instance_id,displayed_text,p:::repetition,p:::work_overlap,confidence:::scale_3",
            "ann,t1,hello.x,0,,x",
        ),
        (
            "instance_id,user_id,p.repetition,p.work_overlap,p._spans,confidence.sure",
            "t1,ann,repetition,false,[],3",
        ),
    ],
)
def test_potato_tables(tmp_path, header, cells):
    for suffix, separator in (("csv", ","), ("tsv", "\t")):
        file = table(
            tmp_path / f"annotated_instances.{suffix}",
            *(one.replace(",", separator) for one in (header, cells)),
        )
        label = only(read_labels([file], PRIMARY))
        assert (label.trace_id, label.annotator, label.codes) == ("t1", "ann", ("repetition",))
        assert label.confidence == 3


def test_potato_tables_have_texts_machines_and_codes_in_capitals(tmp_path):
    header = "Instance_ID,user,origin,code:::C3a,note:::text_box,evidence:::text_box"
    rows = 't1,ann,human,1,why,"q1\n\nq2"', "t1,gpt,llm,1,,"
    file = table(tmp_path / "a.csv", header, *rows)
    label = only(read_labels([file], make_scheme("comm", ("C3a",), "one")))
    assert (label.codes, label.note, label.evidence) == (("C3a",), "why", ("q1", "q2"))


# Files that cannot be read


CELLS = f"{','.join(COLUMNS)}\nt1,symptoms,ann,".encode()


PROBLEMS = [  # file, content, message, and codes other than PRIMARY
    ("l.jsonl", b"", "empty"),
    ("l.xlsx", b"PK\x03\x04rest", "a workbook, not a CSV: save the sheet as CSV UTF-8"),
    ("l.csv", b"PK\x03\x04rest", "binary data; save a spreadsheet as CSV UTF-8"),
    ("l.jsonl", b'{"a": \n', "line 1: not valid JSON"),
    ("l.json", b'{\n"a": 1,\n', "not valid JSON: "),
    ("l.json", b"[]", "an empty list"),
    ("l.jsonl", b'{"a": "\xe4"}\n', "line 1: not UTF-8"),
    ("l.json", b"[" * 90000, "nested too deeply"),
    ("l.txt", b"hello world\n", "neither JSON nor a table of labels"),
    ("l.csv", b"trace_id,rubric,annotator,primary\n", "no label for the rubric symptoms"),
    ("l.csv", b"trace id,rubric,annotator,primary\n", "trace_id: no such column, is it 'tr"),
    ("l.csv", b"trace_id,rubric,primary\n", "annotator: no such column; add it"),
    ("l.csv", b"trace_id,rubric,annotator,primary,primary\n", "'primary' stands twice"),
    ("l.csv", b'trace_id,rubric,annotator,primary\n"t1,a,b,c\n', "line 2: not a table"),
    ("l.csv", b"trace_id,rubric,annotator,primary\nt,symptoms,a,none,x\n", "5 cells, but 4 c"),
    ("l.csv", b"trace_id,rubric,annotator,primary\nt,,a,none\n", "line 2: rubric: missing"),
    ("l.csv", CELLS + b",repetition,,", "primary: missing, but secondary is filled; write none or"),
    ("l.csv", CELLS + b",,quote,hm", "primary: missing, but evidence and note are filled", ONE),
    ("l.csv", CELLS + b",,,hm", "secondary: missing, but note is filled; write none or", MANY),
    ("l.csv", CELLS + b"work_overlap,[repetition],,", "no code '[repetition]'"),
    *(
        ("export.json", [task(by(1, *results))], message)
        for results, message in [
            ([choice("primary", "work_overlap", "repetition")], "primary: found 2 codes"),
            ([choice("a", "x"), choice("b", "y")], "cannot be told from their names (a, b); name"),
            ([choice("confidence", "3")], "primary: missing, but confidence is filled"),
            ([{"type": "rating", "value": {"rating": 9}}, choice("primary", "none")], "confidence"),
            (["odd"], "result: found a string, expected an object"),
        ]
    ),
    ("m.json", [{"annotation_id": 5, "lead_time": 1.5, "p": "x"}], "trace_id: missing"),
    ("user_state.json", {"instance_id_to_label_to_value": {}}, "let Potato write CSV or TSV"),
    ("a.jsonl", {"instance_id": "t1", "labels": {}}, "let Potato write CSV or TSV"),
    ("p.csv", b"instance_id,user,a.x,b.y\nt,a,1,1", "cannot be told from their names (a, b)"),
    ("p.csv", b"instance_id,user,primary.repetition,primary.x\nt,a,1,1", "found 2 codes"),
    ("p.csv", b"instance_id,user,note.text_box\nt,a,hm", "primary: missing, but note is filled"),
]


@pytest.mark.parametrize("case", PROBLEMS, ids=lambda case: case[2])
def test_files_that_cannot_be_read(tmp_path, case):
    name, content, message, *codes = case
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    text = problem(file, codes=codes[0] if codes else PRIMARY)
    assert text.startswith(str(file))
    assert message in text
