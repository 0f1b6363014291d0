"""Which judge a run has: the options of models, the judge file, and what is made of them."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource

from annotator.errors import AnnotatorError
from annotator.judges.base import MODES, Judge
from annotator.runs.store import RunDirectory

if TYPE_CHECKING:
    from annotator.judges.llm import LLMJudge
    from annotator.judges.llm.batch import FileOutbox
    from annotator.judges.llm.cache import AnswerCache
    from annotator.judges.llm.session import Session

_FILE = click.Path(path_type=Path, dir_okay=False)
_READ = click.Path(path_type=Path, dir_okay=False, exists=True)


def _body(_: click.Context, __: click.Parameter, value: str | None) -> Mapping[str, Any] | None:
    if value is None:
        return None
    try:
        fields = json.loads(value, parse_constant=_no_number)
    except ValueError as error:
        raise click.BadParameter(f"not valid JSON: {error}") from error
    if not isinstance(fields, dict):
        raise click.BadParameter('expected a JSON object such as {"top_p": 0.9}')
    return fields


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


# Options of a model; what is not given is taken from the judge file, else from `Options`.
_SETTINGS = (
    click.option(
        "--base-url",
        envvar="OPENAI_BASE_URL",
        metavar="URL",
        help="OpenAI-compatible endpoint.  [default: OpenAI's]",
    ),
    click.option(
        "--api-key-env",
        metavar="NAME",
        help="Environment variable that holds the key.  [default: OPENAI_API_KEY]",
    ),
    click.option(
        "--mode",
        type=click.Choice(MODES),
        help="How the model is made to answer in form; auto asks the endpoint once."
        "  [default: auto]",
    ),
    click.option("--temperature", type=click.FloatRange(0, 2), metavar="T", help="As it is sent."),
    click.option(
        "--seed", type=int, metavar="N", help="The model's seed; sample k is sent N + k - 1."
    ),
    click.option("--reasoning-effort", metavar="WORD", help="As it is sent: low, medium, high ..."),
    click.option(
        "--max-output-tokens",
        type=click.IntRange(16),
        metavar="N",
        help="Longest answer of the model.",
    ),
    click.option(
        "--extra-body",
        callback=_body,
        metavar="JSON",
        help="More fields of the request, as a JSON object.",
    ),
    click.option(
        "--context",
        type=click.IntRange(512),
        metavar="N",
        help="Longest input of the model in tokens.  [default: as listed, else not known]",
    ),
    click.option(
        "--windows/--no-windows",
        default=None,
        help="Show a conversation that is too long in several overlapping windows.",
    ),
    click.option(
        "--facts/--no-facts",
        default=None,
        help="Show the model, after the trace and apart from it, the facts that annotate facts"
        " prints.",
    ),
    click.option(
        "--reasks",
        type=click.IntRange(0, 10),
        metavar="N",
        help="How often a model may answer again after a wrong quote or a malformed answer."
        "  [default: 3]",
    ),
    click.option(
        "--attempts",
        type=click.IntRange(1, 50),
        metavar="N",
        help="How often a call is tried on errors that may pass (429, 5xx, dropped connections)."
        "  [default: 8]",
    ),
    click.option(
        "--max-wait",
        type=click.FloatRange(0),
        metavar="S",
        help="Seconds that the attempts of one call may take in all.  [default: 600]",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(0, min_open=True),
        metavar="S",
        help="Seconds for one attempt.  [default: 120]",
    ),
    click.option(
        "--price-in",
        type=click.FloatRange(0),
        metavar="USD",
        help="Dollars per million input tokens.  [default: as listed, else not known]",
    ),
    click.option(
        "--price-cached",
        type=click.FloatRange(0),
        metavar="USD",
        help="Of input that the provider had in its cache.  [default: as --price-in]",
    ),
    click.option(
        "--price-out",
        type=click.FloatRange(0),
        metavar="USD",
        help="Dollars per million output tokens.",
    ),
)

# Options of the run that only judges with models have.
_SESSION = (
    click.option(
        "--model",
        "models",
        multiple=True,
        envvar="ANNOTATOR_MODEL",
        metavar="NAME",
        help="Model of the llm judge; several are a panel that votes.",
    ),
    click.option(
        "--judge-file",
        type=_READ,
        metavar="FILE",
        help="YAML with these settings, and with models that differ in them.",
    ),
    click.option(
        "--samples",
        type=click.IntRange(1, 99),
        metavar="K",
        help="How often each model is asked about a trace; the majority decides.  [default: 1]",
    ),
    click.option(
        "--prices",
        multiple=True,
        type=_FILE,
        metavar="FILE",
        help="YAML with prices; they win over the listed ones.",
    ),
    click.option("--rpm", type=click.IntRange(1), metavar="N", help="Most calls a minute."),
    click.option("--tpm", type=click.IntRange(1), metavar="N", help="Most tokens a minute."),
    click.option(
        "--max-cost",
        type=click.FloatRange(0),
        metavar="USD",
        help="Stop before the run costs more than this in all (exit code 3).",
    ),
    click.option(
        "--cache/--no-cache",
        "cached",
        default=True,
        help="Use answers that are known already, and keep new ones.",
    ),
    click.option(
        "--batch", is_flag=True, help="Ask by the Batch API: slower, and cheaper where offered."
    ),
    click.option(
        "--batch-file", type=_FILE, metavar="OUT", help="Only write the requests, as batch JSONL."
    ),
    click.option(
        "--batch-results",
        multiple=True,
        type=_READ,
        metavar="FILE",
        help="Only read the answers, from the results of such a file.",
    ),
)


def judge_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the llm judge to a command."""
    for option in reversed(_SESSION + _SETTINGS):
        command = option(command)
    return command


@dataclass
class Chosen:
    """The judge of a run. ``members``: its models; ``settle``: what to do between two passes of a
    run in batches; ``outbox``: where requests are written to or answers were read from.
    """

    judge: Judge
    members: list["LLMJudge"] = field(default_factory=list)
    session: "Session | None" = None
    settle: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    outbox: "FileOutbox | None" = None
    given: dict[str, Any] = field(default_factory=dict)
    said: str | None = None  # what is wrong with the cache, once the user was told

    def begin(self, run: RunDirectory, notice: Callable[[str], None]) -> None:
        """Give the judge what belongs to this run: cache, budget, and where its questions go."""
        if not self.session:
            return
        from annotator.judges.llm.cache import ANSWERS, AnswerCache
        from annotator.judges.llm.session import Budget

        cache: AnswerCache | None = None
        if self.session.in_batches:
            cache = AnswerCache(run.folder / ANSWERS, run.id, vital=True)
        elif self.given["cached"]:
            cache = AnswerCache(_cache_file(), run.id)
            if cache.problem:
                self.said = cache.problem
                notice(f"{cache.problem}; going on without it")
        self.session.cache = cache
        if self.given["max_cost"] is not None:
            # What a killed process had spent and not recorded counts, too.
            lost = cache.costs(run.is_done) if cache else []
            spent = run.spent_dollars + sum(lost)
            dearest = max(run.dearest, *lost, 0.0)
            self.session.budget = Budget(self.given["max_cost"], spent, dearest)
        if self.session.in_batches and cache:
            self._begin_batches(run, cache, notice)

    def _begin_batches(
        self, run: RunDirectory, cache: "AnswerCache", notice: Callable[[str], None]
    ) -> None:
        from annotator.judges.llm.batch import BatchOutbox, FileOutbox, ingest

        budget = self.session.budget if self.session else None
        for n, member in enumerate(self.members, 1):
            if self.given["batch"]:
                folder = run.folder / "batch" / str(n)
                box = BatchOutbox(
                    folder,
                    run.id,
                    member.options,
                    cache,
                    member.price,
                    budget,
                    notice,
                )
                member.outbox = box
                self.settle.append(box.settle)
                continue
            self.outbox = self.outbox or FileOutbox(self.given["batch_file"])
            member.outbox = self.outbox
            for file in self.given["batch_results"]:
                errors = ingest(file, cache, member.options.model, member.price).errors
                self.outbox.errors |= errors
                if errors:
                    first = next(iter(errors.values()))
                    notice(f"{file}: {len(errors)} requests have no answer; the first: {first}")

    def preview(self) -> None:
        """Let the judge look at the answers that are known, for a forecast."""
        if self.session and self.given["cached"] and not self.session.in_batches:
            from annotator.judges.llm.cache import AnswerCache

            if _cache_file().exists():
                self.session.cache = AnswerCache(_cache_file())

    def end(self, notice: Callable[[str], None]) -> None:
        """Let go of files."""
        cache = self.session and self.session.cache
        if cache:
            if cache.problem and cache.problem != self.said:
                notice(f"{cache.problem}; answers since then are not kept")
            cache.close()
        if self.outbox:
            self.outbox.close()


def _cache_file() -> Path:
    from annotator.judges.llm.cache import default_file

    return default_file()


def choose(
    judge_name: str | None,
    concurrency: int,
    dry_run: bool,
    options: dict[str, Any],
    notice: Callable[[str], None],
) -> Chosen:
    """Return the judge that the options of a run ask for.

    Raises:
        AnnotatorError: a setting or a file is wrong, or there is no key.
        click.UsageError: options that do not go together.
    """
    context = click.get_current_context()

    def source(name: str) -> ParameterSource | None:
        return context.get_parameter_source(name)

    on_line = {name for name in options if source(name) is ParameterSource.COMMANDLINE}
    models = list(options["models"])
    if judge_name == "rules" or (not judge_name and not models and not options["judge_file"]):
        from annotator.judges.rules import RulesJudge

        if options["facts"]:
            raise click.UsageError(
                "--facts shows facts to a model, and the rules judge asks none (it draws them"
                " itself); give --model NAME, or leave --facts out"
            )
        if on_line:
            ignored = ", ".join(f"--{_option(name)}" for name in sorted(on_line))
            notice(f"the rules judge calls no model; without effect: {ignored}")
        return Chosen(RulesJudge())
    from annotator.judges.llm import LLMJudge
    from annotator.judges.llm.session import Pace, Session
    from annotator.judges.llm.settings import all_options, read_judge_file

    in_file = read_judge_file(options["judge_file"]) if options["judge_file"] else {}
    own = in_file.pop("models", [])
    in_samples = in_file.pop("samples", 1)
    samples = options["samples"] or in_samples
    where = f"{options['judge_file']}: " if options["judge_file"] else ""
    if not isinstance(samples, int) or not 1 <= samples <= 99:
        raise AnnotatorError(f"{where}samples: expected a number from 1 to 99, found {samples!r}")
    if models and ("models" in on_line or not (own or "model" in in_file)):
        named = {one.get("model"): one for one in own}
        own = [named.get(model, {}) | {"model": model} for model in models]
        in_file.pop("model", None)
    elif not (own or where):
        raise click.UsageError("--judge llm needs --model NAME (or ANNOTATOR_MODEL)")
    names = [name for name in options if name in _setting_names()]
    fallback = {name: options[name] for name in names if options[name] is not None}
    given = {name: value for name, value in fallback.items() if name in on_line}
    common = {name: value for name, value in fallback.items() if name not in on_line} | in_file
    all_given = all_options(common, [one | given for one in own] or [given], where)
    by_file = options["batch_file"] or options["batch_results"]
    session = Session(
        Pace(concurrency, options["rpm"], options["tpm"]),
        prices=tuple(options["prices"]),
        in_batches=bool(options["batch"] or by_file),
        offline=bool(dry_run or by_file),
    )
    members = [LLMJudge(one, session) for one in all_given]
    _check(members, samples, options)
    if len(members) == 1 and samples == 1:
        return Chosen(members[0], members, session, given=options)
    from annotator.judges.panel import Panel

    return Chosen(Panel(members, samples), members, session, given=options)


def _check(members: "list[LLMJudge]", samples: int, options: dict[str, Any]) -> None:
    batch, out = options["batch"], options["batch_file"]
    if batch and (out or options["batch_results"]):
        raise click.UsageError("--batch does it all; --batch-file and --batch-results do the parts")
    if (out or options["batch_results"]) and len(members) > 1:
        raise click.UsageError("--batch-file and --batch-results take one model at a time")
    if out and any(one.resolve() == out.resolve() for one in options["batch_results"]):
        raise click.UsageError("--batch-file would write over the --batch-results; name another")
    for member in members:
        if member.price is None and options["max_cost"] is not None:
            raise AnnotatorError(
                f"--max-cost: the price of {member.options.model} is not known; give --price-in and"
                " --price-out, or --prices FILE"
            )
        if samples > 1 and member.options.temperature == 0 and member.options.seed is None:
            raise click.UsageError(
                f"--samples {samples} of {member.options.model} at --temperature 0 would be one"
                " answer several times"
            )


def _setting_names() -> set[str]:
    from dataclasses import fields

    from annotator.judges.llm.settings import Options

    return {one.name for one in fields(Options)}


def _option(name: str) -> str:
    return {"models": "model", "cached": "no-cache"}.get(name, name).replace("_", "-")
