"""`annotate tune`: judges whose errors are known, and models that propose changes, over HTTP."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from annotator.rubrics import load_rubric
from annotator.rubrics.changes import ClauseChange, derive_rubric, dump_rubric
from tests.calibration.build import write_labels
from tests.conftest import set_model, write_run
from tests.judges.test_batch import answer, requests_in
from tests.server import Reply, Request, Server, finding

RUBRIC = {
    **{"id": "faults", "version": 1, "title": "Faults", "source": "ours", "choice": "primary"},
    **{"min_quotes": 1, "quote_from": ["messages"], "instructions": "Find faults."},
    "codes": [
        {"id": "alpha", "name": "Alpha", "definition": "A question ignored.", "evidence": "It."},
        {"id": "beta", "name": "Beta", "definition": "A promise broken.", "evidence": "It."},
    ],
    "precedence": ["alpha", "beta"],
}
TASKS, EACH = 8, 5
MENDING = ("alpha", "not", "Letters that met under way are none.")
IDLE = ("beta", "definition", "A promise that is not kept.")
MISS = ("alpha", "near_miss", "Both wrote at once.", ["Our letters met under way."])


def propose(*changes: tuple[Any, ...]) -> dict[str, Any]:
    """An answer with these changes, each of which settles the first difference."""
    tags = {"first_tag": "FIRST TAG", "last_tag": "LAST TAG"}
    candidates = [
        {"code": code, "field": field, "text": text, "quotes": quotes[0] if quotes else []}
        | {"differences": [1], "summary": f"mends {field}"}
        for code, field, text, *quotes in changes
    ]
    turn = {"difference": 1, "code": "alpha", "field": "not", "because": "they met"}
    return tags | {"turns": [turn], "candidates": candidates}


class Scripted:
    """A judge that calls ``met`` letters alpha unless the rubric speaks of letters that met, and
    a model that proposes ``changes``.
    """

    def __init__(self, *changes: Any, judge: Callable[[str, str], bool] | None = None) -> None:
        self.proposals = list(changes)
        self.judge = judge or (lambda rubric, run: "met" in run and "met under way" not in rubric)

    def __call__(self, request: Request) -> Reply:
        if "You improve a rubric" in request.system:
            first = self.proposals[0]
            answer = self.proposals.pop(0) if len(self.proposals) > 1 else first
            return Reply(answer=answer(request) if callable(answer) else answer)
        text = request.part("message:1")
        if "plain" in text or not ("real" in text or self.judge(request.system, text)):
            return Reply(answer={"findings": [], "label": "none"})
        return finding("alpha", ("message:1", text))


@pytest.fixture
def labelled(tmp_path: Path) -> tuple[Path, Path]:
    """Forty runs of eight tasks: two or three of five have letters that met, which people call no
    fault. The judge is right on 20 of 40: kappa (.5 - .38) / (1 - .38) = .19.
    """
    rows = []
    for task in range(1, TASKS + 1):
        for n in range(EACH):
            kind = ("real", "met", "met", "met" if task % 2 else "plain", "plain")[n]
            run = f"night/coop/shop_task/{task}/f1_f{n + 2}"
            text = f"A {kind} letter number {task}{n} reached nobody in the whole village today."
            talk = [("agent1", text), ("agent2", "Fine. Write to ann@example.org.")]
            write_run(tmp_path / "logs" / run, talk)
            primary = "alpha" if kind == "real" else None
            split = "test" if task > TASKS - 2 else "dev"
            row = {"trace_id": run, "rubric": "faults", "annotator": "ann", "primary": primary}
            rows.append(row | {"note": "they met" if kind == "met" else "", "split": split})
    (tmp_path / "faults.yaml").write_text(yaml.safe_dump(RUBRIC))
    plain = [{name: x for name, x in row.items() if name != "split"} for row in rows]
    write_labels(tmp_path / "split.jsonl", rows)
    return tmp_path / "logs", write_labels(tmp_path / "labels.jsonl", plain)


def options(server: Server, *more: object) -> tuple[object, ...]:
    model = ("--model", "m", "--base-url", server.url, *set_model(attempts=1, mode="json_schema"))
    return ("--rubric", "faults.yaml", *model, "--out", "out", "--folds", 2, *more)


def result(folder: str = "out") -> dict[str, Any]:
    return json.loads(Path(folder, "tuning.json").read_text())


def tune(cli: Any, server: Server, *more: object, labels: str = "labels.jsonl") -> Any:
    return cli("tune", "logs", "--labels", labels, *options(server, *more))


def verdicts(folder: str = "out") -> list[tuple[str, bool]]:
    return [(x["change"]["clause"], x["kept"]) for x in result(folder)["product"]["candidates"]]


def test_a_clause_that_mends_is_found(annotate_cli, labelled) -> None:
    with Server(Scripted(propose(IDLE, MENDING))) as server:
        done = tune(annotate_cli, server)
        assert done.code == 0, done.err
        assert "Tuned: kappa 0.19 → 1.00, gain 0.81 [" in done.out
        assert "1 of 2 candidates kept" in done.out
        assert verdicts() == [("beta.definition", False), ("alpha.not", True)]
        assert [turn["clause"] for turn in result()["product"]["turns"]] == ["alpha.not"]
        rubric = load_rubric("out/rubric.yaml")
        assert (rubric.version, rubric.code("alpha").not_) == (2, MENDING[2])
        assert annotate_cli("rubric", "check", "out/rubric.yaml").code == 0
        diff = annotate_cli("rubric", "diff", "faults.yaml", "out/rubric.yaml")
        assert MENDING[2] in diff.out
        # The product is the rubric that the folds were judged by: all answers are known.
        calls = server.calls
        run = ("--rubric", "out/rubric.yaml", "--judge", "out/judge.yaml", "--out", "new")
        assert annotate_cli("logs", *run).code == 0
        assert server.calls == calls


@pytest.mark.parametrize(
    ("change", "judge"),
    [
        (MISS, lambda rubric, run: "met" in run and "Our letters met" not in rubric),
        (("rubric", "instructions", "Met letters are none."), None),
    ],
)
def test_an_example_or_a_rule_that_mends_is_found(annotate_cli, labelled, change, judge) -> None:
    judge = judge or (lambda rubric, run: "met" in run and "Met letters are none" not in rubric)
    with Server(Scripted(propose(IDLE, change), judge=judge)) as server:
        done = tune(annotate_cli, server)
        assert "Tuned: kappa 0.19 → 1.00" in done.out, done.err
        assert [kept for _, kept in verdicts()] == [False, True]


def test_nothing_helps_where_no_wording_does(annotate_cli, labelled) -> None:
    with Server(Scripted(propose(IDLE, MISS), judge=lambda rubric, run: "met" in run)) as server:
        done = tune(annotate_cli, server)
        assert done.code == 0
        assert "No candidate helps: gain 0.00 on 40 labels of 8 tasks; keep the rubric." in done.out
        assert not Path("out/rubric.yaml").exists()
        assert "next:" not in done.err


def test_a_change_that_memorizes_is_not_kept(annotate_cli, labelled) -> None:
    """It names the runs that proposed it, and mends only them."""

    def memorize(request: Request) -> Any:
        numbers = sorted(set(re.findall(r"letter number (\d+)", request.user)))
        return propose(("rubric", "instructions", f"Of runs {', '.join(numbers)} none is alpha."))

    def judge(rubric: str, run: str) -> bool:
        number = re.search(r"number (\d+)", run)[1]
        return "met" in run and not re.search(rf"Of runs .*\b{number}\b", rubric)

    with Server(Scripted(memorize, judge=judge)) as server:
        done = tune(annotate_cli, server)
        assert "No candidate helps: gain 0.00" in done.out
        assert verdicts() == [("instructions", False)]


def test_changes_that_help_are_put_together(annotate_cli, labelled) -> None:
    """One mends two letters in three, the other the rest; a third spoils what they mend."""

    def judge(rubric: str, run: str) -> bool:
        last = re.search(r"number \d(\d)", run)[1]
        mended = "met under way" in rubric if last != "1" else "It was met." in rubric
        return "met" in run and not mended

    more = ("alpha", "evidence", "It was met.")
    with Server(Scripted(propose(more, MENDING), judge=judge)) as server:
        done = tune(annotate_cli, server)
        assert [kept for _, kept in verdicts()] == [True, True]
        assert result()["product"]["together"]["more"] == 10
        rubric = load_rubric("out/rubric.yaml")
        assert (rubric.code("alpha").evidence, rubric.code("alpha").not_) == (more[2], MENDING[2])
        assert "→ 1.00" in done.out
    with Server(
        Scripted(propose(more), propose(more), propose(more), propose(MENDING), judge=judge)
    ) as server:
        done = tune(annotate_cli, server, "--rounds", 2, "--out", "two")
        assert [kept for _, kept in verdicts("two")] == [True, True]
        assert load_rubric("two/rubric.yaml").version == 2


def test_the_test_split_stays_closed_without_final(annotate_cli, labelled) -> None:
    """No byte of its runs is sent; with --final only judges read them, once for each rubric."""
    secret = re.compile(r"number [78]\d")

    def leaks(server: Server) -> list[Request]:
        return [each for each in server.seen if secret.search(json.dumps(each.body))]

    with Server(Scripted(propose(MENDING))) as server:
        done = tune(annotate_cli, server, labels="split.jsonl")
        assert done.code == 0, done.err
        assert "on 30 labels of 6 tasks" in done.out
        assert "calibrate RUN --labels split.jsonl --final" in done.err
        assert leaks(server) == []
        done = tune(annotate_cli, server, "--final", "--resume", labels="split.jsonl")
        text = " ".join(done.out.split())
        assert "On the test split (look 2): kappa 0.19 → 1.00, gain 0.81" in text
        assert len(leaks(server)) == 2 * 2 * EACH
        assert not any("You improve a rubric" in each.system for each in leaks(server))
    looks = [json.loads(line) for line in Path("split.jsonl.looks.jsonl").read_text().splitlines()]
    assert {look["split"] for look in looks} == {"dev", "test"}
    assert (
        annotate_cli("tune", "logs", "--labels", "labels.jsonl", *options(server, "--final")).code
        == 2
    )


def test_a_run_is_repeated_without_a_call(annotate_cli, labelled) -> None:
    with Server(Scripted(propose(IDLE, MENDING))) as server:
        first = tune(annotate_cli, server, "--no-cache")
        calls = server.calls
        again = tune(annotate_cli, server, "--no-cache", "--resume")
        assert (again.out, again.code) == (first.out, 0)
        assert server.calls == calls
        assert tune(annotate_cli, server).code == 2  # a run is there


def test_a_budget_stops_it_and_a_larger_one_goes_on(annotate_cli, labelled) -> None:
    priced = ("--price-in", "1000", "--price-out", "1000")
    with Server(Scripted(propose(IDLE, MENDING))) as server:
        whole = tune(annotate_cli, server, "--no-cache", *priced, "--out", "whole")
        calls, cost = server.calls, result("whole")["cost_usd"]
        done = tune(annotate_cli, server, "--no-cache", *priced, "--max-cost", cost / 2)
        assert done.code == 3, done.err
        assert server.calls - calls < calls
        done = tune(annotate_cli, server, "--no-cache", *priced, "--max-cost", 3 * cost, "--resume")
        assert done.code == 0, done.err
        assert done.out.replace("out", "") == whole.out.replace("out", "")
        assert result()["cost_usd"] == pytest.approx(cost, rel=0.01)


def test_copies_of_traces_are_refused_and_asked_for_again(annotate_cli, labelled) -> None:
    copied = ("alpha", "near_miss", "They met.", ["a letter reached nobody in the whole village"])
    with Server(Scripted(propose(copied), propose(MENDING))) as server:
        done = tune(annotate_cli, server)
        assert done.code == 0, done.err
        reasks = [each.reask for each in server.seen if each.reask]
        assert len(reasks) == 1
        assert '"reached nobody in the whole village" stands in a run' in reasks[0]
        assert "village" not in Path("out/rubric.yaml").read_text()
    with Server(Scripted(propose(copied))) as server:
        done = tune(annotate_cli, server, "--quote-traces", "--out", "quoted")
        assert [clause for clause, _ in verdicts("quoted")] == ["alpha.near_miss"]
        assert not any(each.reask for each in server.seen)


@pytest.mark.parametrize(
    ("change", "mode", "reason"),
    [
        (("alpha", "definition", "A question ignored."), "tools", "it changes nothing"),
        (("alpha", "instructions", "A rule."), "json", 'go with the code "rubric"'),
        (("rubric", "definition", "A rule."), "strict", 'go with the code "rubric"'),
        (("alpha", "example", "Why."), "named", "quotes are for near_miss and example"),
        ((*IDLE, [f"{n} quotes" for n in range(5)]), "tools", "at most 4 items"),
    ],
)
def test_a_malformed_change_is_asked_for_again(
    annotate_cli, labelled, change, mode, reason
) -> None:
    """In every form of an answer."""
    with Server(Scripted(propose(change), propose(MENDING))) as server:
        done = tune(annotate_cli, server, *set_model(mode=mode))
        assert done.code == 0, done.err
        assert reason in next(each.reask for each in server.seen if each.reask)
        assert verdicts() == [("alpha.not", True)]


def test_a_stage_at_a_time_in_files(annotate_cli, labelled) -> None:
    """Each stage writes its requests, waits, and goes on with their answers."""
    with Server(Scripted(propose(IDLE, MENDING))) as server:
        stages, results = [], ()
        for n in range(9):
            done = tune(
                *(annotate_cli, server, "--batch-file", f"{n}.jsonl", *results),
                *(["--resume"] if n else []),
            )
            assert done.code == 0, done.err
            if "Tuned" in done.out:
                break
            stages.append(len(requests_in(f"{n}.jsonl")))
            answer(server, f"{n}.jsonl", f"{n}.results.jsonl")
            results = ("--batch-results", f"{n}.results.jsonl")
        # Labels; requests for changes of all and two folds; two changes on their halves, which
        # have 30 runs; the others, held out. Folds that try the same ask once.
        assert stages == [40, 3, 2 * 30, 10]
        assert "kappa 0.19 → 1.00" in done.out


def test_too_few_labels_are_refused_before_a_call(annotate_cli, labelled, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in labelled[1].read_text().splitlines()]
    with Server() as server:
        for count, tasks in ((25, 5), (29, 6)):
            write_labels(tmp_path / "few.jsonl", rows[:count])
            done = tune(annotate_cli, server, labels="few.jsonl")
            assert done.code == 2
            assert f"{count} labels of {tasks} tasks are too few" in done.err
            assert "at least 30 traces of 4 tasks" in done.err
        # Five tasks in two folds: one fold leaves two tasks, so that one is left to check.
        for row in rows[:25:5]:
            extra = row | {"trace_id": f"{row['trace_id']}0"}
            write_run(tmp_path / "logs" / extra["trace_id"], [("agent1", "A real letter.")])
            rows.insert(0, extra)
        write_labels(tmp_path / "few.jsonl", rows[:30])
        done = tune(annotate_cli, server, labels="few.jsonl")
        assert "--folds 2 leaves fewer than 3 of 5 tasks to tune on: use --folds 5" in done.err
        absent = [row | {"trace_id": f"x{row['trace_id']}", "split": "test"} for row in rows]
        present = [row | {"split": "dev"} for row in rows]
        write_labels(tmp_path / "absent.jsonl", [*present, *absent])
        done = tune(annotate_cli, server, "--final", labels="absent.jsonl")
        assert "no labelled trace of the test split is among the traces" in done.err
        assert server.calls == 0


def test_the_forecast_contains_what_it_takes(annotate_cli, labelled) -> None:
    priced = ("--price-in", "1", "--price-out", "1", "--json")
    with Server(Scripted(propose(IDLE, MENDING))) as server:
        done = tune(annotate_cli, server, "--candidates", 2, "--dry-run", *priced)
        assert server.calls == 0
        expected = json.loads(done.out)
        # 40 labels, 3 requests, 2 changes on half of 40 and of twice 20; at most all together and
        # the folds, too.
        assert expected["calls"] == 40 + 3 + 2 * 40
        assert expected["calls_high"] == 40 + 3 + 3 * 40 + 40
        tune(annotate_cli, server, "--candidates", 2, "--no-cache", *priced)
        assert expected["calls"] <= server.calls <= expected["calls_high"]


def test_requests_without_an_answer_change_nothing(annotate_cli, labelled) -> None:
    """Without an answer for the folds nothing is proven; without any there is no result."""

    def respond(request: Request) -> Reply:
        if "You improve a rubric" in request.system and "on 20 runs" not in request.user:
            return Reply(text="I would rather not.")
        return scripted(request)

    scripted = Scripted(propose(MENDING))
    with Server(respond) as server:
        done = tune(annotate_cli, server)
        text = " ".join(done.out.split())
        assert "Not proven: kappa 0.19 → 0.19, gain 0.00 on 40 labels of 8 tasks" in text
        assert "2 requests for changes without a usable answer" in text
        scripted = Scripted({"turns": []})
        done = tune(annotate_cli, server, "--out", "none", "--no-cache")
        assert done.code == 2
        assert "no proposal could be used" in done.err


def test_a_second_round_without_an_answer_keeps_the_first(annotate_cli, labelled) -> None:
    def judge(rubric: str, run: str) -> bool:
        last = re.search(r"number \d(\d)", run)[1]
        return "met" in run and (last == "1" or "met under way" not in rubric)

    with Server(Scripted(*[propose(MENDING)] * 3, {"turns": []}, judge=judge)) as server:
        done = tune(annotate_cli, server, "--rounds", 2)
        assert done.code == 0, done.err
        assert verdicts() == [("alpha.not", True)]
        text = " ".join(done.out.split())
        assert "3 requests for changes without a usable answer count as no change" in text


def test_a_repeat_that_keeps_nothing_leaves_no_rubric(annotate_cli, labelled) -> None:
    """More changes than asked for are cut."""
    with Server(Scripted(propose(IDLE, MENDING, MISS))) as server:
        tune(annotate_cli, server, "--candidates", 2)
        assert verdicts() == [("beta.definition", False), ("alpha.not", True)]
        assert Path("out/rubric.yaml").exists()
        done = tune(annotate_cli, server, "--candidates", 1, "--resume")
        assert "No candidate helps" in done.out
        assert not Path("out/rubric.yaml").exists()


def test_more_labels_go_on_with_other_changes(annotate_cli, labelled) -> None:
    """The model proposes something else on more labels; what is judged by other rubrics stays."""
    with Server(Scripted(*[propose(IDLE, MENDING)] * 3, propose(MENDING))) as server:
        tune(annotate_cli, server, labels="split.jsonl")
        done = tune(annotate_cli, server, "--resume")
        assert "on 40 labels of 8 tasks" in done.out, done.err
        assert verdicts() == [("alpha.not", True)]
        assert all(Path("out", x["name"]).is_dir() for x in result()["product"]["candidates"])


def test_traces_without_a_task_are_counted(annotate_cli, labelled) -> None:
    with Server(Scripted(propose(IDLE))) as server:
        done = tune(annotate_cli, server, "--cluster", "none")
    assert "no task is named by 40 labelled traces: each counts as a task" in done.err


@pytest.mark.parametrize("name", ["symptoms", "comm_errors", "who_and_when"])
def test_a_derived_rubric_is_that_of_its_file(name: str, tmp_path: Path) -> None:
    rubric = load_rubric(name)
    code = rubric.codes[0].id
    changes = [
        ClauseChange(code, "not", "Other: text"),
        ClauseChange("", "instructions", "If both, none."),
    ]
    derived = derive_rubric(rubric, changes)
    file = tmp_path / "new.yaml"
    file.write_text(dump_rubric(derived))
    assert load_rubric(str(file)) == derived.model_copy(update={"file": str(file)})
    assert derived.version == rubric.version + 1
    assert "CLOSE CALLS\n- If both, none.\n" in f"{derived.instructions}\n"


def test_a_run_gives_traces_redaction_and_judge(annotate_cli, labelled, monkeypatch) -> None:
    with Server(Scripted(propose(IDLE, MENDING))) as server:
        model = ("--model", "m", "--base-url", server.url, *set_model(attempts=1))
        run = ("logs", "--rubric", "faults.yaml", *model, "--redact", "--out", "run")
        assert annotate_cli(*run).code == 0
        monkeypatch.setenv("ANNOTATOR_MODEL", "other")
        more = ("--labels", "labels.jsonl", "--rubric", "faults.yaml", "--folds", 2)
        done = annotate_cli("tune", "run", *more, "--out", "out")
        assert "kappa 0.19 → 1.00" in done.out, done.err
        assert {each.body["model"] for each in server.seen} == {"m"}
        bodies = [json.dumps(each.body) for each in server.seen]
        assert len(set(bodies)) == len(bodies)  # what the run was answered is known
        assert not any("ann@example.org" in body for body in bodies)
        assert "--judge out/judge.yaml" in done.err
