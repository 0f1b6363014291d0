"""Errors for users: one line with the problem and the remedy."""

from typing import Any


class AnnotatorError(Exception):
    """An error that stops a command: printed as one line, never as a traceback.

    ``exit_code``: of the process (2: usage or unreadable input). ``run``: the
    :class:`~annotator.runs.run.Run` as far as it was judged, if one was stopped.
    """

    exit_code = 2
    run: Any = None


class Interrupted(AnnotatorError):
    """The user stopped a run."""

    exit_code = 130


class UnreadableTrace(AnnotatorError):
    """A file or folder without a readable trace; the message is the reason."""


class RubricError(AnnotatorError):
    """A rubric file with an error; the message names the file, the code and the field."""


class SettingsError(AnnotatorError):
    """Settings of a judge that contradict each other, named as on the command line."""


class LabelsError(AnnotatorError):
    """Labels with ``count`` problems; ``lines`` are the first of them, each with its place."""

    def __init__(self, problems: tuple[str, ...], count: int) -> None:
        heading = f"{count} problems in the labels:" if count > 1 else ""
        more = (f"and {count - len(problems)} more",) if count > len(problems) else ()
        self.lines = (*((heading,) if heading else ()), *problems, *more)
        super().__init__(f"{heading} {'; '.join((*problems, *more))}".strip())


class JudgeStopped(AnnotatorError):
    """The judge fails for every trace: a refused key, an unknown model, a bad setting."""


class FailsAlways(JudgeStopped):
    """Almost all of the last traces failed, so the run stopped; it can be resumed."""

    exit_code = 1


class BudgetReached(AnnotatorError):
    """The next call might cost more than the budget has left; the run can be resumed."""

    exit_code = 3


class Pending(AnnotatorError):
    """The request is in a batch that has no answer yet."""
