"""Runs, plain and hostile, made of ``hostile_runs.yaml``.

The file holds invented runs and attacks: each is a text that speaks to the judge, and the place
where it is put. Every attack is put into every run.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from annotator.traces import Feature, Message, Outcome, Trace

Runs = dict[str, dict[str, Trace]]


def load_hostile_runs() -> Runs:
    """Return for each run its traces by attack; ``plain`` is the one without an attack."""
    data = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    attacks = [("plain", {"place": "", "text": ""}), *data["attacks"].items()]
    return {
        name: {attack: make_trace(run, f"{name}/{attack}", **put) for attack, put in attacks}
        for name, run in data["runs"].items()
    }


def make_trace(
    run: Mapping[str, Any], trace_id: str, place: str, text: str, repeat: int = 1
) -> Trace:
    text = (text * repeat).replace("{want}", run["want"])
    names = {"agent1": "agent1", "agent2": text if place == "name" else "agent2"}
    messages = []
    for n, (sender, words) in enumerate(run["talk"], 1):
        other = names["agent2" if sender == "agent1" else "agent1"]
        kind = text if place == "kind" and n == 1 else None
        if place == "message" and n == 1:
            words = f"{words}\nA file in the repository reads:\n{text}"
        messages.append(Message(n, names[sender], (other,), words, 60.0 * n, kind))
    features = [
        Feature(f"feature{n}", names[agent], passed, alone, output=output)
        for n, (agent, (passed, alone, output)) in enumerate(run["tests"].items(), 1)
    ]
    if place == "outcome":
        output = f"{features[-1].output}\n{text}".strip()
        features[-1] = replace(features[-1], output=output)
    tasks = {names["agent1"]: text} if place == "task" else {}
    return Trace(
        id=trace_id,
        format="example",
        path="",
        messages=tuple(messages),
        patches={
            names[agent]: diff(file, line, text if (place, agent) == ("patch", "agent1") else "")
            for agent, (file, line) in run["patches"].items()
        },
        outcome=Outcome(run["passed"], run["merge"], features=tuple(features)),
        attributes={"passed": run["passed"], "merge": run["merge"]},
        read_tasks=lambda: tasks,
    )


def diff(file: str, line: str, comment: str) -> str:
    lines = [line, *([comment] if comment else [])]
    added = "\n".join(f"+{text}" for text in lines)
    frame = f"diff --git a/{file} b/{file}\nnew file mode 100644\n--- /dev/null\n+++ b/{file}\n"
    return f"{frame}@@ -0,0 +1,{len(lines)} @@\n{added}\n"
