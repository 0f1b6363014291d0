"""The judge of a run: ``--judge``, the options of models, and the judge that they build."""

import os
import shlex
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from annotator import api
from annotator.base.errors import SettingsError
from annotator.base.text import escape_controls, hide_url_secrets
from annotator.cli.options import Number, PluginChoice, add_option, add_options
from annotator.cli.servers import find_servers
from annotator.judges.base import BUILT_IN
from annotator.judges.build import (
    SAME,
    BuiltJudge,
    ModelSettings,
    build_judge,
    is_judge_file,
    parse_settings,
    read_settings,
)

_FILE = click.Path(path_type=Path, dir_okay=False)
_READ = click.Path(path_type=Path, dir_okay=False, exists=True)


# Options of a model. The default of each is in the judge file, else in `Options`.
_SETTINGS = (
    add_option(
        "--base-url URL",
        "An OpenAI-compatible endpoint.  [default: OpenAI's, or that of --api]",
        envvar="OPENAI_BASE_URL",
    ),
    add_option(
        "--api-key-env NAME",
        "The environment variable with the key.  [default: OPENAI_API_KEY, or with --api"
        " ANTHROPIC_API_KEY, GEMINI_API_KEY]",
    ),
    add_option(
        "--api",
        "The API of the endpoint: chat completions or responses. auto is chat, unless the"
        " server says that the model needs responses. anthropic, gemini: the provider's own API."
        "  [default: auto]",
        click.Choice(("auto", "chat", "responses", "anthropic", "gemini")),
    ),
    add_option(
        "--temperature T",
        "The temperature.  [default: 0 for servers on this machine, else the server's]",
        Number(0, 2),
    ),
    add_option(
        "--context N",
        "The longest input of the model in tokens.  [default: as listed, else unknown]",
        click.IntRange(512),
    ),
    add_option(
        "--price-in USD",
        "Dollars per million input tokens.  [default: as listed, else unknown]",
        Number(0),
    ),
    add_option("--price-out USD", "Dollars per million output tokens.", Number(0)),
)

# Options of the run for judges with models.
_SESSION = (
    add_option(
        "--model NAME...",
        "The model of the llm judge. Repeat it for a panel that votes.",
        name="models",
        envvar="ANNOTATOR_MODEL",
    ),
    add_option(
        "--samples K",
        "How often each model judges a trace; the votes decide.  [default: 1]",
        click.IntRange(1, 99),
    ),
    add_option(
        "--critic [MODEL]",
        "Ask a model about each finding once more: the judge's own, or MODEL at the same endpoint."
        " A finding that it does not uphold does not count.",
        is_flag=False,
        flag_value=SAME,
    ),
    add_option(
        "--prices FILE...", "A YAML file with prices, which replace the listed ones.", _FILE
    ),
    add_option("--rpm N", "The most calls a minute.", click.IntRange(1)),
    add_option("--tpm N", "The most tokens a minute.", click.IntRange(1)),
    add_option(
        "--max-cost USD",
        "Stop before a call that may bring the run above this (exit code 3). Calls in flight"
        " may still exceed it.",
        Number(0),
    ),
    add_option(
        "--cache/--no-cache",
        "Use the answers kept on this machine, and keep new ones.",
        name="cached",
        default=True,
    ),
    add_option("--batch", "Use the Batch API: slower, and cheaper where offered."),
    add_option("--batch-file OUT", "Only write the requests, as batch JSONL.", _FILE),
    add_option(
        "--batch-results FILE...", "Only read the answers, from the results of such a file.", _READ
    ),
)


# The options that limit a run; all others are settings of the judge.
_LIMITS = (
    *("prices", "rpm", "tpm", "max_cost"),
    *("cached", "batch", "batch_file", "batch_results", "finder"),
)


class JudgeChoice(PluginChoice):
    """A built-in judge, a plug-in, or a judge file."""

    def __init__(self) -> None:
        super().__init__("judges", BUILT_IN)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the built-in names, and the words for a plug-in and a file."""
        return f"[{'|'.join(self.choices)}|PLUGIN|FILE.yaml]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or the path of the file."""
        if is_judge_file(value):
            return str(_READ.convert(value, param, ctx))
        return super().convert(value, param, ctx)


_JUDGE = add_option(
    "--judge",
    "Who judges. Default: llm with --model, else rules (no key, no network). PLUGIN: the name"
    " of an installed one, or module:name. FILE.yaml: a judge file, for all settings of models.",
    JudgeChoice(),
    name="judge_name",
)


# Without a seed, for commands that have one of their own: the model's is in a judge file then.
add_model_options = add_options(_JUDGE, *_SESSION, *_SETTINGS)
add_judge_options = add_options(
    add_model_options, add_option("--seed N", "The model's seed; sample k is sent N + k - 1.", int)
)


def choose_judge(
    name: str | None,
    concurrency: int,
    dry_run: bool,
    options: dict[str, Any],
    notice: Callable[[str], None],
) -> BuiltJudge:
    """Return the judge for the options of a run.

    Raises:
        AnnotatorError: a setting or a file is wrong, a plug-in cannot be used, or there is no key.
        click.UsageError: options that do not go together.
    """
    explicit = set(filter(is_given, options))
    if name is None:
        name = "llm" if options["models"] else "rules"
        for url, model in find_servers() if name == "rules" else ():
            flags = f"--model {shlex.quote(model)} --base-url {url}"
            notice(f"a model server answers on this machine; to use it: {flags}")
    file = Path(name) if is_judge_file(name) else None
    if name != "llm" and not file and (critic := options["critic"]):
        if critic == SAME and not options["models"]:
            raise click.UsageError(f"--judge {name} has no model of its own: --critic MODEL")
        critics = options["models"][:1] if critic == SAME else (critic,)
        options = {**options, "models": critics, "critic": SAME, "finder": name}
        name = "llm"
    if name != "llm" and not file:
        return _build_without_model(name, options, explicit, notice)
    if not options["models"] and not file:
        raise click.UsageError("--judge llm needs --model NAME (or ANNOTATOR_MODEL)")
    try:
        settings = _parse_options(file, options, explicit, {})
        return build_judge(settings, concurrency=concurrency, offline=dry_run)
    except SettingsError as error:
        raise click.UsageError(str(error)) from error


def is_given(name: str) -> bool:
    """Whether an option is on the command line, not only a default or in the environment."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def make_judge_settings(
    name: str | None, options: Mapping[str, Any], run: api.Run | None, *, named: bool = False
) -> Callable[[Mapping[str, Any]], ModelSettings] | None:
    """Return a function from settings that win over the options to a judge of models; None if
    nobody names a model. ``named``: those settings do.

    Without ``--judge``, the options change the judge of the run, which no variable of the
    environment replaces.
    """
    named = named or is_given("models")
    file: Path | Mapping[str, Any] | None = None
    if name and is_judge_file(name):
        file = Path(name)
    elif run and not name and (run.judge.startswith("llm:") or not named):
        recorded = api.restore_settings(run)
        if isinstance(recorded, str):
            return None  # rules
        file = recorded
    if not file and (name not in (None, "llm") or not (named or options["models"])):
        return None
    explicit = set(filter(is_given, options))
    return lambda varied: _parse_options(file, options, explicit, varied)


def _parse_options(
    file: Path | Mapping[str, Any] | None,
    options: Mapping[str, Any],
    explicit: Collection[str],
    varied: Mapping[str, Any],
) -> ModelSettings:
    """Return the settings of a judge file, or of its content, and of options; ``varied`` wins."""
    limits = {option: options[option] for option in _LIMITS if option in options}
    over: dict[str, Any] = {}
    under: dict[str, Any] = {}
    for option, value in options.items():
        if option not in _LIMITS and value not in (None, ()):
            (over if option in explicit else under)[option] = value
    more = {"over": {**over, **varied}, "under": under, **limits}
    if isinstance(file, Path):
        return read_settings(file, **more)
    return parse_settings(file or {}, **more)


def describe_command(context: click.Context, without: Collection[str] = ()) -> str:
    """Return the command with its parsed options, ``without`` some. Secrets are hidden."""
    arguments = ["annotate", context.command.name or ""]
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE or name in without:
            continue
        value = context.params[name]
        if not isinstance(parameter, click.Option):
            arguments += map(str, value if isinstance(value, tuple) else (value,))
        elif isinstance(value, bool):
            arguments += (parameter.opts if value else parameter.secondary_opts)[:1]
        else:
            values = value if isinstance(value, tuple) else (value,)
            if name == "api_key_env":  # the name of no variable may be the key itself
                values = tuple(value if value in os.environ else "NAME" for value in values)
            arguments += [word for text in values for word in (parameter.opts[0], str(text))]
    return shlex.join(map(hide_url_secrets, arguments))


def say_again(more: str, without: Collection[str] = (), purpose: str = "") -> None:
    """Print on stderr this command, ``without`` some options and with ``more``, as the next one."""
    command = describe_command(click.get_current_context(), without)
    click.echo(f"next: {escape_controls(command)} {more}    {purpose}".rstrip(), err=True)


def _build_without_model(
    name: str, options: dict[str, Any], explicit: set[str], notice: Callable[[str], None]
) -> BuiltJudge:
    """Return the rules judge or a plug-in; both ignore the options of models."""
    if name != "rules" and options["max_cost"] is not None:
        raise click.UsageError(
            f"--max-cost bounds what the llm judge spends, not the judge {name}: leave it out"
        )
    note_unused_options(name, explicit, notice)
    return build_judge(name)


def note_unused_options(
    name: str, explicit: Collection[str], notice: Callable[[str], None]
) -> None:
    """Print which options of models a judge without a model ignores."""
    if explicit:
        who = "the rules judge" if name == "rules" else f"the judge {name}"
        flags = {"models": "model", "cached": "no-cache"}
        names = (flags.get(option, option).replace("_", "-") for option in sorted(explicit))
        reason = "calls no model" if name == "rules" else "is no judge of ours"
        notice(f"{who} {reason}; without effect: {', '.join(f'--{option}' for option in names)}")
