"""Which judge a run has: the options of models, the judge file, and what is made of them."""

import json
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, get_args

import click
from click.core import ParameterSource

from annotator.annotations import Require
from annotator.cli.choices import PluginChoice
from annotator.cli.output import Number
from annotator.errors import SettingsError
from annotator.judges.base import BUILT_IN, MODES
from annotator.judges.build import (
    BATCH_WAIT,
    BuiltJudge,
    build_judge,
    model_settings,
    read_settings,
)
from annotator.prompts import Considered
from annotator.text import hide_values, without_url_secrets

_FILE = click.Path(path_type=Path, dir_okay=False)
_READ = click.Path(path_type=Path, dir_okay=False, exists=True)


def _body(_: click.Context, __: click.Parameter, value: str | None) -> Mapping[str, Any] | None:
    if value is None:
        return None
    try:
        fields = json.loads(value, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"not valid JSON: {error}") from error
    if not isinstance(fields, dict):
        raise click.BadParameter('expected a JSON object such as {"top_p": 0.9}')
    return fields


def _headers(
    _: click.Context, __: click.Parameter, values: tuple[str, ...]
) -> Mapping[str, str] | None:
    headers = {}
    for value in values:
        name, equals, variable = value.partition("=")
        if not (name and equals and variable):
            raise click.BadParameter(  # not shown: it may be the header itself
                "expected NAME=ENVVAR, the name of an environment variable that holds the value"
            )
        headers[name] = variable
    return headers or None


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


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
        "--dialect",
        metavar="NAME",
        help="What kind of server it is: openai, azure, mistral, gemini, openrouter, ollama,"
        " lmstudio, llamacpp, vllm, sglang, anthropic, generic.  [default: by its host, else"
        " generic]",
    ),
    click.option(
        "--header",
        "headers",
        multiple=True,
        callback=_headers,
        metavar="NAME=ENVVAR",
        help="One more header, with its value out of an environment variable; it is neither shown"
        " nor recorded.",
    ),
    click.option(
        "--api",
        type=click.Choice(("auto", "chat", "responses", "anthropic", "gemini")),
        help="Chat completions or the Responses API; auto is the first, as long as the server does"
        " not say that it has the model in the second only. anthropic, gemini: the provider's own"
        " API, which needs the extra of that name.  [default: auto]",
    ),
    click.option(
        "--mode",
        type=click.Choice(MODES),
        help="How the model is made to answer in form; auto asks the endpoint once, and goes one"
        " on where a form is refused later.  [default: auto]",
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
    click.option("--reasoning-effort", metavar="WORD", help="As it is sent: low, medium, high ..."),
    click.option(
        "--max-output-tokens",
        type=click.IntRange(16),
        metavar="N",
        help="Longest answer of the model; one that is cut off is asked for once more with twice"
        " that.  [default: the server's]",
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
        "--considered",
        type=click.Choice(get_args(Considered)),
        help="What an answer goes through before it decides.  [default: codes]",
    ),
    click.option(
        "--rubric-last/--rubric-first",
        default=None,
        help="Put the rubric after the trace, where no provider can cache it.",
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
        type=Number(0),
        metavar="S",
        help="Seconds that the attempts of one call may take in all.  [default: 600]",
    ),
    click.option(
        "--timeout",
        type=Number(0, min_open=True),
        metavar="S",
        help="Seconds for one attempt.  [default: 120]",
    ),
    click.option(
        "--price-in",
        type=Number(0),
        metavar="USD",
        help="Dollars per million input tokens.  [default: as listed, else not known]",
    ),
    click.option(
        "--price-cached",
        type=Number(0),
        metavar="USD",
        help="Of input that the provider had in its cache.  [default: as --price-in]",
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
        "--judge-file",
        type=_READ,
        metavar="FILE",
        help="YAML with these settings, and with models that differ in them.",
    ),
    click.option(
        "--samples",
        type=click.IntRange(1, 99),
        metavar="K",
        help="How often each model is asked about a trace; the votes decide.  [default: 1]",
    ),
    click.option(
        "--require",
        type=click.Choice(get_args(Require)),
        help="How many of the votes a code needs: more than half, all, or one. none needs more than"
        " half, or all.  [default: majority]",
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
        "--batch-wait",
        type=Number(0, min_open=True),
        default=BATCH_WAIT,
        metavar="HOURS",
        help="Stop when the batches of --batch have not ended by then; --resume takes them up.",
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
    "batch_wait",
    "batch_file",
    "batch_results",
)

_JUDGE = click.option(
    "--judge",
    "judge_name",
    type=PluginChoice("judges", BUILT_IN),
    help="Who decides. Default: llm if a model is given, else rules (no key, no network)."
    " PLUGIN: the name of an installed one, or module:name.",
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
        name = "llm" if options["models"] or options["judge_file"] else "rules"
    if name != "llm":
        return _without_model(name, options, on_line, notice)
    if not options["models"] and not options["judge_file"]:
        raise click.UsageError("--judge llm needs --model NAME (or ANNOTATOR_MODEL)")
    limits = {option: options[option] for option in _LIMITS}
    given = {
        option: value
        for option, value in options.items()
        if option not in (*_LIMITS, "judge_file") and value not in (None, ())
    }
    over = {option: value for option, value in given.items() if option in on_line}
    under = {option: value for option, value in given.items() if option not in on_line}
    more = {"over": over, "under": under, **limits}
    file = options["judge_file"]
    try:
        settings = read_settings(file, **more) if file else model_settings({}, **more)
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
    return shlex.join(map(without_url_secrets, words))


def _spell(name: str, values: tuple[Any, ...]) -> list[str]:
    if name == "api_key_env":  # what names nothing may be the key
        return [value if value in os.environ else "NAME" for value in values]
    if name == "headers":
        return [f"{header}={variable}" for header, variable in values[0].items()]
    if name == "extra_body":
        return [json.dumps(hide_values(value)) for value in values]
    return list(map(str, values))


def _without_model(
    name: str, options: dict[str, Any], on_line: set[str], notice: Callable[[str], None]
) -> BuiltJudge:
    """Return the rules judge or a plug-in, for which the options of models mean nothing."""
    who, draws = f"the judge {name}", ""
    if name == "rules":
        who, draws = "the rules judge", " (it draws them itself)"
    if options["facts"]:
        raise click.UsageError(
            f"--facts shows facts to a model, and {who} asks none{draws}; give --model NAME, or"
            " leave --facts out"
        )
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
