"""Prompts: the parts of a trace, cut to a budget, rendered."""
