"""Samples of traces for people to label: how they are drawn, and the sheets to fill in."""
