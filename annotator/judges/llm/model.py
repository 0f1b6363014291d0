"""One model behind an endpoint: its response format, its price, and single requests."""

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from annotator.base.errors import AnnotatorError, JudgeStopped
from annotator.base.text import sanitize_line
from annotator.judges.base import RESPONSE_FORMATS, ResponseFormat, RunJudge
from annotator.judges.llm.answer import build_answer_model, build_answer_schema, extract_answer
from annotator.judges.llm.cache import FORMAT_KEY, AnswerCache
from annotator.judges.llm.cost import (
    Budget,
    CallEstimate,
    Price,
    count_minimum_tokens,
    estimate_dollars,
    find_listing,
)
from annotator.judges.llm.provider import write_responses_request
from annotator.judges.llm.rate_limit import RateLimiter
from annotator.judges.llm.request import (
    BUDGET_BYTES_PER_TOKEN,
    BYTES_PER_TOKEN,
    ModelRequest,
    build_format,
    list_libraries,
)
from annotator.judges.llm.response import CallFailed, FormatRefused, ModelResponse, Unavailable
from annotator.judges.llm.settings import (
    Options,
    is_local,
    read_api_key,
    read_headers,
    strip_secrets,
)
from annotator.prompts.render import Prompt, render_probe
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Usage

if TYPE_CHECKING:
    from annotator.judges.llm.batch import Outbox
    from annotator.judges.llm.endpoint import Endpoint


@dataclass
class Session:
    """Shared by all models of a run: rate limiter, budget, cache, price files and notices.

    ``in_batches``: requests go into batches, at their prices. ``offline``: no call and no key.
    ``first_sample`` and ``share`` as in :class:`annotator.judges.build.ModelSettings`.
    ``forecast_keys``: of requests in the forecast of several runs, which count once.
    """

    rate_limiter: RateLimiter = field(default_factory=RateLimiter)
    budget: Budget | None = None
    cache: AnswerCache | None = None
    prices: tuple[Path, ...] = ()
    in_batches: bool = False
    offline: bool = False
    first_sample: int = 1
    share: float = 1.0
    forecast_keys: set[str] | None = None
    notice: Callable[[str], None] = lambda _: None


SHORT_ANSWER, LONG_ANSWER = 1_500, 4_000
"""Tokens of an answer: measured were 1,490 to 4,046, by model."""

# Words of servers that refuse a response format.
_ABOUT_FORMAT = re.compile(
    r"response_?format|json_?schema|tool_choice|\btools?\b|function.?call|grammar|\bschema\b"
    r"|structured.?output|output_?(?:config|format)",
    re.IGNORECASE,
)


_MOST_NAMES = 20  # counted separately
_SNAPSHOT = re.compile(r"[-@:](?:\d{4}-?\d{2}-?\d{2}|\d{3,4}|latest)")


def _is_same_model(answered: str, requested: str) -> bool:
    """Whether a server's name means the model requested, but for case, a date and a prefix."""
    if answered == "unnamed":
        return True
    long, short = (name.lower().removeprefix("models/") for name in (answered, requested))
    names = {long, long.rpartition("/")[2]}, {short, short.rpartition("/")[2]}
    return any(
        name == other or (name.startswith(other) and _SNAPSHOT.fullmatch(name[len(other) :]))
        for name in names[0]
        for other in names[1]
    )


class FormatChanged(Exception):
    """The server refuses this response format: ask again in the current one."""


class Model(RunJudge):
    """Sends requests to one model.

    Raises:
        AnnotatorError: the URL is unusable, or a URL of another machine has no API key.
    """

    def __init__(self, options: Options, session: Session | None = None) -> None:
        self.options = options
        self.session = session or Session()
        self.outbox: Outbox | None = None  # takes the requests instead of the endpoint
        self.response_format: ResponseFormat = options.mode
        self._overhead = Usage()
        self._in_doubt = False  # whether the server failed during the probes
        self._refused: dict[ResponseFormat, str] = {}  # refused formats, with the reason
        offline = self.session.offline
        self._key = "" if offline else read_api_key(options.base_url, options.api_key_env)
        if not offline:
            read_headers(options)
        self._listed = find_listing(options.model, options.base_url, self.session.prices)
        self.answered_by: Counter[str] = Counter()  # answers by the server's name for the model
        self._first: dict[str, asyncio.Event] = {}  # per rubric: the call that warms the cache

    @property
    def overhead(self) -> Usage:
        """The usage of format probes, and of answers without an annotation."""
        return self._overhead + (self.outbox.spent if self.outbox else Usage())

    @cached_property
    def price(self) -> Price | None:
        """Dollars per million tokens; None: unknown."""
        options = self.options
        if options.price_in is None and options.price_out is None and options.price_cached is None:
            price = self._listed.find_price(in_batches=self.session.in_batches)
            if type(price) is Price and price.cache_write is None:
                price = replace(price, cache_write=price.input * options.provider.cache_write)
            return price
        if options.price_in is None or options.price_out is None:
            raise AnnotatorError(
                "--price-in and --price-out are given together, or none of the prices"
            )
        cached = options.price_in if options.price_cached is None else options.price_cached
        write = options.price_in * options.provider.cache_write
        source = "--price-in and --price-out"
        return Price(options.price_in, options.price_out, cached, source, write)

    def recall(self, endpoint_state: Mapping[str, Any]) -> None:
        """See :meth:`annotator.judges.base.RunJudge.recall`."""
        if self.options.mode == "auto" and endpoint_state.get("mode") in RESPONSE_FORMATS:
            self.response_format = endpoint_state["mode"]
        if isinstance(refused := endpoint_state.get("refused_modes"), Mapping):
            self._refused.update(refused)
        if isinstance(counts := endpoint_state.get("answered_by"), Mapping):
            earlier = {name: n for name, n in counts.items() if isinstance(n, int)}
            self.answered_by.update(earlier)

    def _count_name(self, name: str) -> None:
        """Count an answer by the server's name for the model."""
        if name not in self.answered_by and len(self.answered_by) >= _MOST_NAMES:
            name = "others"
        self.answered_by[name or "unnamed"] += 1

    @property
    def other_names(self) -> str:
        """A notice if another model than the requested one answered, else ""."""
        requested = self.options.model
        others = [name for name in self.answered_by if not _is_same_model(name, requested)]
        counts = ", ".join(f"{name!r} ({self.answered_by[name]} answers)" for name in others)
        return counts and (
            f"{sanitize_line(requested, 120)!r} was asked for, and the server says that it"
            " was answered by"
            f" {counts}"
        )

    @cached_property
    def _endpoint(self) -> "Endpoint":
        # Built inside the event loop, as its connections belong to it.
        from annotator.judges.llm.endpoint import Endpoint

        session = self.session
        return Endpoint(
            self.options,
            self._key,
            session.rate_limiter,
            session.budget,
            self.price,
            session.notice,
        )

    @property
    def _format_fallbacks(self) -> tuple[ResponseFormat, ...]:
        return self.options.provider.format_fallbacks(is_local(self.options.base_url))

    async def open(self, rubrics: Sequence[Rubric]) -> None:
        """Find the response format of the endpoint with a few tiny requests.

        They have the longest schema of the rubrics. A server may reject a format with an error or a
        500, or ignore it and answer in plain text. Plain JSON always works and needs no request.
        The result is cached. Batches begin with a JSON schema until a result refuses it.

        Raises:
            JudgeStopped: the endpoint cannot be reached, or refuses the key or the model.
        """
        if self.response_format != "auto":
            return
        if self.outbox:
            self.response_format = "json_schema"
            return
        if cached := self._load_format():
            self.response_format = cached
            return
        considered = self.options.considered
        rubric = max(rubrics, key=lambda rubric: len(build_answer_schema(rubric, considered)))
        for response_format in self._format_fallbacks[:-1]:
            if await self._probe_format(response_format, rubric):
                self.response_format = response_format
                break
        else:
            self.response_format = "json"
        if not self._in_doubt:
            self._store_format()

    def _store_format(self) -> None:
        if cache := self.session.cache:
            cache.put(
                self._format_key, self.options.model, ModelResponse(self.response_format), Usage()
            )

    def _load_format(self) -> ResponseFormat | None:
        """Return the format that an earlier run found, or None."""
        cached = self.session.cache and self.session.cache.get(self._format_key)
        name = cached.response.text if cached else ""
        return next((value for value in RESPONSE_FORMATS if value == name), None)

    @property
    def _format_key(self) -> str:
        decides = f"{self.options.identity(1)} {list_libraries()} {render_probe()}"
        return f"{FORMAT_KEY}{hashlib.sha256(decides.encode()).hexdigest()}"

    async def _probe_format(self, response_format: ResponseFormat, rubric: Rubric) -> bool:
        """Send a tiny request in one format; return whether the answer has that format."""
        try:
            response = await self._ask_tiny(response_format, rubric)
            if response.finish == "length":  # cut off: its beginning is enough
                return bool(response.calls) or response.text.lstrip().startswith("{")
            build_answer_model(rubric, self.options.considered).model_validate_json(
                extract_answer(response, response_format) or ""
            )
        except (CallFailed, ValueError) as error:
            # A 500 may be a server's way to reject a form, or an outage.
            self._in_doubt |= isinstance(error, FormatRefused) and error.status >= 500
            return False
        return True

    async def _try_format(
        self, response_format: ResponseFormat, rubric: Rubric
    ) -> ModelResponse | None:
        """Return the response to a tiny request in one format, None if it is refused."""
        try:
            return await self._ask_tiny(response_format, rubric)
        except CallFailed:
            return None

    @property
    def api(self) -> str:
        """The API in use."""
        name = self._endpoint.api.name if "_endpoint" in self.__dict__ else "chat"
        return self.options.api if name == "chat" else name

    async def _ask_tiny(self, response_format: ResponseFormat, rubric: Rubric) -> ModelResponse:
        """Return the response to a tiny request; raises JudgeStopped or CallFailed."""
        messages = [{"role": "user", "content": render_probe()}]
        options = self.options
        answer_format = build_format(rubric, options.considered, response_format, options.api)
        body = {"model": options.model, "messages": messages, **answer_format}
        body |= options.parameters(1)
        tokens = int(len(to_json(body)) / BYTES_PER_TOKEN)
        call = self._estimate_call(self.options, body, tokens, tokens, tiny=True)
        try:
            return await self._endpoint.complete(to_json(body), call, self._add_usage)
        except Unavailable as error:
            url = strip_secrets(self.options.base_url)
            raise JudgeStopped(f"{url} does not answer: {error}") from error

    def _cap(self, tokens: int) -> int:
        """Return the tokens of an answer, at most ``max_output_tokens``."""
        return min(tokens, self.options.max_output_tokens or tokens)

    def _add_usage(self, usage: Usage) -> None:
        self._overhead += usage

    async def close(self) -> None:
        """Close the connections."""
        if "_endpoint" in self.__dict__:
            await self._endpoint.close()
            del self.__dict__["_endpoint"]

    async def _ask(
        self, request: ModelRequest, options: Options, key: str, count: Any
    ) -> ModelResponse:
        body = request.body(options)
        data = to_json(body)
        # The JSON is a little longer than the prompt: escapes, the schema.
        tokens = int(len(data) / BYTES_PER_TOKEN) + self._cap(LONG_ANSWER)
        call = self._estimate_call(options, body, int(len(data) / BUDGET_BYTES_PER_TOKEN), tokens)
        if self.outbox:
            if refusal := self.outbox.refusal(key):
                await self._fall_back(request, refusal)
            responses = self.options.api == "responses"
            return self.outbox.ask(
                key, write_responses_request(body) if responses else body, call.dollars
            )
        async with self._send_first_alone(request.prompt.rubric.sha256):
            try:
                return await self._endpoint.complete(data, call, count)
            except Unavailable:
                # A tiny request shows whether only this trace fails.
                await self._try_format(request.response_format, request.prompt.rubric)
                raise
            except FormatRefused as error:
                await self._fall_back(request, error)
                raise

    @asynccontextmanager
    async def _send_first_alone(self, rubric: str) -> AsyncIterator[None]:
        """Let the first call of a rubric fill the provider's cache before the others start."""
        first = self._first.get(rubric)
        if first:
            await first.wait()
        if first or not self.warms:
            yield
            return
        first = self._first[rubric] = asyncio.Event()
        try:
            yield
        finally:
            first.set()

    async def _fall_back(self, request: ModelRequest, error: FormatRefused) -> None:
        """Change to the next format if the server refuses this one; return if it refuses only this
        request.

        Raises:
            FormatChanged: the request is to be repeated in the current format.
            JudgeStopped: the server would refuse every request.
        """
        refused, rubric = request.response_format, request.prompt.rubric
        formats = self._format_fallbacks
        lower = formats[formats.index(refused) + 1 :] if refused in formats else ()
        fallback = lower[0] if lower and self.options.mode == "auto" else None
        if refused != self.response_format:  # another request was refused before
            raise FormatChanged
        if not (fallback and _ABOUT_FORMAT.search(str(error))):
            if self.outbox or await self._try_format(refused, rubric):  # no probe in batches
                return
            if refused != self.response_format:  # in the meantime
                raise FormatChanged
            if not (fallback and await self._try_format(fallback, rubric)):
                if self.session.cache:
                    self.session.cache.forget([self._format_key])
                raise JudgeStopped(f"{error}{self._describe_settings()}") from error
        if refused == self.response_format and fallback:
            self._refused[refused] = sanitize_line(str(error), 300)
            self.response_format = fallback
            self._store_format()
        raise FormatChanged

    def _choose_format(self, prompt: Prompt, sample: int) -> ResponseFormat:
        """Return the current format, or an earlier one that has a cached answer."""
        cache = self.session.cache
        for response_format in self._refused if cache else ():
            if cache and cache.get(ModelRequest(prompt, response_format, sample).key(self.options)):
                return response_format
        return self.response_format

    def _describe_settings(self) -> str:
        sent, sent_to = self.options.parameters(1), self.options.model
        text = ", ".join(f"{key}={value!r}" for key, value in sent.items())
        if not text:
            return ""
        here = is_local(self.options.base_url)
        ours = sent.get("temperature") == 0 == self.options.provider.temperature(sent_to, here)
        why = "; 0 is sent to servers on this machine without --temperature, and not with dialect"
        return f"; the request sets {sanitize_line(text, 300)}{why + ' openai' if ours else ''}"

    @property
    def warms(self) -> bool:
        """Whether one call goes first, so that the others find the provider's cache filled."""
        return not is_local(self.options.base_url)

    def _estimate_call(
        self,
        options: Options,
        body: Mapping[str, Any],
        prompt_tokens: int,
        tokens: int,
        *,
        tiny: bool = False,
    ) -> CallEstimate:
        """Return the estimated cost of a request, with a long answer; 0 without a budget."""
        dollars = 0.0, 0.0  # genai-prices takes .1 ms
        if self.session.budget:
            dollars = estimate_dollars(self.price, prompt_tokens, options.max_output_tokens)
        return CallEstimate(options.model, tokens, *dollars, tiny, count_minimum_tokens(body))
