"""The judged samples of a run that corrected shares need."""

from collections.abc import Sequence

from annotator.calibration.correct import Correction, Misfit, make_correction, select_calibration
from annotator.calibration.judged_sample import JudgedSample, start_judged_sample
from annotator.calibration.model import Calibration, Calibrations
from annotator.rubrics.annotations import Annotation
from annotator.runs.run import Run
from annotator.traces.clusters import find_cluster


class JudgedSamples:
    """The samples of a run by rubric and group, filled while annotations pass by."""

    def __init__(self, run: Run, calibrations: Calibrations, cluster: Sequence[str] | None) -> None:
        self._run, self._cluster = run, cluster
        self._names = ", ".join(calibrations)
        self._calibrations: dict[str, Calibration] = {}
        self._labelled: dict[str, set[str]] = {}
        self._samples: dict[tuple[str, str | None], JudgedSample] = {}
        for name in calibrations.keys() & run.schemes.keys():
            sample = self._samples[name, None] = start_judged_sample(run, name)
            calibration = self._calibrations[name] = select_calibration(calibrations[name], sample)
            self._labelled[name] = {trace.trace_id for trace in calibration.labelled}

    def add(self, annotation: Annotation, group: str | None) -> None:
        """Count an annotation in its group; None is the group of all."""
        name = annotation.rubric
        if name not in self._calibrations:
            return
        if (name, group) not in self._samples:
            self._samples[name, group] = start_judged_sample(self._run, name)
        sample = self._samples[name, group]
        by = self._calibrations[name].cluster_by if self._cluster is None else self._cluster
        sample.add(annotation, find_cluster(annotation.attributes, by))
        if annotation.trace_id in self._labelled[name]:
            sample.selected[annotation.trace_id] = annotation

    def correct(self, name: str, group: str | None, transfer: bool, joint: bool) -> Correction:
        """Return the corrected shares of a group. Raises :class:`Misfit` if no calibration fits."""
        if name not in self._calibrations:
            judged = f"{self._run} was judged by {', '.join(self._run.schemes)}"
            raise Misfit(
                f"the calibration is for {self._names}, {judged}", f"it is for {self._names}"
            )
        return make_correction(
            self._calibrations[name],
            self._samples.get((name, group)) or start_judged_sample(self._run, name),
            self._join_groups(name),
            self._run,
            transfer=transfer,
            cluster=self._cluster,
            joint=joint,
            is_group=group is not None,
        )

    def _join_groups(self, name: str) -> JudgedSample:
        """Return the sample of all traces that the run judged."""
        union = self._samples[name, None]
        if not union.total:
            for (rubric, group), sample in self._samples.items():
                if rubric == name and group is not None:
                    union.include(sample)
        return union
