"""Anchors: traces whose answers are frozen, to be asked again at later looks."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.files import explain_errors, read_bounded, write_file
from annotator.base.text import dump_json
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import STATUSES
from annotator.runs.arms import SelectedTraces
from annotator.runs.manifest import JUDGING, Manifest, list_differences
from annotator.runs.run import Run, open_run
from annotator.traces import Traces
from annotator.traces.lines import dump_trace, load_trace

_FILE, _TRACES = "anchors.json", "traces.jsonl"


@dataclass(frozen=True)
class Anchors:
    """Frozen answers: ``frozen/1`` is a part of the run, ``frozen/2`` and so on asked it again at
    once, ``looks/1`` and so on later. Each is a run directory.

    ``frozen``: how many there are; ``population``: the traces that the anchors were drawn from.
    """

    folder: Path
    run_id: str
    rubric: Rubric
    frozen: int
    trace_ids: tuple[str, ...]
    population: int
    seed: int

    @property
    def frozen_names(self) -> list[str]:
        """The directories of the frozen answers."""
        return [f"frozen/{n}" for n in range(1, self.frozen + 1)]

    @property
    def base(self) -> Run:
        """The part of the run that was frozen."""
        return open_run(self.folder / "frozen/1")

    def read_traces(self) -> SelectedTraces:
        """Return the traces, as the judge read them when they were frozen."""
        lines = (self.folder / _TRACES).read_text(encoding="utf-8").splitlines()
        traces = SelectedTraces(Traces([load_trace(line) for line in lines]), self.trace_ids)
        traces.redacted = bool(self.base.manifest.redaction)  # when they were frozen
        return traces

    def open_frozen(self) -> list[Run]:
        """Return the runs of the frozen answers.

        Raises:
            AnnotatorError: one is missing or not finished.
        """
        runs = []
        for name in self.frozen_names:
            folder = self.folder / name
            run = open_run(folder) if (folder / "run.json").exists() else None
            if not run or run.manifest.status != "finished":
                raise AnnotatorError(
                    f"{folder}: not finished: go on with the same annotate anchor RUN and --resume"
                )
            runs.append(run)
        return runs

    def open_looks(self) -> list[Run]:
        """Return the runs of the finished looks."""
        looks: list[Run] = []
        while (file := self.folder / f"looks/{len(looks) + 1}/run.json").exists():
            run = open_run(file.parent)
            if run.manifest.status != "finished":
                break
            looks.append(run)
        return looks

    def find_look(self, run: Run) -> int:
        """Return the look before a run; 0 for the run that was frozen.

        Raises:
            AnnotatorError: it names no look at these anchors.
        """
        if run.id == self.run_id:
            return 0
        entry = run.manifest.anchors
        number = int(entry.get("look", 0))
        looks = self.open_looks()[number - 1 : number] if number else []
        if [look.id for look in looks] != [entry.get("run")]:
            raise AnnotatorError(
                f"{run}: it names no look at {self.folder}; judge with --anchors {self.folder}"
            )
        return number

    def check_judge(self, frozen: Manifest, other: Manifest) -> None:
        """Check that a run has the judge and the rubric of the frozen answers, maybe beside others.

        Raises:
            AnnotatorError: it has not; the error names the differences.
        """
        both = self._narrow(frozen), self._narrow(other)
        if differences := "; ".join(list_differences(*both, ("rubrics", *JUDGING))):
            advice = "Freeze answers of a run by the new one"
            if "in_batches was true" in differences:
                advice = "annotate anchor asks it in batches, too, with --batch-file FILE"
            raise AnnotatorError(
                f"{self.folder}: the judge is not the one that was frozen: {differences}. {advice}"
            )

    def _narrow(self, manifest: Manifest) -> Manifest:
        """Return a manifest with the rubric of the anchors only, if it has it."""
        same = tuple(each for each in manifest.rubrics if each.id == self.rubric.id)
        return manifest.model_copy(update={"rubrics": same or manifest.rubrics})

    def save(self, run: Run, traces: SelectedTraces) -> None:
        """Write the anchors, their traces, and the run's answers; nothing if they are there."""
        fields = {name: value for name, value in vars(self).items() if name != "folder"}
        rubric = self.rubric.model_dump(mode="json", by_alias=True, exclude_unset=True)
        fields["rubric"] = rubric | {"sha256": self.rubric.sha256}
        text = dump_json(fields, 1) + "\n"
        if (self.folder / _FILE).exists():
            if read_bounded(self.folder / _FILE).decode() != text:
                raise AnnotatorError(f"{self.folder}: other anchors are there; name another --out")
            if (self.folder / "frozen/1/run.json").exists():
                return
        with explain_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        write_file(self.folder / _FILE, text)
        lines = "".join(f"{dump_trace(trace)}\n" for trace in traces)
        write_file(self.folder / _TRACES, lines, private=True)
        manifest, kept = run.manifest, set(self.trace_ids)
        annotations = [x for x in run.annotations(self.rubric.id) if x.trace_id in kept]
        totals = {status: sum(x.status == status for x in annotations) for status in STATUSES}
        changes: Mapping[str, Any] = {
            "rubrics": [run.schemes[self.rubric.id].model_dump(mode="json")],
            "totals": {"annotations": len(annotations), **totals},
            "status": "finished",
            "pilot": {"traces": len(annotations), "of": self.population},
        }
        Run(manifest.copy_with(changes), None, annotations).save(self.folder / "frozen/1")


def is_anchors(path: Path | str) -> bool:
    """Whether a path holds anchors."""
    return Path(path, _FILE).exists()


def open_anchors(path: Path | str) -> Anchors:
    """Return the anchors in a directory.

    Raises:
        AnnotatorError: there are none, or their file cannot be read.
    """
    file = Path(path, _FILE)
    try:
        fields = json.loads(read_bounded(file))
        fields["rubric"] = Rubric.model_validate(fields["rubric"])
        return Anchors(Path(path), **fields | {"trace_ids": tuple(fields["trace_ids"])})
    except FileNotFoundError as error:
        raise AnnotatorError(
            f"{path}: no anchors there (no {_FILE}): annotate anchor RUN"
        ) from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise AnnotatorError(f"{file}: not the file of anchors: {error}") from error
