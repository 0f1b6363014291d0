"""Statistics of agreement and prevalence: numbers in, numbers and intervals out."""

from validation.agreement import Agreement, cohen_kappa, confusion
from validation.intervals import Interval, wilson

__all__ = ["Agreement", "Interval", "cohen_kappa", "confusion", "wilson"]
