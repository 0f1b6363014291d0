"""The options, the judge and the early ends of commands that judge traces in several ways."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from annotator import api
from annotator.base.errors import BudgetReached, Interrupted, Pending
from annotator.cli.forecast import show_forecast
from annotator.cli.judges import describe_command
from annotator.cli.options import (
    Command,
    Number,
    add_option,
    add_options,
    add_reader_options,
    concurrency_option,
    parse_attributes,
    verbose_option,
)
from annotator.cli.output import put_tables, say_notice

if TYPE_CHECKING:
    from annotator.reports.table import Table


class TrialPlan(Protocol):
    """A plan to judge traces in several ways."""

    def forecast(self) -> api.Forecast:
        """Return the expected usage, without calls."""

    def run(self, on_notice: Callable[[str], None], command: str, *, resume: bool) -> Any:
        """Judge, and return the result."""


@dataclass(frozen=True)
class TrialOptions:
    """The values of :func:`add_trial_options`."""

    rubric: str | None
    out: Path
    resume: bool
    dry_run: bool
    concurrency: int
    format_: str
    cluster: str
    confidence: float
    quiet: bool
    verbose: bool
    as_json: bool

    @property
    def shared(self) -> dict[str, Any]:
        """The options of every plan, by the names of the API."""
        about = {"cluster": parse_attributes(self.cluster), "confidence": self.confidence}
        return {"out": self.out, "concurrency": self.concurrency, **about}

    def notice(self, text: str) -> None:
        """Print a notice on stderr, unless ``--quiet``."""
        if not self.quiet:
            say_notice(text)

    def execute(self, plan: TrialPlan, notice: Callable[[str], None]) -> Any:
        """Return the result of a plan, as :func:`execute_or_forecast`."""
        return execute_or_forecast(
            plan,
            notice,
            self.concurrency,
            dry_run=self.dry_run,
            resume=self.resume,
            verbose=self.verbose,
            as_json=self.as_json,
        )

    def put(self, tables: "Sequence[Table]") -> None:
        """Print the tables of a result; as JSON the first one's document, which has all of it."""
        if self.as_json:
            put_tables(tables[:1], "json")
        else:
            put_tables(tables, verbose=self.verbose)


def execute_or_forecast(
    plan: TrialPlan,
    notice: Callable[[str], None],
    concurrency: int,
    *,
    dry_run: bool,
    resume: bool,
    verbose: bool,
    as_json: bool,
) -> Any:
    """Return the result of a plan; None for a forecast, and if answers are still to come."""
    if dry_run:
        output = {"verbose": verbose, "as_json": as_json}
        show_forecast(plan.forecast(), concurrency, pilot=False, **output)
        return None
    command = describe_command(click.get_current_context())
    try:
        return plan.run(notice, command, resume=resume)
    except Pending as error:
        notice(f"{error}; when answered, the same command with --resume --batch-results FILE")
        return None
    except BudgetReached as error:
        raise BudgetReached(
            f"{error}; earlier runs count, too; go on with --resume and a larger one"
        ) from error
    except Interrupted as error:
        raise Interrupted(f"{error}; go on with the same command and --resume") from None


def add_trial_options(command: Command) -> Command:
    """Add the options that all these commands have; they get them as one value, ``trial``."""

    @wraps(command)
    def call(**values: Any) -> Any:
        trial = TrialOptions(**{item.name: values.pop(item.name) for item in fields(TrialOptions)})
        return command(trial=trial, **values)

    return add_options(
        add_option("--rubric NAME|FILE", "The rubric.  [default: the run's]"),
        add_option(
            "--out DIR",
            "The directory of the result and of all runs.",
            click.Path(path_type=Path, file_okay=False),
            required=True,
        ),
        add_option("--resume", "Go on with what is in --out."),
        add_option("--dry-run", "Print how many dollars and minutes it would take. Call nothing."),
        concurrency_option,
        add_reader_options("Read TRACES as this format. PLUGIN: an installed one, or module:name."),
        add_option(
            "--cluster ATTRIBUTES",
            "The attributes that name a task; none: all traces are independent.",
            default="project,task",
        ),
        add_option("--confidence LEVEL", type=Number(0.5, 0.9999), default=0.95),
        add_option("--quiet", "No notices."),
        verbose_option,
        add_option("--json", "Print the result as JSON.", name="as_json"),
    )(call)
