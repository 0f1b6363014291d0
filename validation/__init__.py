"""Statistics of agreement and prevalence: numbers in, numbers and intervals out."""

from validation.intervals import Interval, wilson

__all__ = ["Interval", "wilson"]
