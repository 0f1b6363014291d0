"""Runs: judging traces, recording annotations, and reading them."""
