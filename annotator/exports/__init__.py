"""The results of a run in the forms of other tools. A target is one file, and a word here."""

from importlib import import_module

from annotator.exports.scores import Target

# Targets for scores, each in the module of its name; these take requests over HTTP.
SCORE_TARGETS = ("langfuse", "phoenix", "mlflow")
TARGETS = (*SCORE_TARGETS, "labelstudio", "hub")


def load_target(name: str) -> Target:
    """Return one of :data:`SCORE_TARGETS`."""
    target: Target = import_module(f"annotator.exports.{name}").TARGET
    return target
