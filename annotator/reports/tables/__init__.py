"""The tables of each kind of report: one module for each, with ``tabulate``."""
