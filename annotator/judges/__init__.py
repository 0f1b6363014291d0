"""Who decides: one :class:`~annotator.judges.base.Judge` protocol; a model, or rules."""
