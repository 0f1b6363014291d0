"""Make the requests of ``annotate demo`` anew, and record their answers.

    python examples/record_demo.py requests FOLDER     a file of requests for each rubric
    python examples/record_demo.py answers RESULTS...  from the batch results of both

Answers are to be given one request at a time, by a model that sees nothing else.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import annotator as an
from annotator.cli.demo import ADDRESS, MODEL, hash_messages, write_traces

RUBRICS = ("comm_errors", "symptoms")
ANSWERS = Path(__file__).parent / "demo" / "answers.jsonl"


def write_requests(folder: Path) -> None:
    """Write the requests of each rubric to a file of its name."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as scratch:
        traces = write_traces(Path(scratch, "traces"))
        for rubric in RUBRICS:
            file = folder / f"{rubric}.jsonl"
            judge = an.llm(MODEL, base_url=ADDRESS, cached=False, batch_file=file)
            an.annotate(traces, rubric, judge, out=Path(scratch, rubric))


def record_answers(results: list[str]) -> None:
    """Write the answers of batch results to the demo's recording, by the hash of their messages."""
    answers = {}
    for file in results:
        for line in Path(file).read_text().splitlines():
            value = json.loads(line)
            message = value["response"]["body"]["choices"][0]["message"]
            answers[value["custom_id"]] = json.loads(message["content"])
    lines = []
    with TemporaryDirectory() as folder:
        write_requests(Path(folder))
        for rubric in RUBRICS:
            for line in Path(folder, f"{rubric}.jsonl").read_text().splitlines():
                request = json.loads(line)
                answer = answers[request["custom_id"]]
                fields = {"rubric": rubric, "messages_sha256": hash_messages(request)}
                lines.append(json.dumps({**fields, "answer": answer}))
    ANSWERS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "requests":
        write_requests(Path(arguments[0]))
    else:
        record_answers(arguments)
