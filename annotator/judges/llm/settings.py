"""The settings of a model: options, the judge file, addresses and keys. No secret is recorded."""

import hashlib
import ipaddress
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import from_json

from annotator.base.errors import AnnotatorError
from annotator.base.text import describe_validation, hide_url_secrets, sanitize_line
from annotator.base.yaml import read_yaml
from annotator.judges.base import ResponseFormat
from annotator.judges.llm.provider import (
    APIS,
    PROVIDER_NAMES,
    Provider,
    find_native_provider,
    find_provider,
)
from annotator.judges.llm.provider import Api as ProviderApi
from annotator.prompts.render import Considered, Layout

DEFAULT_URL = "https://api.openai.com/v1"

# What we set ourselves, or could not read the answer to.
_OURS = frozenset(
    [
        *("model", "messages", "tools", "tool_choice", "response_format", "stream", "n"),
        *("system", "contents", "systemInstruction", "toolConfig"),
    ]
)
_NAMED = frozenset(["temperature", "seed", "reasoning_effort", "max_completion_tokens"])


Api = Literal["auto", "chat", "responses", "anthropic", "gemini"]
NATIVE = frozenset(name for name, api in APIS.items() if api.url)
"""The APIs that are a provider's own."""
_DEFAULT_KEY = "OPENAI_API_KEY"
_ANTHROPIC_CAP = 8_192  # tokens: its API takes no request that names none
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OUR_HEADERS = frozenset(["content-type", "content-length", "host", "accept-encoding"])


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Options:
    """How one model is asked.

    ``reasks``: how often a model may answer again after a wrong quote or a malformed answer.
    ``attempts``, ``max_wait``: how often, and for how many seconds in all, one call is tried on
    errors that may pass. ``timeout``: seconds for one attempt. ``temperature``, ``seed``,
    ``reasoning_effort``, ``max_output_tokens`` and ``extra_body`` are sent as they are; None is not
    sent. ``context``: the longest input in tokens; None is not known. ``windows``: show a
    conversation that is too long in several overlapping windows. ``considered``: what an answer
    goes through before it decides; ``rubric_last``: the rubric stands after the trace;
    ``facts``: the prompt says what is known about the run besides the agents' names.
    ``price_in``, ``price_cached``, ``price_out``: dollars per million tokens; None is as listed.
    ``dialect``: the kind of server, None is by its host. ``headers``: more headers, each with the
    environment variable that holds its value. ``api``: ``chat`` completions, ``responses``, or the
    first as long as the server does not say that it has only the second; ``anthropic`` and
    ``gemini`` are these providers' own, with an address, a variable for the key and a dialect of
    their own.
    """

    model: Annotated[str, Field(min_length=1)]
    base_url: str = DEFAULT_URL
    api_key_env: str = _DEFAULT_KEY
    mode: ResponseFormat = "auto"
    reasks: Annotated[int, Field(ge=0, le=10)] = 3
    attempts: Annotated[int, Field(ge=1, le=50)] = 8
    timeout: Annotated[float, Field(gt=0)] = 120.0
    max_wait: Annotated[float, Field(ge=0)] = 600.0
    max_output_tokens: Annotated[int | None, Field(ge=16)] = None
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    seed: int | None = None
    reasoning_effort: str | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    context: Annotated[int | None, Field(ge=512)] = None
    windows: bool = False
    considered: Considered = "codes"
    rubric_last: bool = False
    facts: bool = True
    price_in: Annotated[float | None, Field(ge=0)] = None
    price_cached: Annotated[float | None, Field(ge=0)] = None
    price_out: Annotated[float | None, Field(ge=0)] = None
    dialect: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    api: Api = "auto"

    def __post_init__(self) -> None:
        check_url(self.base_url)
        if self.dialect is not None and self.dialect not in PROVIDER_NAMES:
            raise ValueError(
                f"dialect: {self.dialect!r} is unknown; there are {', '.join(PROVIDER_NAMES)}"
            )
        if self.api in ("responses", "anthropic") and self.seed is not None:
            name = "the Responses API" if self.api == "responses" else "Anthropic's API"
            raise ValueError(f"seed: {name} takes none")
        if self.own_api:
            self._go_native(self.own_api)
        if not _VARIABLE.fullmatch(self.api_key_env):  # not shown: it may be the key
            raise ValueError(
                "api_key_env: expected the name of an environment variable that holds the key, such"
                " as OPENAI_API_KEY; what is given is no name, and no key belongs there"
            )
        for name, variable in self.headers.items():
            if not _HEADER.fullmatch(name):
                raise ValueError("headers: what is no name of a header cannot be set there")
            if name.lower() in _OUR_HEADERS:
                raise ValueError(f"headers: {name!r} cannot be set there")
            if not _VARIABLE.fullmatch(variable):
                raise ValueError(f"headers: {name}: expected the name of an environment variable")
        stray = sorted(_OURS & self.extra_body.keys())
        if stray:
            raise ValueError(f"extra_body: {stray[0]!r} cannot be set there")
        named = sorted(_NAMED & self.extra_body.keys())
        if named:
            option = named[0].replace("completion", "output")
            raise ValueError(f"extra_body: {named[0]!r} has an option of its own: {option}")
        try:
            from_json(json.dumps(dict(self.extra_body), allow_nan=False))  # refuses 200 levels
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"extra_body: cannot be sent as JSON: {error}") from error

    def _go_native(self, api: ProviderApi) -> None:
        """Put the provider's own defaults in the place of OpenAI's."""
        if self.dialect not in (None, self.api):
            raise ValueError(f"dialect: --api {self.api} has its own: leave {self.dialect!r} out")
        defaults = {"base_url": (DEFAULT_URL, api.url), "api_key_env": (_DEFAULT_KEY, api.key_env)}
        if self.api == "anthropic":
            defaults["max_output_tokens"] = (None, _ANTHROPIC_CAP)  # type: ignore[assignment]
        for name, (openai, native) in defaults.items():
            if getattr(self, name) == openai:
                object.__setattr__(self, name, native)

    def parameters(self, sample: int) -> dict[str, Any]:
        """Return the model's settings as fields of a request.

        Samples of one trace get different seeds, if there is a seed.
        """
        values = {
            self.provider.cap: self.max_output_tokens,
            "temperature": self.temperature,
            self.provider.seed: None if self.seed is None else self.seed + sample - 1,
            "reasoning_effort": self.reasoning_effort,
        }
        named = {key: value for key, value in values.items() if value is not None}
        return {**self.provider.sends, **named, **self.extra_body}

    @property
    def own_api(self) -> ProviderApi | None:
        """The provider's own API, if that is used."""
        return APIS[self.api] if self.api in NATIVE else None

    @property
    def layout(self) -> Layout:
        """The layout of its prompts."""
        return Layout(self.considered, self.rubric_last, self.facts)

    def identity(self, sample: int) -> str:
        """Return everything but the request that decides the answers, as one text."""
        if sample in self._identities:
            return self._identities[sample]
        headers: list[Any] = [digest] if (digest := hash_environment_headers(self.api)) else []
        headers += [self.headers_sha256] if self.headers else []
        api = [self.api] if self.api in ("responses", *NATIVE) else []
        decides = [self.address, self.model, self.parameters(sample), *headers, *api]
        return self._identities.setdefault(sample, json.dumps(decides, sort_keys=True))

    @cached_property
    def _identities(self) -> dict[int, str]:
        return {}

    @cached_property
    def provider(self) -> Provider:
        """The provider that is asked."""
        if self.own_api:
            return find_native_provider(self.api)
        return find_provider(self.base_url, self.dialect)

    @cached_property
    def headers_sha256(self) -> dict[str, str]:
        """The names of the user's own headers, each with the hash of its value."""
        values = {name: os.environ.get(env, "") for name, env in self.headers.items()}
        return {
            name: hashlib.sha256(value.encode(errors="replace")).hexdigest()[:16]
            for name, value in values.items()
        }

    @cached_property
    def address(self) -> str:
        """The URL without its secrets, and with the hash of its query."""
        query = urlsplit(self.base_url).query
        digest = hashlib.sha256(query.encode()).hexdigest()[:16]
        return strip_secrets(self.base_url) + (f"?sha256={digest}" if query else "")


def hash_environment_headers(api: str) -> str | None:
    """Return the hash of the headers that openai's client takes from the environment, or None."""
    names = () if api in NATIVE else CUSTOM_HEADERS
    values = {name: value for name in names if (value := os.environ.get(name))}
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16] if values else None


def read_headers(options: Options) -> dict[str, str]:
    """Return the user's own headers with their values from the environment.

    Raises:
        AnnotatorError: a variable is not set, or its value cannot be a header.
    """
    values = {}
    for name, env in options.headers.items():
        value = os.environ.get(env, "").strip()
        if not value:
            raise AnnotatorError(f"headers: {name}: {env}: the environment variable is not set")
        if not (value.isascii() and value.isprintable()):
            raise AnnotatorError(f"headers: {name}: {env}: its value holds what no header can")
        values[name] = value
    return values


CUSTOM_HEADERS = ("OPENAI_CUSTOM_HEADERS", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")
"""The environment variables with headers that openai's client sends of itself."""
_NAMES = tuple(field.name for field in fields(Options))
_FILE_ONLY = ("models", "samples", "require", "critic", "batch_wait")
SETTING_NAMES = (*_NAMES, "samples", "require", "critic")
"""The settings of a judge of one model, by the names of a judge file."""


def read_judge_file(path: Path) -> dict[str, Any]:
    """Return the settings in a YAML file: names of :class:`Options`, ``samples``, ``require``,
    ``critic``, ``batch_wait``, and ``models``, a list of settings that each differ from the common
    ones.

    Raises:
        AnnotatorError: the file cannot be read, or has a field that is not known.
    """
    value, _ = read_yaml(path)
    if not isinstance(value, dict):
        raise AnnotatorError(f"{path}: expected settings such as model: gpt-5")
    names = _NAMES + _FILE_ONLY
    for name in value:
        if name not in names:
            raise AnnotatorError(f"{path}: {name!r}: unknown setting; known: {', '.join(names)}")
    return value


def build_options(models: Sequence[dict[str, Any]], where: str = "") -> list[Options]:
    """Return the options of each model.

    Raises:
        AnnotatorError: a setting is wrong (the message begins with ``where``), or a model is named
            twice.
    """
    options = [_parse_options(model, where) for model in models]
    names = [item.model for item in options]
    for name in names:
        if names.count(name) > 1:
            twice = f"the model {name!r} is given twice; --samples asks it repeatedly"
            raise AnnotatorError(where + twice)
    return options


def _parse_options(values: dict[str, Any], where: str) -> Options:
    if "model" not in values:
        raise AnnotatorError(f"{where}no model: give --model NAME, or model: NAME in the file")
    try:
        options: Options = TypeAdapter(Options).validate_python(values)
    except ValidationError as error:
        raise AnnotatorError(where + describe_validation(error)) from error
    extra_body, headers = dict(options.extra_body), dict(options.headers)
    return replace(options, extra_body=extra_body, headers=headers)


@lru_cache(maxsize=16)
def is_local(url: str) -> bool:
    """Whether a URL names this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def read_api_key(url: str, env: str) -> str:
    """Return the key from the environment variable ``env``; a local URL needs none.

    Raises:
        AnnotatorError: the variable is not set and the URL is not local.
    """
    key = os.environ.get(env, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise AnnotatorError(f"the API key in {env} holds characters that no key can have")
    if not key and not is_local(url):
        # Names are in capitals. Where there is nothing of that name, it may be the key itself.
        name = f"the environment variable {env}" if env.isupper() else "the one of --api-key-env"
        raise AnnotatorError(
            f"no API key for {strip_secrets(url)}: set {name}, or name another environment"
            " variable with --api-key-env (a server on this machine needs none)"
        )
    return key or "none"


def check_url(url: str) -> None:
    """Raise :class:`AnnotatorError` for what is no http(s) URL with a host and, if any, a port that
    is a number.
    """
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:
        fine = False
    if not fine:
        address = sanitize_line(hide_url_secrets(url), 200)
        raise AnnotatorError(f"--base-url {address!r} is no URL such as http://localhost:8000/v1")


def strip_secrets(url: str) -> str:
    """Return a URL without user name, password and query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"
