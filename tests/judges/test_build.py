"""Judges from elsewhere: what is asked of them, and what is said of one that is none."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from annotator import AnnotatorError
from annotator.judges.build import build_judge, model_settings
from annotator.judges.rules import RulesJudge
from tests.conftest import Done, annotations
from tests.judges import strange_judges
from tests.openai_server import OpenAIServer

Cli = Callable[..., Done]
Runs = Callable[..., Path]

HERE = "tests.judges.strange_judges"
ARGS = ("logs", "--rubric", "comm_errors", "--out", "out")


def manifest() -> dict[str, Any]:
    return json.loads(Path("out", "run.json").read_text())


class TestAJudgeFromElsewhere:
    @pytest.mark.parametrize("name", ["Good", "Awaited", "made", "ready"])
    def test_it_judges_and_its_origin_is_recorded(
        self, annotate_cli: Cli, runs: Runs, name: str
    ) -> None:
        """A class, with and without ``async``, a function that returns a judge, and one itself."""
        runs(2)
        done = annotate_cli(*ARGS, "--judge", f"{HERE}:{name}")
        assert done.code == 0, done.err
        assert {one.primary for one in annotations(Path("out")).values()} == {"C3a"}
        judge = manifest()["judge"]
        origin = judge.pop("plugin")
        assert judge == {"id": "good", "least": [1, 2]}
        assert origin.startswith(f"{HERE} ")
        assert f"judge: good ({origin})" in done.err
        codes = {code["id"]: code["judged"] for code in manifest()["rubrics"][0]["codes"]}
        assert [code for code, judged in codes.items() if judged] == ["C3a"]

    def test_all_that_a_run_can_ask_is_asked(self, annotate_cli: Cli, runs: Runs) -> None:
        runs(2)
        strange_judges.Full.calls.clear()
        args = (*ARGS, "--judge", f"{HERE}:Full")
        expected = json.loads(annotate_cli(*args, "--dry-run", "--json").out)
        assert (expected["calls"], expected["input_tokens"]) == (2, 20)
        assert (expected["cost_usd_low"], expected["cost_usd_high"]) == (0.5, 0.5)
        assert expected["assumption"] == "ten tokens a trace"
        assert annotate_cli(*args).code == 0
        run = manifest()
        assert (run["overhead"]["cost_usd"], run["learned"]) == (0.5, {"seen": 3})
        assert [code["id"] for code in run["rubrics"][0]["codes"] if code["screen"]] == ["C3a"]
        assert annotate_cli(*args, "--resume").code == 0
        assert strange_judges.Full.calls == ["open", "close", {"seen": 3}, "open", "close"]

    def test_it_may_expect_a_range(self, annotate_cli: Cli, runs: Runs) -> None:
        runs(2)
        args = (*ARGS, "--judge", f"{HERE}:Ranged")
        expected = json.loads(annotate_cli(*args, "--dry-run", "--json").out)
        assert (expected["cost_usd_low"], expected["cost_usd_high"]) == (0.5, 2.0)

    def test_what_it_does_not_say_of_its_cost_is_not_known(
        self, annotate_cli: Cli, runs: Runs
    ) -> None:
        runs(1)
        done = annotate_cli(*ARGS, "--judge", f"{HERE}:Good", "--dry-run")
        assert "cost          unknown" in done.out
        assert "the judge does not say what it will use" in done.out

    def test_async_judges_overlap_and_others_do_not(self, annotate_cli: Cli, runs: Runs) -> None:
        runs(6)
        for judge, most in ((strange_judges.Overlap, 3), (strange_judges.Alone, 6)):
            name = f"{HERE}:{judge.__name__}"
            out = ("--out", judge.__name__, "--concurrency", "3")
            assert annotate_cli(*ARGS, *out, "--judge", name).code == 0
            assert (judge.most, judge.threads) == (most, {threading.get_ident()})

    def test_a_module_of_the_current_folder_and_another_version_of_it(
        self, annotate_cli: Cli, runs: Runs, tmp_path: Path
    ) -> None:
        """What belongs to no distribution is known by its file; a change makes another judge."""
        runs(1)
        file = tmp_path / "my_own_judge.py"
        file.write_text(f"from {HERE} import Good\n")
        args = (*ARGS, "--judge", "my_own_judge:Good")
        assert annotate_cli(*args).code == 0
        before = manifest()["judge"]["plugin"]
        file.write_text(f"from {HERE} import Good  # and a change\n")
        done = annotate_cli(*args, "--resume")
        assert done.code == 2
        assert f'judge: plugin was "{before}", is now "my_own_judge ' in done.err


# A judge that is none -> what is said of it; nothing is judged, no directory is left.
NO_JUDGES = {
    "NoCodes": "lacks codes",
    "NoJson": "settings: not JSON: Object of type object",
    "NoNumber": "settings: not JSON: Out of range float",
    "NoMapping": "settings: not JSON: 'int' object is not iterable",
    "Stops": "the key was refused",
    "nothing_like_it": "expected an object with id, settings, codes, judge",
    "absent": "cannot be imported: AttributeError",
}


@pytest.mark.parametrize(("name", "reason"), NO_JUDGES.items(), ids=NO_JUDGES)
def test_what_is_no_judge_is_said_in_one_line(
    annotate_cli: Cli, runs: Runs, name: str, reason: str
) -> None:
    runs(1)
    done = annotate_cli(*ARGS, "--judge", f"{HERE}:{name}")
    assert (done.code, done.out) == (2, "")
    assert reason in done.err
    assert "Traceback" not in done.err
    assert not Path("out").exists()


def test_a_judge_can_stop_for_want_of_money(annotate_cli: Cli, runs: Runs) -> None:
    runs(1)
    done = annotate_cli(*ARGS, "--judge", f"{HERE}:Spent")
    assert done.code == 3
    assert "nothing is left" in done.err


def test_ctrl_c_fails_no_trace(annotate_cli: Cli, runs: Runs) -> None:
    runs(3)
    done = annotate_cli(*ARGS, "--judge", f"{HERE}:Interrupted", "--concurrency", "1")
    assert done.code == 130
    assert [one.status for one in annotations(Path("out")).values()] == ["labelled"]


# What a judge does -> why the trace failed.
NO_VERDICTS = {
    "Raises": r"the judge 'good' raised KeyError: 'message\n3'",
    "RaisesLater": "the judge 'good' raised TimeoutError",
    "Unread": "agent1_traj.json: not valid JSON",
    "NoVerdict": "the judge 'good' raised TypeError: expected a Verdict, found set",
    "NoClaim": "the judge 'good' has no claim for its primary code 'C3a'",
    "NoRationale": "raised ValidationError: ",
    "NoCost": "raised ValidationError: ",
    "CallsBack": "raised ValueError: calls: expected a number from 0, found -1",
    "UnknownCode": "the judge 'good' found 'Z9', which is not among its codes for comm_errors",
    "OtherCode": "found 'C1a', which is not among its codes for comm_errors",
}


@pytest.mark.parametrize(("name", "reason"), NO_VERDICTS.items(), ids=NO_VERDICTS)
def test_what_is_no_verdict_fails_that_trace(
    annotate_cli: Cli, runs: Runs, name: str, reason: str
) -> None:
    runs(2)
    done = annotate_cli(*ARGS, "--judge", f"{HERE}:{name}")
    assert done.code == 1
    assert "Traceback" not in done.err
    recorded = annotations(Path("out")).values()
    assert [one.status for one in recorded] == ["failed"] * 2
    assert all(reason in (one.error or "") for one in recorded)
    assert {one.usage.cost_usd for one in recorded} == {0.5 if name == "OtherCode" else 0.0}


class TestFromWhatAJudgeIsBuilt:
    def test_from_names_settings_files_and_objects(self, tmp_path: Path) -> None:
        file = tmp_path / "judge.yaml"
        file.write_text("{model: m, base_url: 'http://127.0.0.1:1/v1', samples: 2}")
        url, price = {"base_url": "http://127.0.0.1:1/v1"}, {"price_in": 1, "price_out": 1}
        cases: dict[str, Any] = {
            "rules": "rules",
            "good": strange_judges.Good(),
            "llm:m": {"model": "m", **url},
            "llm:a+b": {"models": [{"model": "a"}, {"model": "b"}], **url},
            "llm:n": model_settings({"model": "n", "max_cost": 1, **price, **url}),
        }
        assert {build_judge(given).judge.id for given in cases.values()} == cases.keys()
        for given in (file, str(file)):
            assert build_judge(given).judge.settings["samples"] == 2
        assert build_judge("gpt-5", offline=True).judge.id == "llm:gpt-5"
        rules = RulesJudge()
        assert build_judge(rules).judge is rules
        built = build_judge("rules")
        assert build_judge(built) is built

    WRONG = (
        ("llm", "the llm judge needs a model"),
        ("no_such_module:Judge", "cannot be imported: ModuleNotFoundError: No module named"),
        (strange_judges.Good, "Good is no judge: it is a class"),
        (7, "int is no judge: lacks id, settings, codes, judge"),
        ({"model": "m", "modle": 1}, "modle"),
        ({"models": "m"}, "models: expected a list of settings"),
        ({"model": "m", "samples": 0}, "samples: expected a number from 1 to 99, found 0"),
        ({"samples": 2}, "no model"),
        ({"model": "m", "samples": 2, "temperature": 0}, "would be one answer several times"),
        ({"model": "unheard-of", "max_cost": 1}, "the price of unheard-of is not known"),
        ({"model": "m", "batch": True, "batch_file": "x"}, "--batch does it all"),
    )

    @pytest.mark.parametrize(("given", "reason"), WRONG, ids=str)
    def test_what_is_wrong_is_said(self, given: Any, reason: str) -> None:
        with pytest.raises(AnnotatorError, match=reason):
            build_judge(given, offline=True)


def test_options_of_models_mean_nothing_to_a_plug_in(annotate_cli: Cli, runs: Runs) -> None:
    runs(1)
    args = (*ARGS, "--judge", f"{HERE}:Good")
    done = annotate_cli(*args, "--max-cost", "1")
    assert done.code == 2
    assert "--max-cost bounds what the llm judge spends" in done.err
    with OpenAIServer() as server:
        done = annotate_cli(*args, "--model", "m", "--base-url", server.url)
        assert (done.code, server.calls) == (0, 0)
    assert "is no judge of ours; without effect: --base-url, --model" in done.err


@pytest.mark.parametrize("learned", ["x", 3, None, [], {"mode": []}, {"answered_by": {"m": "x"}}])
def test_what_a_panel_is_told_that_it_learned_may_be_anything(learned: Any) -> None:
    panel = build_judge({"models": [{"model": "a"}, {"model": "b"}]}, offline=True).judge
    before = panel.learned
    panel.recall(dict.fromkeys(before, learned))
    assert panel.learned == before


def test_a_model_of_a_file_that_has_no_name_is_not_the_one_that_is_named() -> None:
    settings = model_settings({"models": [{"model": ["a"]}]}, over={"models": ("m",)})
    assert [model.model for model in settings.models] == ["m"]
