"""The errors a user can meet, each a single line that says what was found and what to do."""

from typing import Any


class AnnotatorError(Exception):
    """Anything that stops a command: printed as one line, never as a traceback.

    ``exit_code`` is the process's exit code (2: usage or unreadable input). ``run``: where a run
    was stopped, what was judged until then, a :class:`~annotator.runs.run.Run`; else None.
    """

    exit_code = 2
    run: Any = None


class Interrupted(AnnotatorError):
    """The user stopped a run; the message says what is kept and how to go on."""

    exit_code = 130


class UnreadableTrace(AnnotatorError):
    """A file or folder that should hold a trace and does not; the message is the reason."""


class RubricError(AnnotatorError):
    """A rubric file that cannot be used; the message names the file, the code and the field."""


class SettingsError(AnnotatorError):
    """Settings of a judge that do not go together; they are named as the command line does."""


class LabelsError(AnnotatorError):
    """Labels that cannot be used: ``count`` problems, of which the first stand in ``lines``, each
    with its place.
    """

    def __init__(self, problems: tuple[str, ...], count: int) -> None:
        heading = f"{count} problems in the labels:" if count > 1 else ""
        more = (f"and {count - len(problems)} more",) if count > len(problems) else ()
        self.lines = (*((heading,) if heading else ()), *problems, *more)
        super().__init__(f"{heading} {'; '.join((*problems, *more))}".strip())


class JudgeStopped(AnnotatorError):
    """The judge cannot go on with any trace: a refused key, an unknown model, a bad setting."""


class FailsAlways(JudgeStopped):
    """Almost all of the last traces failed, so the run stopped; it can be resumed."""

    exit_code = 1


class BudgetReached(AnnotatorError):
    """The next call might cost more than is left; the run can be resumed with more."""

    exit_code = 3


class Pending(AnnotatorError):
    """The answer is not there yet: it has been asked for in a batch."""
