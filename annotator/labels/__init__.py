"""Labels that people gave: read from files, checked against a rubric."""

from annotator.labels.model import Codes, Label, Labels
from annotator.labels.reading import read_labels, rubrics_in

__all__ = ["Codes", "Label", "Labels", "read_labels", "rubrics_in"]
