"""CooperBench's analyses, made without a judge."""

from annotator.reports.stats.channel import parse_channel
from annotator.reports.stats.counting import StatsCounts, statistics
from annotator.reports.stats.model import Stats

__all__ = ["Stats", "StatsCounts", "parse_channel", "statistics"]
