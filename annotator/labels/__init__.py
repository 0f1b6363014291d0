"""Labels that people gave: read from files, checked against a rubric."""

from annotator.labels.model import Label, Labels
from annotator.labels.reading import LabelFiles, read_labels

__all__ = ["Label", "LabelFiles", "Labels", "read_labels"]
