"""Labels that people gave: read from files, checked against a rubric."""

from annotator.labels.model import Label, Labels
from annotator.labels.reading import read_labels, rubrics_in

__all__ = ["Label", "Labels", "read_labels", "rubrics_in"]
