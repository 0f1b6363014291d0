"""Which agents caused the failures, where these show, and in which third of the run."""

import csv
import io
import json
from dataclasses import replace

import pytest

import annotator as an
from annotator.rubrics.annotations import Annotation
from tests.calibration.build import make_rubric, make_run, said


def blamed(trace_id, agent, step=1, steps=9, shown=None, **attributes):
    """What a judge says of a trace: the decisive finding names an agent, the other one nobody."""
    annotation = said(trace_id, "beta", "alpha", **attributes)
    beta, alpha = annotation.findings
    shown_agent, shown_step = shown or (None, None)
    named = replace(beta, agent=agent, step=step, steps=steps)
    named = replace(named, shown_agent=shown_agent, shown_step=shown_step)
    return replace(annotation, findings=(alpha, named))


@pytest.fixture
def report(annotate_cli, tmp_path, rubric):
    """Report where failures were caused: the rows of CSV as location -> (k, n), by table."""

    def run_command(*annotations):
        run = make_run(tmp_path / "run", rubric, annotations)
        done = annotate_cli("report", run, "--where", "--format", "csv")
        assert done.code == 0, done.err
        tables = {}
        for row in csv.DictReader(io.StringIO(done.raw)):
            tables.setdefault(row["table"], {})[row["location"]] = (
                int(row["count"]),
                int(row["n"]),
            )
        return tables

    return run_command


def test_every_judged_trace_is_in_one_row_of_each_table(report):
    tables = report(
        blamed("t1", "plan", 2, 9, ("code", 8)),
        blamed("t2", "plan", 9, 9),
        blamed("t3", "code", 5, None, ("plan", 6)),  # a line of an older version
        blamed("t4", None, None, None),
        said("t5"),
        said("t6", status="undecided"),
        said("t7", status="failed"),
        said("t8", status="skipped"),
        blamed("t9", "code", 1, None),  # older still: it does not tell where a failure shows
    )
    assert tables == {
        "agent": {
            "plan": (2, 6),
            "code": (2, 6),
            "no agent quoted": (1, 6),
            "no failure found": (1, 6),
        },
        "pair": {
            "code -> plan": (1, 6),
            "plan -> code": (1, 6),
            "no agent quoted": (1, 6),
            "no later message quoted": (1, 6),
            "not recorded (older version)": (1, 6),
            "no failure found": (1, 6),
        },
        "third": {
            "first third": (1, 6),
            "middle third": (0, 6),
            "last third": (1, 6),
            "no agent quoted": (1, 6),
            "not recorded (older version)": (2, 6),
            "no failure found": (1, 6),
        },
    }


@pytest.mark.parametrize(
    ("step", "steps", "third"),
    [
        (1, 1, 1),
        (1, 2, 0),
        (2, 2, 2),
        (1, 3, 0),
        (2, 3, 1),
        (3, 3, 2),
        (3, 9, 0),
        (4, 9, 1),
        (6, 9, 1),
    ],
)
def test_a_message_is_in_the_third_that_has_its_middle(report, step, steps, third):
    """Message 1 of 2 is from 0 to .5 of the run, its middle is .25."""
    thirds = report(blamed("t", "plan", step, steps))["third"]
    assert [k for k, _ in thirds.values()] == [int(third == n) for n in range(3)]


def test_the_table_has_intervals_over_tasks(annotate_cli, tmp_path, rubric):
    """18, 12 and 6 of 36 traces, the same share in each of 6 tasks: the design effect is 1. Wilson
    with Student's t on 5 degrees of freedom, 2.5706. The median of the delays 7 (18 times) and 1
    (12 times) is 7.
    """
    agents = ["plan"] * 18 + ["code"] * 12
    found = [
        blamed(f"t{n}", name, 1, 9, ("test", 8 if name == "plan" else 2), task=str(n % 6))
        for n, name in enumerate(agents)
    ]
    others = [said(f"t{n}", task=str(n % 6)) for n in range(30, 36)]
    open_ = said("open", status="undecided", task="1")
    run = make_run(tmp_path / "run", rubric, [*found, *others, open_])
    done = annotate_cli("report", run, "--where")
    assert done.code == 0, done.err
    assert max(map(len, done.raw.splitlines())) <= 80
    lines = [" ".join(line.split("  #")[0].split()) for line in done.raw.splitlines()]
    assert "plan 18/36 50.0 [30.3, 69.7]" in lines
    assert "code -> test 12/36 33.3 [17.2, 54.7]" in lines
    assert lines.count("no failure found 6/36 16.7 [6.3, 37.4]") == 3
    assert "7 messages later in the median (1 to 7; known in 30 traces)" in " ".join(lines)
    assert "Traces not counted: 1 undecided." in lines
    assert "share one of 6 tasks" in done.out
    alone = annotate_cli("report", run, "--where", "--cluster", "none").out
    assert "treat traces as independent (--cluster none)" in alone
    # Wilson with 1.96 for 18 of 36.
    assert "18/36  50.0   [34.5, 65.5]" in alone


def test_the_rest_of_many_agents_is_summed(annotate_cli, report, tmp_path):
    """25 agents: the first with two traces, the others with one. 5 of them are summed, two of whose
    traces have no task.
    """
    tasks = [{"task": str(n % 4)} if n < 23 else {} for n in range(25)]
    traces = [blamed(f"t{n}", f"agent{n:02}", **task) for n, task in enumerate(tasks)]
    traces.append(blamed("t25", "agent00"))
    assert len(report(*traces)["agent"]) == 25
    text = annotate_cli("report", tmp_path / "run", "--where").raw.split("caused by ->")[0]
    rows = [line.split() for line in text.splitlines() if "/26" in line]
    assert [row[0] for row in rows] == [*(f"agent{n:02}" for n in range(20)), "others"]
    assert [row[1] for row in rows[:2]] == ["2/26", "1/26"]
    assert rows[-1][1:] == ["(5)", "5/26", "-", "-"]


def test_names_of_agents_cannot_break_the_table(annotate_cli, tmp_path, rubric):
    run = make_run(tmp_path / "run", rubric, [blamed("t1", "=a\x1b[31m\n|b"), blamed("t2", "c")])
    for format_ in ("table", "csv", "md", "latex", "json"):
        done = annotate_cli("report", run, "--where", "--format", format_)
        assert done.code == 0, done.err
        assert "\x1b" not in done.raw
    assert "\n=a" not in annotate_cli("report", run, "--where", "--format", "csv").raw


def test_a_rubric_without_attribution_is_refused_or_left_out(annotate_cli, tmp_path, rubric):
    plain = make_run(tmp_path / "plain", rubric, [said("t1", "alpha"), said("t2")])
    done = annotate_cli("report", plain, "--where")
    assert (done.code, done.out) == (2, "")
    assert "faults (plain): none of 1 finding names an agent" in done.err
    assert "attribution: true" in done.err
    other = make_rubric(tmp_path, id="slips")
    both = make_run(
        tmp_path / "both", rubric, [blamed("t1", "plan")], more=[(other, [said("t1", "alpha")])]
    )
    done = annotate_cli("report", both, "--where", "--format", "json")
    assert {table["rubric"] for table in json.loads(done.raw)} == {"faults"}
    assert "slips (both): none of 1 finding names an agent" in done.err
    with pytest.raises(an.AnnotatorError, match="given twice"):
        an.count_causes(an.open_run(both), an.open_run(both))
    clean = [said("t1"), said("t2")]  # nothing to attribute: the rubric may ask or not
    done = annotate_cli("report", make_run(tmp_path / "clean", rubric, clean), "--where")
    assert done.code == 0, done.err
    assert "No failure was found in 2 judged traces." in done.out
    assert " ".join(done.out.split()).count("no failure found 2/2 100.0 [34.2, 100.0]") == 3
    failed = make_run(tmp_path / "failed", rubric, [said("t1", status="failed")])
    done = annotate_cli("report", failed, "--where")
    assert (done.code, done.out) == (2, "")
    assert "faults (failed): no trace was judged" in done.err
    done = annotate_cli("report", both, "--where", "--by", "task")
    assert (done.code, done.out) == (2, "")
    assert "--where goes with" in done.err


def test_a_line_has_the_cause_only_if_it_is_known():
    line = replace(blamed("t1", "plan", 3), rubric="r", rubric_sha256="0", judge="j").to_json()
    alpha, beta = json.loads(line)["findings"]
    assert alpha.keys() == {"code", "rationale", "evidence", "votes"}
    assert beta.keys() - alpha.keys() == {"agent", "step", "steps"}
    assert Annotation.from_json(line).decisive.agent == "plan"


def test_a_data_set_keeps_who_and_when(tmp_path, rubric):
    run = make_run(tmp_path / "run", rubric, [blamed("t1", "plan", 2, 9, ("code", 8))])
    [row] = an.open_run(run).to_dataset()
    where = ("agent", "step", "shown_agent", "shown_step", "steps")
    assert [[each[name] for name in where] for each in row["findings"]] == [
        [None] * 5,
        ["plan", 2, "code", 8, 9],
    ]
