"""How a model is asked: options, the judge file, what is sent, and what is said of mistakes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from annotator.judges.llm.settings import Options
from tests.conftest import Done, annotations, set_model
from tests.judges.test_llm import RIGHT, scripted
from tests.openai_server import OpenAIServer, Reply, Request
from tests.runs.test_run import statuses

Cli = Callable[..., Done]
Runs = Callable[..., Path]

ARGS = ("logs", "--rubric", "comm_errors", *set_model(mode="tools"), "--out", "out")


def judge_file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "judge.yaml"
    file.write_text(text)
    return file


def run_json() -> dict[str, Any]:
    return json.loads(Path("out", "run.json").read_text())


def sent(server: OpenAIServer) -> dict[str, dict[str, Any]]:
    """The first request to each model, without what is no setting."""
    ours = {"messages", "tools", "tool_choice", "model"}
    return {
        one.body["model"]: {name: value for name, value in one.body.items() if name not in ours}
        for one in reversed(server.seen)
    }


# Options, the same in a judge file -> fields of the request.
SETTINGS: dict[str, tuple[tuple[str, ...], str, dict[str, Any]]] = {
    "temperature": (("--temperature", "0"), "temperature: 0", {"temperature": 0.0}),
    "seed": (("--seed", "0"), "seed: 0", {"seed": 0}),
    "effort": (
        set_model(reasoning_effort="low"),
        "reasoning_effort: low",
        {"reasoning_effort": "low"},
    ),
    "longest answer": (
        set_model(max_output_tokens=99),
        "max_output_tokens: 99",
        {"max_completion_tokens": 99},
    ),
    "more fields": (
        set_model(extra_body={"top_p": 0.5, "chat_template_kwargs": {"thinking": False}}),
        "extra_body: {top_p: 0.5, chat_template_kwargs: {thinking: false}}",
        {"top_p": 0.5, "chat_template_kwargs": {"thinking": False}},
    ),
    "a field of ours by its own name": (
        set_model(max_output_tokens=99, extra_body={"max_tokens": 99}),
        "{max_output_tokens: 99, extra_body: {max_tokens: 99}}",
        {"max_completion_tokens": 99, "max_tokens": 99},
    ),
}


class TestWhatIsSent:
    @pytest.mark.parametrize("where", ["options", "file"])
    @pytest.mark.parametrize(("given", "text", "fields"), SETTINGS.values(), ids=SETTINGS)
    def test_a_setting_is_sent_and_recorded_as_it_is(
        self,
        annotate_cli: Cli,
        runs: Runs,
        tmp_path: Path,
        given: tuple[str, ...],
        text: str,
        fields: dict[str, Any],
        where: str,
    ) -> None:
        runs(1)
        fields = {"temperature": 0.0, **fields}  # as servers on this machine are sent
        file = judge_file(tmp_path, text)
        more = given if where == "options" else ("--judge", file)
        with OpenAIServer(scripted(RIGHT)) as server:
            done = annotate_cli(*ARGS, "--base-url", server.url, "--model", "m", *more)
            assert done.code == 0, done.err
            assert sent(server) == {"m": fields}
        judge = run_json()["judge"]
        assert judge["parameters"] == fields
        assert (judge["model"], judge["base_url"], judge["mode"]) == ("m", server.url, "tools")

    def test_the_probe_is_sent_them_too(self, annotate_cli: Cli, runs: Runs) -> None:
        runs(1)
        with OpenAIServer(scripted(RIGHT)) as server:
            args = ("logs", "--rubric", "comm_errors", "--model", "m", "--temperature", "0.5")
            annotate_cli(*args, "--base-url", server.url)
            assert [one.body["temperature"] for one in server.probes + server.seen] == [0.5, 0.5]

    @pytest.mark.parametrize(("seed", "seeds"), [(("--seed", "5"), {5, 6, 7}), ((), {None})])
    def test_samples_have_seeds_of_their_own(
        self, annotate_cli: Cli, runs: Runs, seed: tuple[str, ...], seeds: set[int | None]
    ) -> None:
        runs(2)
        with OpenAIServer(scripted(RIGHT)) as server:
            args = (*ARGS, "--base-url", server.url, "--model", "m", "--samples", "3", *seed)
            assert annotate_cli(*args).code == 0
            of_each: dict[str, list[int | None]] = {}
            for one in server.seen:
                of_each.setdefault(one.user, []).append(one.body.get("seed"))
        assert [(len(one), set(one)) for one in of_each.values()] == [(3, seeds)] * 2
        assert run_json()["judge"]["samples"] == 3

    def test_samples_that_would_be_one_answer_are_refused(
        self, annotate_cli: Cli, runs: Runs
    ) -> None:
        runs(1)
        with OpenAIServer(scripted(RIGHT)) as server:
            args = (*ARGS, "--base-url", server.url, "--model", "m", "--temperature", "0")
            done = annotate_cli(*args, "--samples", "2")
            assert (done.code, server.calls, Path("out").exists()) == (2, 0, False)
        assert "would be one answer several times" in " ".join(done.err.split())


MODELS = """\
temperature: 0.5
seed: 1
models:
  - {model: a}
  - {model: b, temperature: 1, extra_body: {top_p: 0.5}}
"""


class TestTheJudgeFile:
    def test_hours_for_batches_are_a_number(self, annotate_cli: Cli, runs: Runs) -> None:
        runs(1)
        done = annotate_cli(*ARGS, "--model", "m", *set_model(batch_wait="long"))
        assert (done.code, "batch_wait: expected hours above 0" in done.err) == (2, True)

    # Options besides the file -> what is sent to which model.
    CASES = (
        ((), {"a": (0.5, 1, None), "b": (1.0, 1, 0.5)}),
        (("--temperature", "0.1"), {"a": (0.1, 1, None), "b": (0.1, 1, 0.5)}),
        (("--model", "b"), {"b": (1.0, 1, 0.5)}),
        (("--model", "b", "--model", "c"), {"b": (1.0, 1, 0.5), "c": (0.5, 1, None)}),
        (("--seed", "9"), {"a": (0.5, 9, None), "b": (1.0, 9, 0.5)}),
    )

    @pytest.mark.parametrize(("more", "fields"), CASES, ids=str)
    def test_a_models_own_settings_win_and_the_command_line_over_them(
        self, annotate_cli: Cli, runs: Runs, tmp_path: Path, more: tuple[str, ...], fields: Any
    ) -> None:
        runs(1)
        file = judge_file(tmp_path, MODELS)
        with OpenAIServer(scripted(RIGHT)) as server:
            done = annotate_cli(*ARGS, "--base-url", server.url, "--judge", file, *more)
            assert done.code == 0, done.err
            found = {
                model: tuple(one.get(name) for name in ("temperature", "seed", "top_p"))
                for model, one in sent(server).items()
            }
        assert found == fields
        assert run_json()["judge"]["id"] == "llm:" + "+".join(fields)

    def test_it_wins_over_the_environment(
        self, annotate_cli: Cli, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A variable set long ago, for the address as for the models."""
        runs(1)
        with OpenAIServer(scripted(RIGHT)) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
            monkeypatch.setenv("ANNOTATOR_MODEL", "from-the-environment")
            file = judge_file(tmp_path, f"{MODELS}base_url: {server.url}\n")
            assert annotate_cli(*ARGS, "--judge", file).code == 0
            assert sent(server).keys() == {"a", "b"}

    def test_it_can_say_everything(self, annotate_cli: Cli, runs: Runs, tmp_path: Path) -> None:
        runs(1)
        with OpenAIServer(scripted(Reply(status=503), Reply(text="{"), RIGHT)) as server:
            text = f"{{model: m, base_url: '{server.url}', mode: json_schema, attempts: 2}}"
            file = judge_file(tmp_path, text.replace("attempts", "samples: 2, reasks: 2, attempts"))
            args = ("logs", "--rubric", "comm_errors", "--out", "out", "--judge", file)
            assert annotate_cli(*args, "--concurrency", "1").code == 0
            assert {one.form for one in server.seen} == {"json_schema"}
            assert server.calls == 4
        assert run_json()["judge"]["samples"] == 2

    WRONG = (
        ("temprature: 1", "'temprature'"),
        ("models: [{model: a, samples: 2}]", "'samples'"),
        ("models: [{model: a, tmperature: 1}]", "'tmperature'"),
        ("models: gpt-5", "models: "),
        ("models: [gpt-5]", "models: "),
        ("{model: m, temperature: hot}", "temperature: "),
        ("{model: m, temperature: 3}", "temperature: "),
        ("{model: m, seed: 1.5}", "seed: "),
        ("{model: m, attempts: 0}", "attempts: "),
        ("{model: m, mode: toolz}", "mode: "),
        ("{model: m, api: []}", "api: "),
        ("models: [{model: [a]}]", "model: "),
        ("{model: m, extra_body: [1]}", "extra_body: "),
        ("{model: m, extra_body: {messages: []}}", "extra_body: 'messages'"),
        ("{model: m, extra_body: {day: 2026-01-31}}", "extra_body"),
        ("models: [{model: a, timeout: 0}]", "timeout: "),
        ("{model: m, samples: 0}", "samples: "),
        ("{model: m, samples: many}", "samples: "),
        ("{model: ''}", "model: "),
        ("models: [{temperature: 1}]", "model"),
        ("temperature: 1", "model"),
        ("models: [{model: a}, {model: a}]", "'a'"),
        ("model: [", "not valid YAML"),
        ("- model: m", "expected settings"),
        ("", "expected settings"),
        (None, "does not exist"),
    )

    @pytest.mark.parametrize(("text", "said"), WRONG, ids=str)
    def test_a_wrong_one_is_named_with_the_field(
        self, annotate_cli: Cli, runs: Runs, tmp_path: Path, text: str | None, said: str
    ) -> None:
        runs(1)
        file = judge_file(tmp_path, text or "")
        if text is None:
            file.unlink()
        with OpenAIServer(scripted(RIGHT)) as server:
            args = ("logs", "--rubric", "comm_errors", "--out", "out", "--judge", file)
            done = annotate_cli(*args, "--base-url", server.url)
            assert (done.code, server.calls, Path("out").exists()) == (2, 0, False)
        words = " ".join(done.err.split())
        assert said in words
        assert "judge.yaml" in words or "judge file" in words


def test_an_extra_body_without_end_is_refused() -> None:
    body: dict[str, object] = {}
    for _ in range(9_999):
        body = {"a": body}
    with pytest.raises(ValueError, match="cannot be sent as JSON"):
        Options("m", extra_body=body)


EXTRA_BODY = (
    ("[1]", "extra_body"),
    ("3", "extra_body"),
    *(
        (json.dumps({name: None}), f"'{name}'")
        for name in ("model", "messages", "tools", "tool_choice", "response_format", "stream", "n")
    ),
)


@pytest.mark.parametrize(("text", "said"), EXTRA_BODY, ids=str)
def test_extra_fields_are_an_object_and_not_what_is_ours(
    annotate_cli: Cli, runs: Runs, text: str, said: str
) -> None:
    runs(1)
    with OpenAIServer(scripted(RIGHT)) as server:
        more = set_model(extra_body=json.loads(text))
        args = (*ARGS, "--base-url", server.url, "--model", "m", *more)
        done = annotate_cli(*args)
        assert (done.code, server.calls, Path("out").exists()) == (2, 0, False)
    assert said in done.err
    assert "extra" in done.err


@pytest.mark.parametrize("mode", ["auto", "tools", "json"])
def test_a_setting_that_the_server_rejects_stops_the_run_with_its_words_and_ours(
    annotate_cli: Cli, runs: Runs, mode: str
) -> None:
    def rejecting(request: Request) -> Reply:
        if request.body.get("temperature") is None:
            return RIGHT
        words = "Unsupported value: 'temperature' does not support 0.5 with this model."
        return Reply(status=400, error={"message": words, "param": "temperature"})

    runs(12)
    with OpenAIServer(rejecting, probe=rejecting) as server:
        args = ("logs", "--rubric", "comm_errors", "--base-url", server.url, "--model", "m")
        more = (*set_model(mode=mode), "--temperature", "0.5", "--seed", "7", "--concurrency", "2")
        done = annotate_cli(*args, *more)
        # Four forms are tried, then each of two calls in flight, and a tiny question after it.
        assert server.calls <= 4 + 2 * 2
        assert done.code == 2
        assert "'temperature' does not support 0.5" in done.err
        assert "temperature=0.5, seed=7" in done.err
        ours = annotate_cli(*args, *set_model(mode=mode))
        assert (ours.code, "dialect openai" in ours.err) == (2, True)
        server.probe = None
        again = annotate_cli(*args, *set_model(mode=mode, dialect="openai"))
        assert again.code == 0, again.err


# A run with these options, resumed with those -> what is said.
OTHERS = {
    "temperature": (("--temperature", "0.2"), ("--temperature", "0.5"), "temperature was 0.2, is"),
    "no seed": (("--seed", "7"), (), "seed was 7, is now null"),
    "extra field": ((), set_model(extra_body={"top_p": 1}), "top_p was null, is now 1"),
    "effort": ((), set_model(reasoning_effort="high"), 'reasoning_effort was null, is now "high"'),
    "context": ((), ("--context", "9000"), "context was null, is now 9000"),
    "of one of two": (
        ("--judge", "judge.yaml"),
        ("--judge", "other.yaml"),
        "temperature was 1.0, is now 2.0",
    ),
    "samples": (("--samples", "3"), ("--samples", "5"), "samples was 3, is now 5"),
}


@pytest.mark.parametrize(("before", "after", "said"), OTHERS.values(), ids=OTHERS)
def test_a_run_goes_on_with_its_own_settings_only(
    annotate_cli: Cli, runs: Runs, tmp_path: Path, before: Any, after: Any, said: str
) -> None:
    runs(2)
    judge_file(tmp_path, MODELS)
    (tmp_path / "other.yaml").write_text(MODELS.replace("temperature: 1,", "temperature: 2,"))
    with OpenAIServer(scripted(Reply(refusal="No."))) as server:
        model = () if "--judge" in before else ("--model", "m")
        args = (*ARGS, "--base-url", server.url, *model)
        annotate_cli(*args, *before)
        calls, lines = server.calls, Path("out", "annotations.jsonl").read_bytes()
        done = annotate_cli(*args, *after, "--resume")
        assert (done.code, server.calls) == (2, calls)
        assert f"{said}" in done.err
        assert "cannot be resumed" in done.err
        assert Path("out", "annotations.jsonl").read_bytes() == lines
        server.responder = scripted(RIGHT)
        how = (*set_model(attempts=3), "--concurrency", "3", *set_model(timeout=9), "--rpm", "9000")
        assert annotate_cli(*args, *before, *how, "--resume").code == 0
    assert statuses(Path("out")) == {"labelled": 2}


def test_the_rules_judge_says_which_options_it_does_not_use(
    annotate_cli: Cli, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(1)
    monkeypatch.setenv("ANNOTATOR_MODEL", "not on this line")
    args = ("logs", "--rubric", "comm_errors", "--judge", "rules")
    more = ("--model", "m", "--temperature", "1", "--no-cache", "--max-cost", "1", "--rpm", "9")
    done = annotate_cli(*args, *more, "--concurrency", "2", "--out", "out")
    assert done.code == 0
    names = "--max-cost, --model, --no-cache, --rpm, --temperature"
    given = done.err.split("without effect: ")[1].splitlines()[0]
    assert ", ".join(sorted(given.split(", "))) == names
    assert [one.usage.calls for one in annotations(Path("out")).values()] == [0]
    assert "without effect" not in annotate_cli(*args, "--out", "plain").err
    assert "without effect" not in annotate_cli(*args, *more, "--quiet", "--out", "quiet").err
