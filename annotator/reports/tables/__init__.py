"""What each kind of report has counted, as tables: one module for each, with ``tabulate``."""
