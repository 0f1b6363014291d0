"""The way in from Python: the same answers as the command line's, as values."""

import ast
import asyncio
import contextlib
import io
import os
import pickle
import re
import shutil
import signal
import sys

import pytest

import annotator as an
from annotator.base.errors import AnnotatorError, BudgetReached, Interrupted, JudgeStopped
from annotator.reports.table import render
from annotator.rubrics.annotations import Usage
from tests.conftest import EXAMPLES, ROOT, run_name, unwrap, write_run

BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.S)


@pytest.mark.parametrize("name", ["README.md", "docs/howto/use-from-python.md"])
def test_the_page_shows_what_its_programs_print(monkeypatch, tmp_path, name):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")  # looks are noted beside labels
    monkeypatch.chdir(tmp_path)
    file = ROOT / name
    names: dict[str, object] = {}

    def fill(block: re.Match[str]) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(block[1], names)
        shown = f"\n```text\n{out.getvalue()}```\n" if block[2] is not None else ""
        return f"```python\n{block[1]}```\n{shown}"

    page = BLOCK.sub(fill, file.read_text())
    if os.environ.get("UPDATE_DOCS"):
        file.write_text(page)
    assert page == file.read_text()


def strip(annotation):
    return annotation.to_json().partition('"usage"')[0]


@pytest.mark.parametrize("held", [True, False])
def test_a_run_is_that_of_the_command_line(annotate_cli, tmp_path, held):
    args = (EXAMPLES, "--rubric", "comm_errors", "--rubric", "symptoms", "--out", "cli")
    printed = annotate_cli(*args).out
    notices, seen = [], []
    run = an.annotate(
        EXAMPLES,
        ["comm_errors", "symptoms"],
        out=None if held else tmp_path / "api",
        on_progress=seen.append,
        on_notice=notices.append,
    )
    by_command = an.open_run(tmp_path / "cli")
    assert sorted(map(strip, run.annotations())) == sorted(map(strip, by_command.annotations()))
    assert run.judge_sha256 == by_command.judge_sha256
    assert unwrap("\n\n".join(map(str, an.count(run)))) == printed.rstrip("\n")
    assert [state.annotations for state in seen] == list(range(1, 35))
    assert seen[-1].counts == {k: v for k, v in run.manifest.totals.items() if k in seen[-1].counts}
    saved = run.save(tmp_path / "saved")
    assert list(map(strip, saved.annotations())) == list(map(strip, run.annotations()))
    assert list(map(str, an.count(saved))) == list(map(str, an.count(run)))
    assert len(run.to_pandas()) == len(run.to_dataset()) == 34
    with pytest.raises(an.AnnotatorError, match="something else"):
        run.save(tmp_path / "saved")


def test_sources_are_paths_traces_and_any_number_of_them(tmp_path):
    one = write_run(tmp_path / run_name(1))
    write_run(tmp_path / run_name(2))
    traces = an.load_traces(str(tmp_path / "logs"))
    assert (len(traces), [t.id for t in traces], traces.problems) == (
        *(2, ["night/coop/shop_task/1/f1_f2", "night/coop/shop_task/2/f1_f2"]),
        [],
    )
    assert traces[-1].id == traces[1].id
    for n in (2, -3):
        with pytest.raises(IndexError, match="only 2"):
            traces[n]
    mixed = an.load_traces([traces[1], one], tmp_path / "logs")
    assert [t.id for t in mixed] == [traces[1].id, traces[0].id]
    assert len(mixed.problems) == 1  # of the trace; a folder that is named twice is read once
    ids = {a.trace_id for a in an.annotate(list(traces), "symptoms").annotations()}
    assert ids == {t.id for t in traces}
    [twice] = an.load_traces(an.Trace("t", "own", "", (an.Message(7, "a", (), "seven"),))).problems
    assert "numbered 1 to 1, found [7]" in twice
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value, why in ((float("nan"), "Out of range"), (1j, "type complex"), (deep, "recursion")):
        odd = an.Trace("t", "own", "", attributes={"model": "m", "score": value})
        [reason] = an.load_traces(odd).problems
        assert "attribute 'score' cannot be written as JSON: " in reason
        assert why in reason
    for wrong, kind in (
        (tmp_path / "gone", an.AnnotatorError),
        (7, TypeError),
        ([{"id": "t"}], TypeError),
    ):
        with pytest.raises(kind):
            an.load_traces(wrong)


def test_a_table_as_a_source_is_told_how_to_be_read(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([{"id": "t", "messages": [{"from": "ann", "text": "I start."}]}])
    with pytest.raises(TypeError, match="found DataFrame") as error:
        an.load_traces(frame)
    monkeypatch.chdir(tmp_path)
    write, read = str(error.value).split("\n    ")[1:]
    names = {"frame": frame, "load_traces": an.load_traces}
    exec(write, names)
    assert len(eval(read, names)) == 1


def test_a_callback_that_fails_stops_the_run_and_doubles_nothing(tmp_path):
    def fail(state):
        if state.annotations == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        an.annotate(EXAMPLES, "comm_errors", out=tmp_path / "run", on_progress=fail)
    assert len(list(an.open_run(tmp_path / "run").annotations())) == 3
    again = an.annotate(EXAMPLES, "comm_errors", out=tmp_path / "run", resume=True)
    assert len(list(again.annotations())) == 17


class Loud:
    id = "loud"
    settings = {"n": 1}  # noqa: RUF012

    def codes(self, rubric):
        return {"C4b"}

    async def judge(self, trace, rubric):
        await asyncio.sleep(0)
        return an.Verdict.none()


def test_a_notice_that_fails_closes_the_run(tmp_path):
    def fail(text):
        raise OSError("nobody reads")

    class Paid(Loud):
        def judge(self, trace, rubric):
            return an.Verdict(usage=Usage(calls=1))

    with pytest.raises(OSError, match="nobody reads"):
        an.annotate(EXAMPLES, "comm_errors", judge=Paid(), out=tmp_path / "run", on_notice=fail)
    run = an.open_run(tmp_path / "run")
    assert (run.manifest.status, len(list(run.annotations()))) == ("finished", 17)
    assert not list((tmp_path / "run").glob(".*.lock"))


@pytest.mark.parametrize("reason", ["undecided", "left_open"])
def test_an_empty_reason_is_undecided_all_the_same(reason):
    class Unsure(Loud):
        def judge(self, trace, rubric):
            return an.Verdict(**{reason: ""})

    run = an.annotate(EXAMPLES, "comm_errors", judge=Unsure())
    assert {annotation.status for annotation in run.annotations()} == {"undecided"}


def talk(trace_id, text="hello there"):
    messages = tuple(an.Message(n, "ab"[n % 2], (), text) for n in range(1, 5))
    return an.Trace(trace_id, "own", "", messages)


def test_a_trace_given_twice_does_not_stand_twice():
    run = an.annotate([talk("x"), talk("y"), talk("x"), talk("x")], "comm_errors", judge=Loud())
    statuses = {annotation.trace_id: annotation.status for annotation in run.annotations()}
    assert statuses == {"x": "none", "y": "none", "x [3]": "failed", "x [4]": "failed"}
    assert "x [3]: a second trace with the id 'x'" in run.manifest.problems[0]


def test_an_id_that_no_file_can_hold_is_a_failure_of_its_trace_alone():
    run = an.annotate([talk("x\ud800"), talk("y")], "comm_errors", judge=Loud())
    assert sorted(run.to_pandas().status) == ["failed", "none"]
    assert run.to_dataset()["status"] == run.to_pandas().status.tolist()


@pytest.mark.parametrize("kind", [JudgeStopped, BudgetReached])
@pytest.mark.parametrize("held", [True, False])
def test_what_a_judge_that_stops_has_judged_is_kept(tmp_path, held, kind):
    class Poor(Loud):
        judged = 0

        def judge(self, trace, rubric):
            self.judged += 1
            if self.judged == 3:
                raise kind("no more")
            return an.Verdict.none()

    out = None if held else tmp_path / "run"
    with pytest.raises(AnnotatorError, match="no more") as stop:
        an.annotate(EXAMPLES, "comm_errors", judge=Poor(), out=out, concurrency=1)
    assert (stop.value.run.folder, stop.value.run.manifest.status) == (out, "stopped")
    assert len(list(stop.value.run.annotations())) == 2
    [table] = an.count(stop.value.run)
    assert "not finished" in " ".join(table.notes)


def test_an_error_before_the_work_has_no_run_of_another(tmp_path):
    an.annotate(EXAMPLES, "comm_errors", judge=Loud(), out=tmp_path / "run")
    with pytest.raises(AnnotatorError, match="finished run") as stop:
        an.annotate(EXAMPLES, "comm_errors", judge=Loud(), out=tmp_path / "run")
    assert stop.value.run is None


def test_a_run_is_resumed_by_its_own_judge_alone(tmp_path):
    out = tmp_path / "run"
    an.annotate(EXAMPLES, "comm_errors", judge=Loud(), out=out, limit=2)

    class Other(Loud):
        settings = {"n": 2}  # noqa: RUF012

    with pytest.raises(AnnotatorError, match="n was 1, is now 2"):
        an.annotate(EXAMPLES, "comm_errors", judge=Other(), out=out, limit=3, resume=True)
    run = an.annotate(EXAMPLES, "comm_errors", judge=Loud(), out=out, limit=3, resume=True)
    assert len(list(run.annotations())) == 3


def test_rows_are_those_of_the_run_now_and_always_have_their_columns(tmp_path):
    out = tmp_path / "run"
    an.annotate([talk("x")], "comm_errors", judge=Loud(), out=out)
    manifest, lines = out / "run.json", out / "annotations.jsonl"
    manifest.write_text(manifest.read_text().replace('"finished"', '"running"'))
    sizes = []
    for more in ("", lines.read_text().replace('"x"', '"y"')):  # it grows while it is open
        lines.write_text(lines.read_text() + more)
        run = an.open_run(out)
        sizes.append((len(run.to_dataset()), len(run.to_pandas())))
    assert sizes == [(1, 1), (2, 2)]
    empty = an.Run(run.manifest)
    assert list(empty.to_pandas().columns) == empty.to_dataset().column_names
    assert list(empty.to_pandas().columns) == list(run.to_pandas().columns)
    assert [a.to_json() for a in pickle.loads(pickle.dumps(run)).annotations()] == [
        a.to_json() for a in run.annotations()
    ]
    (tmp_path / "run").rename(tmp_path / "moved")
    with pytest.raises(AnnotatorError, match="No such file"):
        list(run.annotations())


def test_a_forecast_is_what_a_run_would_take_and_writes_nothing(tmp_path):
    expected = an.forecast(EXAMPLES, ROOT / "rubrics" / "comm_errors.yaml", limit=4)
    assert (expected.traces, expected.judged + expected.skipped) == (4, 4)
    assert expected.assumption
    out = tmp_path / "run"
    an.annotate(EXAMPLES, "comm_errors", out=out, limit=3)
    assert an.forecast(EXAMPLES, "comm_errors", resume=out, limit=4).done == 3


def test_a_run_tells_when_it_begins(tmp_path):
    told = []
    an.annotate(EXAMPLES, "comm_errors", out=tmp_path / "run", command="mine", on_start=told.append)
    [run] = told
    assert (run.folder, run.manifest.status) == (tmp_path / "run", "running")
    assert an.open_run(run.folder).manifest.command == "mine"

    def fail(run):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        an.annotate(EXAMPLES, "comm_errors", out=tmp_path / "other", on_start=fail)
    assert not (tmp_path / "other").exists()


def test_figures_summaries_and_pairs_are_those_of_the_command_line(annotate_cli, tmp_path):
    run = an.annotate(EXAMPLES, ["symptoms", "comm_errors"], out=tmp_path / "run")
    notices = []
    for plot in ("frequency", "co-occurrence"):
        an.draw(run, out=tmp_path / "api.svg", plot=plot, on_notice=notices.append)
        annotate_cli("figure", "run", "--plot", plot, "--out", "cli.svg")
        assert (tmp_path / "api.svg").read_bytes() == (tmp_path / "cli.svg").read_bytes()
    printed = annotate_cli("report", "run", "--co-occurrence").out
    assert unwrap("\n\n".join(map(str, an.count_together(run)))) == printed.rstrip("\n")
    summary = an.summarize(an.load_traces(EXAMPLES))
    printed = annotate_cli("stats", EXAMPLES, "--format", "csv").out
    assert render(summary.tables, "csv") == printed.rstrip("\n")
    for wrong in ({"plot": "pie"}, {"plot": "co-occurrence", "by": "model"}):
        with pytest.raises(AnnotatorError):
            an.draw(run, out=tmp_path / "x.svg", **wrong)
    with pytest.raises(AnnotatorError, match="twice"):
        an.count_together(run, run)


def test_in_a_running_loop_it_is_aannotate():
    async def notebook():
        with pytest.raises(an.AnnotatorError, match="await aannotate"):
            an.annotate(EXAMPLES, "comm_errors")
        return await an.aannotate(EXAMPLES, "comm_errors", judge=Loud())

    run = asyncio.run(notebook())
    [table] = an.count(run)
    cells = {row[0]: row[1] for row in table.rows}
    assert (cells["C4b"], cells["C3a"], cells["none"]) == ("0", "-", "17")


class Stops(Loud):
    """Ctrl-C, pressed while the third trace is judged."""

    judged = 0

    def judge(self, trace, rubric):
        self.judged += 1
        if self.judged == 3:
            signal.raise_signal(signal.SIGINT)
        return an.Verdict.none()


@pytest.mark.parametrize("held", [True, False])
def test_ctrl_c_keeps_what_was_judged(tmp_path, held, recwarn, capfd):
    out = None if held else tmp_path / "run"
    with pytest.raises(Interrupted) as stop:
        an.annotate(EXAMPLES, "comm_errors", judge=Stops(), out=out, concurrency=1)
    assert (list(recwarn), capfd.readouterr().err) == ([], "")
    run = stop.value.run if held else an.open_run(out)
    assert run.manifest.status == "interrupted"
    assert 2 <= len(list(run.annotations())) < 17
    if not held:
        judge = Stops()
        judge.judged = 3
        again = an.annotate(EXAMPLES, "comm_errors", judge=judge, out=out, resume=True)
        assert (again.manifest.status, len(list(again.annotations()))) == ("finished", 17)


def test_ctrl_c_after_the_last_step_keeps_the_run():
    class Late(Loud):
        def close(self):
            asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)

    with pytest.raises(Interrupted, match="is the error's run") as stop:
        an.annotate(EXAMPLES, "comm_errors", judge=Late())
    assert stop.value.run.manifest.status == "finished"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rubric": []}, "name one"),
        ({"rubric": ["symptoms", "symptoms"]}, "two rubrics have the id"),
        ({"rubric": "symptom"}, "did you mean symptoms"),
        ({"rubric": "symptoms", "resume": True}, "needs out"),
        ({"rubric": "symptoms", "judge": object()}, "id"),
        ({"rubric": "message_types"}, "no rules for"),
        ({"rubric": "symptoms", "limit": 0}, "limit: expected a number from 1, found 0"),
        ({"rubric": "symptoms", "concurrency": 0}, "concurrency: expected"),
        ({"rubric": "symptoms", "only": "passed"}, "only: expected one of rubric, failed, all"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(arguments, message):
    with pytest.raises(an.AnnotatorError, match=message):
        an.annotate(EXAMPLES, **arguments)


def test_a_calibration_corrects_a_count_and_runs_compare(tmp_path):
    class Guesses(Loud):
        def codes(self, rubric):
            return {code.id for code in rubric.codes}

        def judge(self, trace, rubric):
            first = trace.spoken[0] if trace.spoken else None
            if first is None or len(trace.messages) % 2:
                return an.Verdict.none()
            quotes = tuple(an.Quote(m.text, f"message:{m.n}") for m in trace.spoken[:2])
            return an.Verdict((an.Claim("C3a", "guessed", quotes),), "C3a")

    run = an.annotate(EXAMPLES, "comm_errors", judge=Guesses())
    other = an.annotate(EXAMPLES, "comm_errors", judge=Loud())
    labels = tmp_path / "labels.jsonl"
    labels.write_bytes((ROOT / "examples" / "labels.jsonl").read_bytes())
    calibration = an.calibrate(run, labels, "comm_errors")
    [plain], [corrected] = an.count(run), an.count(run, calibration=calibration)
    assert "corrected %" not in plain.header
    assert "corrected %" in corrected.header
    [difference] = an.compare(run, other)
    assert [row[0] for row in difference.rows] == ["C4b"]
    with pytest.raises(an.AnnotatorError, match="say which with rubric="):
        an.calibrate(an.annotate(EXAMPLES, ["comm_errors", "symptoms"]), labels)
    with pytest.raises(an.AnnotatorError, match="one run has nothing to compare"):
        an.compare(run)
    with pytest.raises(an.AnnotatorError, match="twice"):
        an.count(run, run)


def test_an_annotation_in_a_notebook_is_text():
    trace = next(iter(an.load_traces(EXAMPLES)))
    hostile = an.Annotation("<script>", "r", "0" * 64, "j", "none", reason="<img src=x>")
    assert "<script" not in hostile._repr_html_()
    assert "<img" not in hostile._repr_html_()
    found = [a for a in an.annotate(EXAMPLES, "comm_errors").annotations() if a.codes]
    assert found[0]._repr_html_().count("<mark>") == len(found[0].findings[0].evidence)
    assert trace.id


@pytest.mark.parametrize("format_", ["table", "html"])
def test_a_report_opens_the_manifest_once(annotate_cli, tmp_path, format_):
    opened = []

    def watch(event, args):
        if watching and event == "open" and str(args[0]).endswith("run.json"):
            opened.append(args[0])

    an.annotate(EXAMPLES, ["comm_errors", "symptoms"], out=tmp_path / "run")
    watching = True
    sys.addaudithook(watch)  # it stays, and says nothing any more
    assert annotate_cli("report", "run", "--format", format_).code == 0
    watching = False
    assert len(opened) == 1


def test_a_file_that_cannot_be_read_keeps_its_reason_beside_one_of_its_name(tmp_path):
    (tmp_path / "x.json").write_text("{broken")
    named = an.Trace("x.json", "generic", "", (an.Message(1, "a", (), "Hello."),))
    items = an.load_traces(named, tmp_path).find()
    [problem] = [item for item in items if not isinstance(item, an.Trace)]
    assert "not valid JSON" in problem.reason
    assert problem.id != "x.json"


def test_the_names_that_type_checkers_see_are_those_that_are_imported():
    tree = ast.parse((ROOT / "annotator" / "__init__.py").read_text())
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        node.names[0].name: node.module for node in block.body if isinstance(node, ast.ImportFrom)
    }
    assert seen == an._NAMES
    assert dir(an) == sorted(an.__all__)


def test_values_say_what_they_are(tmp_path):
    """15 of the 17 examples are judged or left open, 2 passed."""
    run = an.annotate(ROOT / "examples" / "traces", "symptoms", out=tmp_path / "run")
    judged = "3 labelled, 12 undecided, 2 skipped"
    assert repr(run) == f"<Run {tmp_path}/run: symptoms, judge rules, {judged}>"
    assert "<th>undecided</th><td>12</td>" in run._repr_html_()
    [table] = an.count(run)
    assert re.fullmatch(r"<Table symptoms v4 .*: 14 rows>", repr(table))
    labels = shutil.copy(ROOT / "examples" / "labels.jsonl", tmp_path)
    made = an.calibrate(run, labels, "symptoms")
    assert re.match(r"<Calibration symptoms, judge rules: 15 labels of author, kappa ", repr(made))


def test_findings_are_a_row_a_quote(tmp_path):
    run = an.annotate(ROOT / "examples" / "traces", "symptoms")
    frame = run.findings()
    quotes = [
        (one.trace_id, finding.code, quote.quote, quote.start)
        for one in run.annotations()
        for finding in one.findings
        for quote in finding.evidence
    ]
    assert (
        list(frame[["trace_id", "code", "quote", "start"]].itertuples(index=False, name=None))
        == quotes
    )
    assert set(frame["attribute_setting"]) == {"coop"}
    empty = an.annotate(an.Trace(id="t", format="x", path=""), "symptoms")
    assert list(empty.findings().columns)[:3] == ["trace_id", "rubric", "code"]


def test_traces_are_read_from_a_path():
    folder = ROOT / "examples" / "traces"
    assert [one.id for one in an.read_traces(folder)] == [
        one.id for one in an.read_traces([str(folder)])
    ]
    with pytest.raises(AnnotatorError, match="no such file"):
        list(an.read_traces("nowhere"))
