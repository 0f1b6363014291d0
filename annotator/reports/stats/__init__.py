"""CooperBench's analyses, made without a judge."""

from annotator.reports.stats.counting import Counted, statistics
from annotator.reports.stats.model import Stats

__all__ = ["Counted", "Stats", "statistics"]
