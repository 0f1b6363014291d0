"""``annotate demo``: the full workflow on runs that come with the tool, with recorded answers."""

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from annotator import api
from annotator.base.errors import AnnotatorError
from annotator.base.files import find_resources, write_file
from annotator.base.text import wrap_lines
from annotator.cli.options import add_option, verbose_option
from annotator.cli.output import put_tables, say, say_next
from annotator.reports.digits import format_limits, format_percent
from annotator.rubrics import NONE, load_rubric

if TYPE_CHECKING:
    from annotator import Calibration

RECORDED = "2026-11-26"
MODEL, ADDRESS = "frontier", "http://localhost/recorded"  # nothing is sent there
_READERS = ("reader_a", "reader_b")  # whose labels correct the shares
_TOP = 3  # codes whose corrected shares are named


@click.command("demo", context_settings={"show_default": True})
@add_option("--rubric", type=click.Choice(["symptoms", "comm_errors"]), default="symptoms")
@add_option(
    "--out DIR",
    "Where to write the traces, the labels and the run.",
    click.Path(path_type=Path, file_okay=False),
    default=Path("runs/demo"),
)
@verbose_option
@add_option("--quiet", "No notices.")
def command(rubric: str, out: Path, verbose: bool, quiet: bool) -> None:
    """Judge 48 runs that come with annotate by a model's recorded answers: no key, no network.

    The runs were made for this demo: two agents each, played by two writers who saw only each
    other's messages; their patches were really merged and tested. A frontier language model
    answered the requests of an ordinary run. Two readers, language models too, labelled 30 runs
    (26 by symptoms, which is for failed runs), blind to the model and to each other.
    """
    traces = write_traces(out / "traces")
    run = judge_recorded(traces, rubric, out / rubric)
    labels = out / "labels.jsonl"
    text = (find_resources("demo") / labels.name).read_text(encoding="utf-8")
    if labels.exists() and labels.read_text(encoding="utf-8") != text:
        raise AnnotatorError(f"{labels}: not the demo's labels; name another --out")
    write_file(labels, text)
    say(
        "48 two-agent coding runs, judged by a frontier language model\n"
        f"(answers recorded {RECORDED}, replayed).\n"
    )
    put_tables(api.count(run), verbose=verbose)
    with TemporaryDirectory() as folder:  # to show the demo is no look at the labels
        ledger = Path(folder, "looks.jsonl")
        calibrations = {
            reader: api.calibrate(run, labels, rubric, annotators=(reader,), ledger=ledger)
            for reader in _READERS
        }
    say("\n" + wrap_lines(_describe_corrections(calibrations)))
    if quiet:
        return
    other = "comm_errors" if rubric == "symptoms" else "symptoms"
    say_next("view", out / rubric, purpose="every finding in its trace")
    reader = ("--labels", labels, "--annotator", _READERS[0])
    say_next("calibrate", out / rubric, *reader, purpose="how far the judge agrees with a reader")
    say_next("sample", out / rubric, "-n", 20, purpose="runs to label yourself")
    say_next("demo", "--rubric", other)
    say_next(*("traces/", "--rubric", "symptoms", "--model", "NAME"), purpose="your own runs")


def judge_recorded(traces: Path, rubric: str, out: Path) -> api.Run:
    """Return the run of a rubric by the recorded answers, which are read as those of a batch."""
    if api.is_run(out):
        run = api.open_run(out)
        if run.judge != f"llm:{MODEL}" or run.scheme(rubric).sha256 != load_rubric(rubric).sha256:
            raise AnnotatorError(f"{out}: another run; name another --out")
        if run.manifest.status == "finished":
            return run
    with TemporaryDirectory() as folder:
        requests, results = Path(folder, "requests.jsonl"), Path(folder, "results.jsonl")
        for answered in (False, True):
            if answered:
                lines = "".join(_pair_answers(requests.read_text(encoding="utf-8"), rubric))
                write_file(results, lines)
            judge = api.llm(
                MODEL,
                base_url=ADDRESS,
                cached=False,
                batch_file=requests,
                batch_results=(results,) if answered else (),
            )
            run = api.annotate(traces, rubric, judge, out=out, resume=api.is_run(out))
    return run


def hash_messages(request: dict[str, Any]) -> str:
    """Return the hash by which the recording knows a request: that of its messages."""
    messages = request["body"]["messages"]
    return sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()


def _pair_answers(requests: str, rubric: str) -> Iterator[str]:
    """Yield the line of batch results for each request."""
    recorded = {}
    with (find_resources("demo") / "answers.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            fields = json.loads(line)
            recorded[fields["messages_sha256"]] = json.dumps(fields["answer"])
    for line in requests.splitlines():
        request = json.loads(line)
        answer = recorded.get(hash_messages(request))
        if answer is None:
            raise AnnotatorError(
                f"the demo has no answer to a request of {rubric}: a prompt has changed since"
                f" {RECORDED}. Record it again: examples/record_demo.py"
            )
        message = {"role": "assistant", "content": answer}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = {"object": "chat.completion", "model": MODEL, "choices": [choice]}
        result = {"custom_id": request["custom_id"], "response": {"status_code": 200, "body": body}}
        yield f"{json.dumps(result)}\n"


def write_traces(folder: Path) -> Path:
    """Write the runs as CooperBench writes its own; return the folder."""
    with (find_resources("demo") / "runs.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            fields = json.loads(line)
            run_folder = folder / "logs" / fields["id"]
            run_folder.mkdir(parents=True, exist_ok=True)
            for name, text in fields["files"].items():
                write_file(run_folder / name, text)
    return folder


def _describe_corrections(calibrations: "Mapping[str, Calibration]") -> str:
    n = len(calibrations[_READERS[0]].labelled)
    shares = "; ".join(f"by {name}: {_list_shares(x)}" for name, x in calibrations.items())
    return (
        f"Corrected by the labels of {n} runs, given by two other language models that did not see"
        f" the judge's answers, {shares}."
    )


def _list_shares(calibration: "Calibration") -> str:
    rows = [row for row in calibration.rows if row.corrected.value and row.code != NONE]
    rows.sort(key=lambda row: -(row.corrected.value or 0.0))
    return ", ".join(
        f"{row.code} {format_percent(row.corrected)} % {format_limits(row.corrected)}"
        + ("" if row.mark == "ok" else f" ({row.mark})")
        for row in rows[:_TOP]
    )
