"""CooperBench's analyses, made without a judge."""

from annotator.cooperbench.stats.channel import parse_channel
from annotator.cooperbench.stats.counting import StatsCounts, compute_statistics
from annotator.cooperbench.stats.model import Stats

__all__ = ["Stats", "StatsCounts", "compute_statistics", "parse_channel"]
