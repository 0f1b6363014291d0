"""How asking can fail for one trace; what fails for every trace is JudgeStopped."""

from annotator.errors import AnnotatorError


class CallFailed(AnnotatorError):
    """This trace could not be judged; the message is the reason."""


class ModeRefused(CallFailed):
    """The server does not take the request in this form (a 4xx, or a 5xx that repeats)."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


class Unavailable(CallFailed):
    """The server did not answer, however often it was asked."""


class Unanswered(CallFailed):
    """There is no answer to this question, and nobody to ask."""
