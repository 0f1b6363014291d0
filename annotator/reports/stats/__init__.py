"""CooperBench's analyses, made without a judge."""

from annotator.reports.stats.counting import Counted, statistics
from annotator.reports.stats.model import Stats
from annotator.reports.stats.writers import WRITERS

__all__ = ["WRITERS", "Counted", "Stats", "statistics"]
