"""How servers that speak OpenAI's protocol differ: one row for each, and nowhere else.

A new endpoint is one row. What the rows say was read in the providers' documentation.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from annotator.base.errors import AnnotatorError
from annotator.judges.base import Mode

KeyHeader = Literal["Authorization", "api-key", "x-api-key"]

# Models that think before they answer: greedy decoding makes many of them repeat themselves, and
# hosted ones reject a temperature.
_THINKS = re.compile(
    r"\bo[1345]\b|gpt-?5|gpt-oss|deepseek-?r|qwq|qwen-?3|magistral|think|reason|\br1\b|glm-?[45]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What is different about one kind of server.

    ``hosts``: names, ends of names that begin with a dot, or ports of this machine that begin with
    a colon. ``cap``, ``seed``: its names for the longest answer and the seed. ``key_header``: where
    it expects the key. ``forms``: the forms of answer that it takes, the surest first.
    ``overflow``: its words for a prompt that is too long, with the numbers ``limit``, ``asked`` and
    ``answer`` (the longest one, where it needs room beside the prompt) where it gives them.
    ``sends``: what every request to it says, so that it does not cut a prompt.
    ``local``: it serves open models where its user runs it, with a temperature of its own where
    none is sent. ``costs``: its usage has the dollars. ``thoughts_apart``: its
    ``completion_tokens`` leave thoughts out, and only ``total_tokens`` counts them.
    ``cache_write``: the price of input that is put into its cache, as a factor of that of input.
    ``batch_url``: what the lines of its batches are addressed to.
    """

    name: str
    hosts: tuple[str, ...] = ()
    cap: str = "max_completion_tokens"
    seed: str = "seed"
    key_header: KeyHeader = "Authorization"
    forms: tuple[Mode, ...] = ("json_schema", "tools", "named", "json")
    overflow: tuple[str, ...] = ()
    sends: Mapping[str, Any] = field(default_factory=dict)
    local: bool = False
    costs: bool = False
    thoughts_apart: bool = False
    cache_write: float = 1.0
    batch_url: str = "/v1/chat/completions"

    def ladder(self, here: bool) -> tuple[Mode, ...]:
        """Return the forms to try, in order.

        ``strict`` first, but not on this machine (``here``): such servers hold to any schema, and
        only the full one bounds its texts and lists, without which a small model goes on to the end
        of its context.
        """
        strict: tuple[Mode, ...] = ("strict",)
        return self.forms if here or "json_schema" not in self.forms else strict + self.forms

    def temperature(self, model: str, here: bool) -> float | None:
        """Return the temperature that is sent where the user gives none, None for the server's.

        ``here``: the server is on this machine.
        """
        greedy = self.local or (here and self.name == GENERIC.name)  # a pickled one is another
        return 0.0 if greedy and not _THINKS.search(model) else None


_OPENAI = (
    r"maximum context length is (?P<limit>\d+) tokens.*?(?:requested|resulted in) (?P<asked>\d+)",
    r"exceeds the context window of this model",
)
_VLLM = (
    r"maximum context length is (?P<limit>\d+) tokens.*?(?:requested|contains at least) "
    r"(?P<asked>\d+)",
    r"prompt \(length (?P<asked>\d+)\) is longer than the maximum model length of (?P<limit>\d+)",
)

DIALECTS = (
    Dialect("openai", (".openai.com",), overflow=_OPENAI),
    Dialect(
        "azure",
        (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"),
        key_header="api-key",
        overflow=_OPENAI,
        batch_url="/chat/completions",
    ),
    Dialect(
        "mistral",
        (".mistral.ai",),
        cap="max_tokens",
        seed="random_seed",
        overflow=(
            r"contains (?P<asked>\d+) tokens.*?too large for model with (?P<limit>\d+) maximum",
        ),
    ),
    Dialect(
        "gemini",
        ("generativelanguage.googleapis.com", "aiplatform.googleapis.com"),
        cap="max_tokens",
        overflow=(
            r"input token count \(?(?P<asked>\d+)\)? exceeds the maximum number of tokens allowed"
            r" \(?(?P<limit>\d+)",
        ),
        thoughts_apart=True,
    ),
    Dialect(
        "openrouter",
        (".openrouter.ai",),
        cap="max_tokens",
        overflow=(
            r"maximum context length is (?P<limit>\d+) tokens.*?requested about (?P<asked>\d+)",
        ),
        # Where the model reads 8,192 tokens or less, or the account has it so, the middle of a
        # longer prompt is left out. https://openrouter.ai/docs/guides/features/message-transforms
        sends={"plugins": [{"id": "context-compression", "enabled": False}]},
        costs=True,
    ),
    Dialect(
        "ollama",
        (":11434", ".ollama.com"),
        cap="max_tokens",
        forms=("json_schema", "json"),  # it takes tools, and leaves it to the model to call one
        overflow=(r"input length exceeds (?:the )?(?:maximum )?context length",),
        local=True,
    ),
    Dialect(
        "lmstudio",
        (":1234",),
        cap="max_tokens",
        forms=("json_schema", "json"),
        overflow=(
            r"first (?P<asked>\d+) tokens when context the overflows.*?context length of only "
            r"(?P<limit>\d+)",
            r"number of tokens to keep from the initial prompt is greater than the context length",
            r"n_keep \((?P<asked>\d+)\) >= n_ctx \((?P<limit>\d+)\)",
        ),
        local=True,
    ),
    Dialect(
        "llamacpp",
        (":8080",),
        cap="max_tokens",
        forms=("json_schema", "json"),  # a named tool is answered in plain text
        overflow=(r"exceed_context_size_error", r"exceeds the available context size"),
        local=True,
    ),
    Dialect("vllm", (":8000",), overflow=_VLLM, local=True),
    Dialect(
        "sglang",
        (":30000",),
        overflow=(
            r"input \((?P<asked>\d+) tokens\) is longer than the model's context length"
            r" \((?P<limit>\d+)",
            r"maximum context length of (?P<limit>\d+) tokens.*?requested a total of "
            r"(?P<asked>\d+)",
        ),
        local=True,
    ),
    Dialect(
        "anthropic",
        (".anthropic.com",),
        cap="max_tokens",
        forms=("tools", "named", "json"),  # it ignores response_format
        overflow=(
            r"prompt is too long: (?P<asked>\d+) tokens > (?P<limit>\d+) maximum",
            r"exceed context limit: (?P<asked>\d+) \+ (?P<answer>\d+) > (?P<limit>\d+)",
        ),
        cache_write=1.25,
    ),
)
GENERIC = Dialect("generic")
NAMES = tuple(dialect.name for dialect in (*DIALECTS, GENERIC))

# A gateway passes on what the server behind it says: the words of all count for each.
OVERFLOW = tuple(
    re.compile(words, re.IGNORECASE)
    for words in dict.fromkeys(words for dialect in DIALECTS for words in dialect.overflow)
)


def find_native(api: str) -> Dialect:
    """Return the dialect of a provider's own API, which holds to a schema, but to no full one."""
    return replace(find_dialect("", api), forms=("strict", "tools", "named", "json"))


def find_dialect(url: str, name: str | None = None) -> Dialect:
    """Return the dialect of a name, else that of the server at ``url``, else the generic one.

    Raises:
        AnnotatorError: there is none of that name.
    """
    if name is not None:
        named = [dialect for dialect in (*DIALECTS, GENERIC) if dialect.name == name]
        if not named:
            raise AnnotatorError(f"dialect: {name!r} is unknown; there are {', '.join(NAMES)}")
        return named[0]
    parts = urlsplit(url)
    if "api-version" in parse_qs(parts.query):  # through a gateway, too
        return find_dialect(url, "azure")
    host = f".{parts.hostname or ''}"
    here = parts.hostname in ("localhost", "127.0.0.1", "::1")
    for dialect in DIALECTS:
        for place in dialect.hosts:
            at_port = place.startswith(":") and here and place == f":{parts.port}"
            if at_port or (not place.startswith(":") and host.endswith(f".{place.lstrip('.')}")):
                return dialect
    return GENERIC
