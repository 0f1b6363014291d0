"""How a model is asked: options, the judge file, what is sent, and what mistakes are refused."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import set_model
from tests.judges.ask import ARGS, RIGHT, TOOLS, llm, manifest, statuses
from tests.server import Reply, Request, Server, scripted


def write_judge(text: str) -> Path:
    file = Path("judge.yaml")
    file.write_text(text)
    return file


def sent(server: Server) -> dict[str, dict[str, Any]]:
    """The settings in the first request to each model."""
    ours = {"messages", "tools", "tool_choice", "model"}
    return {
        one.body["model"]: {name: value for name, value in one.body.items() if name not in ours}
        for one in reversed(server.seen)
    }


# Options -> fields of the request.
SETTINGS: dict[str, tuple[tuple[object, ...], dict[str, Any]]] = {
    "temperature": (("--temperature", "0"), {"temperature": 0.0}),
    "seed": (("--seed", "0"), {"seed": 0}),
    "effort": (set_model(reasoning_effort="low"), {"reasoning_effort": "low"}),
    "longest answer": (set_model(max_output_tokens=99), {"max_completion_tokens": 99}),
    "more fields": (
        set_model(extra_body={"top_p": 0.5, "chat_template_kwargs": {"thinking": False}}),
        {"top_p": 0.5, "chat_template_kwargs": {"thinking": False}},
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_sent_and_recorded(annotate_cli, runs, name):
    more, fields = SETTINGS[name]
    runs(1)
    fields = {"temperature": 0.0, **fields}  # as servers on this machine are sent
    with Server(scripted(RIGHT)) as server:
        done = annotate_cli(*llm(server, *TOOLS, *more), "--out", "out")
        assert (done.code, sent(server)) == (0, {"m": fields}), done.err
    judge = manifest()["judge"]
    assert judge["parameters"] == fields
    assert (judge["model"], judge["base_url"], judge["mode"]) == ("m", server.url, "tools")


# The options, the model -> the temperature that is sent.
TEMPERATURES: tuple[tuple[tuple[object, ...], str, float | None], ...] = (
    ((), "qwen2.5-coder", 0.0),
    (("--temperature", "0.7"), "qwen2.5-coder", 0.7),
    (set_model(dialect="openai"), "llama-3", None),
    (("--samples", "2"), "llama-3", None),
    ((), "gpt-oss-20b", None),
    ((), "qwen3-8b", None),
    ((), "deepseek-r1:7b", None),
    ((), "o3-mini", None),
)


@pytest.mark.parametrize(("more", "model", "temperature"), TEMPERATURES, ids=str)
def test_servers_on_this_machine_decode_greedily_unless_the_model_thinks(
    annotate_cli, runs, more, model, temperature
):
    runs(1)
    with Server(scripted(RIGHT)) as server:
        args = (*ARGS, "--base-url", server.url, "--model", model, *more, "--out", "out")
        assert annotate_cli(*args).code == 0
        asked = server.probes + server.seen
        assert {one.body.get("temperature") for one in asked} == {temperature}


@pytest.mark.parametrize(("seed", "seeds"), [(("--seed", "5"), {5, 6, 7}), ((), {None})])
def test_samples_have_seeds_of_their_own(annotate_cli, runs, seed, seeds):
    runs(2)
    with Server(scripted(RIGHT)) as server:
        assert annotate_cli(*llm(server, *TOOLS, "--samples", "3", *seed), "--out", "out").code == 0
        of_each: dict[str, list[int | None]] = {}
        for one in server.seen:
            of_each.setdefault(one.user, []).append(one.body.get("seed"))
    assert [(len(one), set(one)) for one in of_each.values()] == [(3, seeds)] * 2
    assert manifest()["judge"]["samples"] == 3


MODELS = """\
temperature: 0.5
seed: 1
models:
  - {model: a}
  - {model: b, temperature: 1, extra_body: {top_p: 0.5}}
"""
# Options besides the file -> temperature, seed and top_p of each model.
PANELS: tuple[tuple[tuple[str, ...], dict[str, tuple[float, int, float | None]]], ...] = (
    ((), {"a": (0.5, 1, None), "b": (1.0, 1, 0.5)}),
    (("--temperature", "0.1"), {"a": (0.1, 1, None), "b": (0.1, 1, 0.5)}),
    (("--model", "b"), {"b": (1.0, 1, 0.5)}),
    (("--model", "b", "--model", "c"), {"b": (1.0, 1, 0.5), "c": (0.5, 1, None)}),
    (("--seed", "9"), {"a": (0.5, 9, None), "b": (1.0, 9, 0.5)}),
)


@pytest.mark.parametrize(("more", "fields"), PANELS, ids=str)
def test_the_command_line_wins_over_a_model_and_a_model_over_the_file(
    annotate_cli, runs, monkeypatch, more, fields
):
    """And the file over variables that were set long ago."""
    runs(1)
    with Server(scripted(RIGHT)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
        monkeypatch.setenv("ANNOTATOR_MODEL", "from-the-environment")
        file = write_judge(f"{MODELS}base_url: {server.url}\nmode: tools\n")
        done = annotate_cli(*ARGS, "--judge", file, *more, "--out", "out")
        assert done.code == 0, done.err
        found = {
            model: tuple(one.get(name) for name in ("temperature", "seed", "top_p"))
            for model, one in sent(server).items()
        }
    assert found == fields
    assert manifest()["judge"]["id"] == "llm:" + "+".join(fields)


def test_a_judge_file_can_say_everything(annotate_cli, runs, monkeypatch):
    runs(1)
    monkeypatch.setenv("TEAM", "blue")
    with Server(scripted(Reply(status=503), Reply(text="{"), RIGHT)) as server:
        text = "mode: json_schema, attempts: 2, samples: 2, reasks: 2, dialect: lmstudio, api: chat"
        text += ", max_output_tokens: 900, headers: {X-Team: TEAM}"
        file = write_judge(f"{{model: m, base_url: '{server.url}', {text}}}")
        args = (*ARGS, "--judge", file, "--concurrency", "1", "--out", "out")
        assert annotate_cli(*args).code == 0
        assert ({one.form for one in server.seen}, server.calls) == ({"json_schema"}, 4)
        [request, *_] = server.seen
    assert (request.headers["X-Team"], request.body["max_tokens"]) == ("blue", 900)
    judge = manifest()["judge"]
    assert (judge["samples"], "lmstudio" in str(judge)) == (2, True)


WRONG = (
    ("temprature: 1", "'temprature'"),
    ("models: [{model: a, samples: 2}]", "samples: "),
    ("models: gpt-5", "models: "),
    ("{model: m, temperature: hot}", "temperature: "),
    ("{model: m, seed: 1.5}", "seed: "),
    ("{model: m, attempts: 0}", "attempts: "),
    ("{model: m, mode: toolz}", "mode: "),
    ("{model: m, extra_body: [1]}", "extra_body: "),
    *(
        (f"{{model: m, extra_body: {{{name}: null}}}}", f"extra_body: '{name}'")
        for name in ("model", "messages", "tools", "tool_choice", "response_format", "stream", "n")
    ),
    ("{model: m, extra_body: {temperature: 1}}", "has an option of its own: temperature"),
    ("models: [{model: a, timeout: 0}]", "timeout: "),
    ("{model: m, batch_wait: long}", "batch_wait: expected hours above 0"),
    ("{model: m, samples: 0}", "samples: "),
    ("{model: m, samples: 2, temperature: 0}", "would be one answer several times"),
    ("{model: ''}", "model: "),
    ("temperature: 1", "model"),
    ("models: [{model: a}, {model: a}]", "'a'"),
    ("model: [", "not valid YAML"),
    ("- model: m", "expected settings"),
)


@pytest.mark.parametrize(("text", "said"), WRONG, ids=str)
def test_a_wrong_judge_file_is_named_with_the_field(annotate_cli, runs, text, said):
    runs(1)
    with Server(scripted(RIGHT)) as server:
        args = (*ARGS, "--out", "out", "--judge", write_judge(text), "--base-url", server.url)
        done = annotate_cli(*args)
        assert (done.code, server.calls, Path("out").exists()) == (2, 0, False)
    words = " ".join(done.err.split())
    assert said in words
    together = said.startswith("would be")  # named by the options, not by the file
    assert together or "judge.yaml" in words or "judge file" in words


@pytest.mark.parametrize("mode", ["auto", "tools"])
def test_a_setting_that_the_server_rejects_stops_the_run_with_its_words_and_ours(
    annotate_cli, runs, mode
):
    def reject(request: Request) -> Reply:
        if request.body.get("temperature") is None:
            return RIGHT
        words = "Unsupported value: 'temperature' does not support 0.5 with this model."
        return Reply(status=400, error={"message": words, "param": "temperature"})

    runs(12)
    with Server(reject, probe=reject) as server:
        args = llm(server, *set_model(mode=mode), "--concurrency", "2")
        done = annotate_cli(*args, "--temperature", "0.5", "--seed", "7")
        # Four forms are tried, then each of two calls in flight, and a tiny question after it.
        assert (done.code, server.calls <= 4 + 2 * 2) == (2, True)
        assert "'temperature' does not support 0.5" in done.err
        assert "temperature=0.5, seed=7" in done.err
        ours = annotate_cli(*args)
        assert (ours.code, "dialect openai" in ours.err) == (2, True)


# A run with these options, resumed with those -> what is said.
OTHERS: dict[str, tuple[tuple[object, ...], tuple[object, ...], str]] = {
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


@pytest.mark.parametrize("name", OTHERS)
def test_a_run_goes_on_with_its_own_settings_only(annotate_cli, runs, name):
    before, after, said = OTHERS[name]
    runs(2)
    write_judge(MODELS)
    Path("other.yaml").write_text(MODELS.replace("temperature: 1,", "temperature: 2,"))
    with Server(scripted(Reply(refusal="No."))) as server:
        model = () if "--judge" in before and name == "of one of two" else ("--model", "m")
        args = (*ARGS, *TOOLS, "--out", "out", "--base-url", server.url, *model)
        annotate_cli(*args, *before)
        calls, lines = server.calls, Path("out", "annotations.jsonl").read_bytes()
        done = annotate_cli(*args, *after, "--resume")
        assert (done.code, server.calls, said in done.err) == (2, calls, True), done.err
        assert "cannot be resumed" in done.err
        assert Path("out", "annotations.jsonl").read_bytes() == lines
        server.responder = scripted(RIGHT)
        how = (*set_model(attempts=3, timeout=9), "--concurrency", "3", "--rpm", "9000")
        assert annotate_cli(*args, *before, *how, "--resume").code == 0
    assert statuses() == ["labelled"] * 2


def test_no_secret_of_an_address_is_recorded_and_two_queries_are_two_judges(annotate_cli, runs):
    runs(1)
    with Server(scripted(RIGHT)) as server:
        for n, query in enumerate(("?deployment=a", "?deployment=b", "?deployment=a")):
            url = server.url.replace("http://", "http://user:pa%40ss-SECRET@") + query
            args = llm(server, "--base-url", url, *TOOLS, "--out", f"out{n}")
            assert annotate_cli(*args).code == 0
        assert len(server.seen) == 2
    judges = [manifest(f"out{n}")["judge"]["base_url"] for n in range(3)]
    assert judges[0] == judges[2] != judges[1]
    assert all("/v1?sha256=" in url for url in judges)
    assert "SECRET" not in "".join(file.read_text() for file in Path("out0").glob("*.json*"))
