"""Runs: every trace judged once, recorded at once, and taken up again after a stop."""
