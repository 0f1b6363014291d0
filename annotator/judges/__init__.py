"""Who decides: a :class:`~annotator.judges.base.Judge` is a model, the rules, or somebody else's.

:func:`~annotator.judges.build.build_judge` makes one of whatever names it.
"""
