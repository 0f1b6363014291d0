"""Which judge a run has: the options of models, the judge file, and what is made of them."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from annotator.base.errors import SettingsError
from annotator.base.text import hide_url_secrets
from annotator.cli.choices import PluginChoice
from annotator.cli.output import Number
from annotator.judges.base import BUILT_IN
from annotator.judges.build import (
    BuiltJudge,
    build_judge,
    is_judge_file,
    parse_settings,
    read_settings,
)

_FILE = click.Path(path_type=Path, dir_okay=False)
_READ = click.Path(path_type=Path, dir_okay=False, exists=True)


# Options of a model; what is not given is taken from the judge file, else from `Options`.
_SETTINGS = (
    click.option(
        "--base-url",
        envvar="OPENAI_BASE_URL",
        metavar="URL",
        help="OpenAI-compatible endpoint.  [default: OpenAI's, or that of --api]",
    ),
    click.option(
        "--api-key-env",
        metavar="NAME",
        help="Environment variable that holds the key.  [default: OPENAI_API_KEY, or with --api"
        " ANTHROPIC_API_KEY, GEMINI_API_KEY]",
    ),
    click.option(
        "--api",
        type=click.Choice(("auto", "chat", "responses", "anthropic", "gemini")),
        help="Chat completions or the Responses API; auto is the first, as long as the server does"
        " not say that it has the model in the second only. anthropic, gemini: the provider's own"
        " API, which needs the extra of that name.  [default: auto]",
    ),
    click.option(
        "--temperature",
        type=Number(0, 2),
        metavar="T",
        help="As it is sent.  [default: 0 for servers on this machine, else the server's]",
    ),
    click.option(
        "--seed", type=int, metavar="N", help="The model's seed; sample k is sent N + k - 1."
    ),
    click.option(
        "--context",
        type=click.IntRange(512),
        metavar="N",
        help="Longest input of the model in tokens.  [default: as listed, else not known]",
    ),
    click.option(
        "--price-in",
        type=Number(0),
        metavar="USD",
        help="Dollars per million input tokens.  [default: as listed, else not known]",
    ),
    click.option(
        "--price-out",
        type=Number(0),
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
        "--samples",
        type=click.IntRange(1, 99),
        metavar="K",
        help="How often each model is asked about a trace; the votes decide.  [default: 1]",
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
        type=Number(0),
        metavar="USD",
        help="Stop when the next call may bring the run above this in all (exit code 3); calls in"
        " flight may still exceed it.",
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


# Those among them that bound a run; the others are settings of the judge.
_LIMITS = (
    "prices",
    "rpm",
    "tpm",
    "max_cost",
    "cached",
    "batch",
    "batch_file",
    "batch_results",
)


class JudgeChoice(PluginChoice):
    """A built-in judge, a plug-in, or a judge file."""

    def __init__(self) -> None:
        super().__init__("judges", BUILT_IN)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return what may be named."""
        return f"[{'|'.join(self.choices)}|PLUGIN|FILE.yaml]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or the path of the file."""
        if is_judge_file(value):
            return str(_READ.convert(value, param, ctx))
        return super().convert(value, param, ctx)


_JUDGE = click.option(
    "--judge",
    "judge_name",
    type=JudgeChoice(),
    help="Who decides. Default: llm if a model is given, else rules (no key, no network)."
    " PLUGIN: the name of an installed one, or module:name. FILE.yaml: a judge file, which has all"
    " settings of models.",
)


def judge_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--judge`` and the options of the llm judge to a command."""
    for option in reversed((_JUDGE, *_SESSION, *_SETTINGS)):
        command = option(command)
    return command


def choose_judge(
    name: str | None,
    concurrency: int,
    dry_run: bool,
    options: dict[str, Any],
    notice: Callable[[str], None],
) -> BuiltJudge:
    """Return the judge that the options of a run ask for.

    Raises:
        AnnotatorError: a setting or a file is wrong, a plug-in cannot be used, or there is no key.
        click.UsageError: options that do not go together.
    """
    source = click.get_current_context().get_parameter_source
    on_line = {option for option in options if source(option) is ParameterSource.COMMANDLINE}
    if name is None:
        name = "llm" if options["models"] else "rules"
    file = Path(name) if is_judge_file(name) else None
    if name != "llm" and not file:
        return _without_model(name, options, on_line, notice)
    if not options["models"] and not file:
        raise click.UsageError("--judge llm needs --model NAME (or ANNOTATOR_MODEL)")
    limits = {option: options[option] for option in _LIMITS}
    given = {
        option: value
        for option, value in options.items()
        if option not in _LIMITS and value not in (None, ())
    }
    over = {option: value for option, value in given.items() if option in on_line}
    under = {option: value for option, value in given.items() if option not in on_line}
    more = {"over": over, "under": under, **limits}
    try:
        settings = read_settings(file, **more) if file else parse_settings({}, **more)
        return build_judge(settings, concurrency=concurrency, offline=dry_run)
    except SettingsError as error:
        raise click.UsageError(str(error)) from error


def describe_command(context: click.Context) -> str:
    """Return the command that is run, made of what its options were read as, for its record: what
    stands on the command line may hold what belongs there nowhere.
    """
    words = ["annotate", context.command.name or ""]
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        if not isinstance(parameter, click.Option):
            words += map(str, value)
        elif isinstance(value, bool):
            words += (parameter.opts if value else parameter.secondary_opts)[:1]
        else:
            values = value if isinstance(value, tuple) else (value,)
            words += [word for text in _spell(name, values) for word in (parameter.opts[0], text)]
    return shlex.join(map(hide_url_secrets, words))


def _spell(name: str, values: tuple[Any, ...]) -> list[str]:
    if name == "api_key_env":  # what names nothing may be the key
        return [value if value in os.environ else "NAME" for value in values]
    return list(map(str, values))


def _without_model(
    name: str, options: dict[str, Any], on_line: set[str], notice: Callable[[str], None]
) -> BuiltJudge:
    """Return the rules judge or a plug-in, for which the options of models mean nothing."""
    who = "the rules judge" if name == "rules" else f"the judge {name}"
    if name != "rules" and options["max_cost"] is not None:
        raise click.UsageError(
            f"--max-cost bounds what the llm judge spends, not {who}: leave it out"
        )
    if on_line:
        ignored = ", ".join(f"--{_option(option)}" for option in sorted(on_line))
        what = "calls no model" if name == "rules" else "is no judge of ours"
        notice(f"{who} {what}; without effect: {ignored}")
    return build_judge(name)


def _option(name: str) -> str:
    return {"models": "model", "cached": "no-cache"}.get(name, name).replace("_", "-")
