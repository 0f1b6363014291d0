"""Judges from elsewhere, and what a judge is built from."""

import json
from pathlib import Path
from typing import Any

import pytest

from annotator import AnnotatorError
from annotator.judges.build import build_judge, parse_settings
from tests.conftest import annotations
from tests.judges import strange_judges
from tests.judges.ask import ARGS, manifest, statuses
from tests.server import Server

HERE = "tests.judges.strange_judges"
OUT = (*ARGS, "--out", "out")


@pytest.mark.parametrize("name", ["Good", "Awaited", "made", "ready"])
def test_a_judge_from_elsewhere_judges_and_its_origin_is_recorded(annotate_cli, runs, name):
    """A class, with and without ``async``, a function that returns a judge, and one itself."""
    runs(2)
    done = annotate_cli(*OUT, "--judge", f"{HERE}:{name}")
    assert done.code == 0, done.err
    assert {one.primary for one in annotations(Path("out")).values()} == {"C3a"}
    judge = manifest()["judge"]
    origin = judge.pop("plugin")
    assert judge == {"id": "good", "least": [1, 2]}
    assert origin.startswith(f"{HERE} ")
    codes = {code["id"]: code["judged"] for code in manifest()["rubrics"][0]["codes"]}
    assert [code for code, judged in codes.items() if judged] == ["C3a"]
    dry = annotate_cli(*OUT, "--judge", f"{HERE}:{name}", "--dry-run")
    assert "the judge does not say what it will use" in dry.out


def test_all_that_a_run_can_ask_is_asked(annotate_cli, runs):
    runs(2)
    strange_judges.Full.calls.clear()
    args = (*OUT, "--judge", f"{HERE}:Full")
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


def test_a_module_of_the_current_folder_and_another_version_of_it(annotate_cli, runs):
    """A module of no distribution is identified by its file; a change makes another judge."""
    runs(1)
    file = Path("my_own_judge.py")
    file.write_text(f"from {HERE} import Good\n")
    args = (*OUT, "--judge", "my_own_judge:Good")
    assert annotate_cli(*args).code == 0
    before = manifest()["judge"]["plugin"]
    file.write_text(f"from {HERE} import Good  # and a change\n")
    done = annotate_cli(*args, "--resume")
    assert done.code == 2
    assert f'judge: plugin was "{before}", is now "my_own_judge ' in done.err


# A judge -> the exit code, the statuses of two traces, and words of the error.
STRANGE: dict[str, tuple[int, list[str], str]] = {
    "NoCodes": (2, [], "lacks codes"),
    "NoJson": (2, [], "settings: not JSON: Object of type object"),
    "Stops": (2, [], "the key was refused"),
    "Spent": (3, [], "nothing is left"),
    "nothing_like_it": (2, [], "expected an object with id, settings, codes, judge"),
    "Raises": (1, ["failed"] * 2, r"the judge 'good' raised KeyError: 'message\n3'"),
    "NoVerdict": (
        1,
        ["failed"] * 2,
        "the judge 'good' raised TypeError: expected a Verdict, found set",
    ),
    "NoCost": (1, ["failed"] * 2, "returned an invalid verdict: usage.cost_usd: "),
    "OtherCode": (1, ["failed"] * 2, "found 'C1a', which is not among its codes for comm_errors"),
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_judge_is_told_in_one_line(annotate_cli, runs, name):
    code, expected, reason = STRANGE[name]
    runs(2)
    done = annotate_cli(*OUT, "--judge", f"{HERE}:{name}", "--concurrency", "1")
    assert (done.code, "Traceback" in done.err) == (code, False), done.err
    assert (statuses() if Path("out").exists() else []) == expected
    found = annotations(Path("out")).values() if expected else []
    assert reason in done.err or all(reason in (one.error or "") for one in found)
    if name == "OtherCode":
        assert {one.usage.cost_usd for one in found} == {0.5}


def test_a_judge_from_names_settings_files_and_objects(tmp_path):
    file = tmp_path / "judge.yaml"
    file.write_text("{model: m, base_url: 'http://127.0.0.1:1/v1', samples: 2}")
    url, price = {"base_url": "http://127.0.0.1:1/v1"}, {"price_in": 1, "price_out": 1}
    cases: dict[str, Any] = {
        "rules": "rules",
        "good": strange_judges.Good(),
        "llm:m": {"model": "m", **url},
        "llm:a+b": {"models": [{"model": "a"}, {"model": "b"}], **url},
        "llm:n": parse_settings({"model": "n", "max_cost": 1, **price, **url}),
    }
    assert {build_judge(given).judge.id for given in cases.values()} == cases.keys()
    for given in (file, str(file)):
        assert build_judge(given).judge.settings["samples"] == 2
    assert build_judge("gpt-5", offline=True).judge.id == "llm:gpt-5"
    built = build_judge("rules")
    assert build_judge(built) is built
    assert build_judge(built.judge).judge is built.judge


WRONG: tuple[tuple[Any, str], ...] = (
    ("llm", "the llm judge needs a model"),
    ("no_such_module:Judge", "cannot be imported: ModuleNotFoundError: No module named"),
    (strange_judges.Good, "Good is no judge: it is a class"),
    (7, "int is no judge: lacks id, settings, codes, judge"),
    ({"model": "m", "modle": 1}, "modle"),
    ({"samples": 2}, "no model"),
    ({"model": "unheard-of", "max_cost": 1}, "the price of unheard-of is not known"),
    ({"model": "m", "batch": True, "batch_file": "x"}, "--batch does it all"),
)


@pytest.mark.parametrize(("given", "reason"), WRONG, ids=str)
def test_a_wrong_description_of_a_judge(given, reason):
    with pytest.raises(AnnotatorError, match=reason):
        build_judge(given, offline=True)


def test_options_of_models_mean_nothing_to_a_plug_in(annotate_cli, runs):
    runs(1)
    args = (*OUT, "--judge", f"{HERE}:Good")
    done = annotate_cli(*args, "--max-cost", "1")
    assert (done.code, "--max-cost bounds what the llm judge spends" in done.err) == (2, True)
    with Server() as server:
        done = annotate_cli(*args, "--model", "m", "--base-url", server.url)
        assert (done.code, server.calls) == (0, 0)
    assert "is no judge of ours; without effect: --base-url, --model" in done.err
