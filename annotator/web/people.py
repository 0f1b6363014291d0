"""The labels of people that a run is shown against."""

from collections.abc import Sequence
from pathlib import Path

from annotator.base.errors import AnnotatorError
from annotator.calibration.matching import select_labels, select_split
from annotator.labels import Label, LabelFiles
from annotator.rubrics import Scheme
from annotator.runs.run import Run


def read_person_labels(
    files: Sequence[Path], runs: Sequence[Run], annotators: Sequence[str] = ()
) -> dict[str, dict[str, Label]]:
    """Return people's labels for the rubrics of some runs, by rubric and trace.

    Whose label decides is what ``annotate calibrate`` takes it to be
    (:func:`annotator.calibration.matching.select_labels`), and as there, labels of the test
    split are not looked at.

    Raises:
        AnnotatorError: the labels cannot be read, are for none of the rubrics or for another
            version of one, or are of several annotators and none was named.
    """
    versions: dict[str, dict[str, Scheme]] = {}
    for run in runs:
        for name, rubric in run.schemes.items():
            versions.setdefault(name, {})[rubric.sha256] = rubric
    label_files = LabelFiles(files)
    there = label_files.count_rubrics()
    wanted = [name for name in versions if name in there or not there]
    if not wanted:
        judged = ", ".join(versions)
        raise AnnotatorError(
            f"the labels are for {', '.join(sorted(there))}, the runs judged by {judged}"
        )
    labels: dict[str, dict[str, Label]] = {}
    for name in wanted:
        for version in versions[name].values():  # labels have to be of all that are shown together
            labels[name] = _choose(label_files, version, annotators)
    return labels


def _choose(files: LabelFiles, rubric: Scheme, annotators: Sequence[str]) -> dict[str, Label]:
    selected, _ = select_labels(files.read(rubric), annotators)
    if {label.split for label in selected.values()} == {"test"}:
        raise AnnotatorError(
            f"the labels for {rubric.id} are all of the test split: they are for the final look of"
            " annotate calibrate --final, and never shown beside the judge's"
        )
    return select_split(selected, final=False)[0]
