"""OpenAI's Batch API: requests go out in files, and the answers come later as files.

``--batch`` sends and collects them (:class:`BatchOutbox`); ``--batch-file`` and
``--batch-results`` leave that to the user (:class:`FileOutbox`).
"""

import asyncio
import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from annotator.base.errors import AnnotatorError, JudgeStopped, Pending
from annotator.base.files import (
    NewFile,
    explain_errors,
    explain_unreadable,
    open_checked,
    read_bounded,
    read_bounded_lines,
    write_file,
)
from annotator.base.text import (
    describe_validation,
    hide_url_secrets,
    replace_surrogates,
    sanitize_line,
)
from annotator.judges.llm.cache import AnswerCache
from annotator.judges.llm.cost import (
    Budget,
    Price,
    count_minimum_tokens,
    estimate_dollars,
    read_cost,
)
from annotator.judges.llm.redact import Secrets
from annotator.judges.llm.request import BUDGET_BYTES_PER_TOKEN
from annotator.judges.llm.response import (
    LONGEST_RESPONSE,
    TRANSIENT,
    CallFailed,
    FormatRefused,
    ModelResponse,
    Unanswered,
    parse_overflow,
    read_response,
)
from annotator.judges.llm.settings import Options, read_api_key
from annotator.rubrics.annotations import Usage

NO_RESULT = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class MissingAnswer:
    """The error of a request in batch results, with its HTTP ``status`` (0: it was not sent)."""

    message: str
    status: int = 0

    @property
    def may_pass(self) -> bool:
        """Whether the same request may be answered another time."""
        return self.status in (0, *TRANSIENT) or self.status >= 500

    @property
    def refusal(self) -> FormatRefused | None:
        """The same refusal as of a request outside a batch, or None."""
        refused = self.status >= 400 and (not self.may_pass or self.status in (500, 501))
        return FormatRefused(self.message, self.status) if refused else None


@dataclass(frozen=True, slots=True)
class SentRequest:
    """The fewest tokens of a request that was sent, and the dollars that it may cost."""

    minimum_tokens: int = 0
    dollars: float = 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """A line of batch results. ``message``: its error, or ""; ``too_long``: the same as a response,
    if it says that the prompt was too long.
    """

    key: str
    body: object
    message: str = ""
    status: int = 200
    too_long: ModelResponse | None = None


def parse_result(line: bytes, secrets: Secrets) -> Result:
    """Return a line of OpenAI's results or of ``vllm run-batch``. Errors are redacted.

    Raises:
        one of NO_RESULT: it is no result.
    """
    if len(line) > LONGEST_RESPONSE:
        raise ValueError("too long")
    value = json.loads(line)
    key, response = replace_surrogates(str(value["custom_id"])), value.get("response") or {}
    status, body = int(response.get("status_code") or 200), response.get("body")
    if status == 200 and body is not None and not value.get("error"):
        return Result(key, body)
    error = body.get("error", body) if isinstance(body, dict) and status != 200 else None
    error = error or value.get("error")
    while isinstance(error, dict) and isinstance(error.get("error"), dict):
        error = error["error"]
    fields = error if isinstance(error, dict) else {}
    message = str(fields.get("message") or fields.get("code") or error or "no answer")
    reason = sanitize_line(secrets.redact(message), 300)
    reason = f"HTTP {status}: {reason}" if status != 200 else reason
    too_long = None
    if status not in TRANSIENT and status < 500:
        code = str(fields.get("code") or fields.get("type") or "")
        too_long = parse_overflow(reason, fields, code, status == 413)
    return Result(key, body, reason, status, too_long)


class BatchImport:
    """Puts the answers of result files into the cache; the first answer to a request counts.

    Attributes:
        errors: the error of each request without an answer, by key.
        results, unread: numbers of results and of unreadable lines (see ``problem``).
        lost: the usage of calls without an answer.
        dollars: the cost of the answers; the estimate where the server reports none.
    """

    def __init__(
        self,
        cache: AnswerCache,
        options: Options,
        price: Price | None,
        secrets: Secrets,
        requests: Mapping[str, SentRequest] | None = None,
    ) -> None:
        self.errors: dict[str, MissingAnswer] = {}
        self.results = self.unread = 0
        self.first_unread = ""
        self.lost = Usage()
        self.dollars = 0.0
        self._cache = cache
        self._options = options
        self._price = price
        self._secrets = secrets
        self._requests = requests

    def take(self, line: bytes, where: str) -> None:
        """Import a line of results; answers in the cache stay."""
        if not line.strip():
            return
        try:
            result = parse_result(line, self._secrets)
        except NO_RESULT:
            self.unread += 1
            self.first_unread = self.first_unread or where
            return
        self.results += 1
        if self._requests is None or result.key in self._requests:
            self._take(result, (self._requests or {}).get(result.key, SentRequest()))

    def take_file(self, file: Path) -> None:
        """Import the results in a file.

        Raises:
            AnnotatorError: the file cannot be read.
        """
        n = 0
        with explain_unreadable(file), open_checked(file) as lines:
            while line := lines.readline(LONGEST_RESPONSE + 1):
                n += 1
                self.take(line, f"{file}, line {n}")
                while line and len(line) > LONGEST_RESPONSE and not line.endswith(b"\n"):
                    line = lines.readline(LONGEST_RESPONSE + 1)

    @property
    def problem(self) -> str:
        """A message about unreadable lines, or ""."""
        if not self.unread:
            return ""
        more = f" ({self.unread} lines are none)" if self.unread > 1 else ""
        return (
            f"{self.first_unread}: expected a line of batch results with custom_id and response, of"
            f" at most {LONGEST_RESPONSE >> 20} MB{more}"
        )

    def _take(self, result: Result, sent: SentRequest) -> None:
        usage, response, message = Usage(calls=1), result.too_long, result.message
        if not message:
            usage = read_cost(result.body, self._price, self._options.provider, sent.minimum_tokens)
            try:
                response = read_response(result.body, self._secrets.redact)
            except ValueError as wrong:
                message = str(wrong)
        if response is None:
            ran = result.status != 200 or result.body is not None
            self.errors[result.key] = MissingAnswer(message, result.status if ran else 0)
            self.lost += usage if ran else Usage()  # else it was never asked
        elif self._cache.get(result.key) is None:
            self._cache.put(result.key, self._options.model, response, usage)
            self.dollars += sent.dollars if usage.cost_usd is None else usage.cost_usd


_STATE = "state.json"
_MAX_REQUESTS = 50_000  # in one file: OpenAI's limits
_MAX_BYTES = 190_000_000
_ATTEMPTS = 3  # how often a request is sent whose answer does not come
_FIRST_POLL, _LAST_POLL = 1.0, 60.0  # seconds between two looks at a batch
_ENDED = ("completed", "failed", "expired", "cancelled")
_MAX_DOWNLOAD = 2 << 30  # bytes


def choose_batch_url(options: Options) -> str:
    """Return the path that the lines of a batch name."""
    url = options.provider.batch_url
    return url.replace("chat/completions", "responses") if options.api == "responses" else url


class Outbox(ABC):
    """Takes the requests of one model in place of its endpoint.

    ``missed``: how often a request had no answer, and the last error, by key. ``spent``: the usage
    without an answer.
    """

    asks_again = True
    """Whether a resumed run can repeat a bad answer."""

    def __init__(self, options: Options) -> None:
        self.missed: dict[str, tuple[int, MissingAnswer]] = {}
        self.spent = Usage()
        self._options = options
        self._keys: set[bytes] = set()
        self._out: NewFile | None = None

    def refusal(self, key: str) -> FormatRefused | None:
        """Return the refusal of a request in the results, or None."""
        return self.missed[key][1].refusal if key in self.missed else None

    def ask(self, key: str, body: Mapping[str, Any], dollars: float) -> NoReturn:
        """Take a request that may cost ``dollars`` dollars, unless it is in already.

        Raises:
            Pending: the answer comes later.
            CallFailed: there will be no answer.
        """
        times, missed = self.missed.get(key, (0, MissingAnswer("")))
        if times and (not missed.may_pass or times >= _ATTEMPTS):
            last = f" (the last of {times} batches)" if missed.may_pass else ""
            raise CallFailed(missed.message + last)
        if (short := bytes.fromhex(key)[:12]) not in self._keys:
            line = {"custom_id": key, "method": "POST", "url": choose_batch_url(self._options)}
            self._write(key, to_json({**line, "body": body}) + b"\n", dollars)
            self._keys.add(short)
        raise Pending("asked in a batch")

    @abstractmethod
    def _write(self, key: str, line: bytes, dollars: float) -> None:
        """Write a line for OpenAI's Batch API or ``vllm run-batch``; raises CallFailed."""

    def close(self) -> None:
        """Delete requests that were not sent."""
        if self._out:
            self._out.drop()


class FileOutbox(Outbox):
    """Writes requests into one file; without a file, it takes no request.

    Raises:
        AnnotatorError: the file cannot be written.
    """

    asks_again = False

    def __init__(self, file: Path | None, options: Options) -> None:
        super().__init__(options)
        self.file = file
        self._out = NewFile(file, private=True) if file else None

    @property
    def written(self) -> int:
        """The number of requests in the file."""
        return len(self._keys)

    def _write(self, key: str, line: bytes, dollars: float) -> None:
        if self._out is None:
            message = (
                "there is no answer to it in the batch results; answers to requests of another"
                " version of the rubric or with other settings do not count"
            )
            raise Unanswered(self.missed[key][1].message if key in self.missed else message)
        self._out.write(line)

    def keep(self) -> None:
        """Move the complete file to its path; raises AnnotatorError if it cannot be written."""
        if self._out:
            self._out.keep()


async def _find_batch(client: Any, mark: Mapping[str, str]) -> str:
    """Return the id of the batch with this mark, or ""."""
    async for batch in client.batches.list(limit=100):
        if (batch.metadata or {}).items() >= mark.items():
            return str(batch.id)
    return ""


@dataclass
class BatchJob:
    """A batch and its progress, as saved in ``state.json``.

    ``mark`` goes out with it, to find it again.
    """

    n: int
    mark: str
    questions: int = 0
    file_id: str = ""
    batch_id: str = ""
    done: bool = False


@dataclass
class _Batches:
    """The content of ``state.json``; ``missed``: the failed attempts and the error, by key."""

    jobs: list[BatchJob]
    missed: dict[str, tuple[int, MissingAnswer]]


_STATE_ADAPTER = TypeAdapter(_Batches)


class BatchOutbox(Outbox):
    """Sends the requests of one model as batches; all files are in ``folder``.

    The process may be killed at any moment: the run's id and the batch's mark find a batch again
    that was created and not saved. ``spent`` counts calls without an answer; ``note`` saves it.
    """

    def __init__(
        self,
        folder: Path,
        run: str,
        options: Options,
        cache: AnswerCache,
        price: Price | None,
        budget: Budget | None,
        notice: Callable[[str], None],
        note: Callable[[], None],
        hours: float,
    ) -> None:
        super().__init__(options)
        self.folder = folder
        self._hours = hours
        self._budget = budget
        self._run = run
        self._cache = cache
        self._price = price
        self._notice = notice
        self._note = note
        self._size = 0
        self._estimated_dollars = 0.0
        with explain_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        state, file = _Batches([], {}), folder / _STATE
        try:
            with explain_unreadable(file), suppress(FileNotFoundError):
                state = _STATE_ADAPTER.validate_json(read_bounded(file))
        except ValidationError as error:
            raise AnnotatorError(f"{file}: damaged: {describe_validation(error)}") from error
        self._jobs = state.jobs
        # What was given up is asked again by a resumed run.
        self.missed = {
            key: (n, missing)
            for key, (n, missing) in state.missed.items()
            if n < _ATTEMPTS and missing.may_pass
        }

    def _save(self) -> None:
        state = _STATE_ADAPTER.dump_json(_Batches(self._jobs, self.missed))
        write_file(self.folder / _STATE, state, private=True)

    def _write(self, key: str, line: bytes, dollars: float) -> None:
        full = self._jobs and self._jobs[-1].questions >= _MAX_REQUESTS
        if self._out is None or full or self._size + len(line) > _MAX_BYTES:
            self._keep()
            last = max((job.n for job in self._jobs), default=0)
            self._jobs.append(BatchJob(last + 1, uuid.uuid4().hex))
            self._size = 0
            self._out = NewFile(self._questions(self._jobs[-1]), private=True)
        self._out.write(line)
        self._size += len(line)
        self._estimated_dollars += dollars
        self._jobs[-1].questions += 1

    def _keep(self) -> None:
        if self._out:
            self._out.keep()
            self._out = None

    def _questions(self, job: BatchJob) -> Path:
        return self.folder / f"{job.n}.jsonl"

    async def settle(self) -> None:
        """Send all requests, wait for the batches, and put the answers into the cache.

        Raises:
            BudgetReached: the requests may cost more than is left; none was sent.
            JudgeStopped: the server refuses a batch, or they do not end in time.
        """
        self._keep()
        dollars, self._estimated_dollars = self._estimated_dollars, 0.0
        if self._budget and dollars:
            self._budget.check(dollars)
            self._budget.spent += dollars  # set aside, also against other models of a panel
        from annotator.judges.llm.endpoint import open_client

        options = self._options
        key = read_api_key(options.base_url, options.api_key_env)
        tries = options.attempts + 1
        self._secrets = Secrets.of(options, key)
        client = open_client(options, key, connections=4, attempts=tries, batches=True)
        try:
            with self._secrets.kept():
                await self._explain_exchange(client)
        finally:
            await client.close()
        if self._budget:
            self._budget.spent -= dollars  # what it did cost was added
        self._keys.clear()

    async def _explain_exchange(self, client: Any) -> None:
        """Exchange all batches; raises as :meth:`settle`."""
        import httpx2
        from openai import APIConnectionError, APIStatusError

        from annotator.judges.llm.endpoint import Transient, describe_redirect

        try:
            self._save()
            async with asyncio.timeout(self._hours * 3600):
                await self._exchange(client)
        except TimeoutError as error:
            raise JudgeStopped(
                f"the batches have not ended in {self._hours:g} h (batch_wait in a judge file)"
                f"{self._resume_hint}"
            ) from error
        except APIStatusError as error:
            reason = describe_redirect(error) or self._redact(error.message, 300)
            if error.status_code == 404 and self._resume_hint:
                reason += f"; where it is gone, delete {self.folder} to ask again with --resume"
            raise JudgeStopped(f"the server refuses the batch: {reason}") from error
        except (APIConnectionError, httpx2.RequestError, Transient) as error:
            cause = self._redact(error.__cause__ or error, 200)
            raise JudgeStopped(f"connection failed: {cause}{self._resume_hint}") from error
        except OSError as error:
            raise AnnotatorError(f"{self.folder}: {error.strerror or error}") from error
        except (AttributeError, TypeError, ValueError, RecursionError) as error:
            # The SDK checks nothing.
            message = f"{self._options.base_url} does not answer as the Batch API does: {error}"
            raise JudgeStopped(self._redact(message, 300) + self._resume_hint) from error

    def _redact(self, message: object, limit: int) -> str:
        """Return a server's words on one line, without the secrets."""
        return sanitize_line(self._secrets.redact(hide_url_secrets(str(message))), limit)

    @property
    def _resume_hint(self) -> str:
        """A hint for the user if batches are still running, else ""."""
        if not any(job.batch_id and not job.done for job in self._jobs):
            return ""
        return "; what was sent goes on there, the same command with --resume takes it up"

    async def _exchange(self, client: Any) -> None:
        for job in self._jobs:
            if not job.done:
                await self._send(client, job)
        for job in self._jobs:
            if not job.done:
                await self._collect(client, job)

    async def _send(self, client: Any, job: BatchJob) -> None:
        """Create the batch of a job, unless the server has it already."""
        from openai import APIConnectionError, InternalServerError

        mark = {"annotator_run": self._run, "annotator_batch": job.mark}
        if job.file_id and not job.batch_id:  # stopped between the two: was it created?
            job.batch_id = await _find_batch(client, mark)
        if job.batch_id:
            return
        file = await client.files.create(file=self._questions(job), purpose="batch")
        job.file_id = file.id
        self._save()
        create = client.with_options(max_retries=0).batches.create(
            input_file_id=job.file_id,
            endpoint=choose_batch_url(self._options),
            completion_window="24h",
            metadata=mark,
        )
        try:
            job.batch_id = (await create).id
        except (APIConnectionError, InternalServerError):  # the answer may be all that is lost
            job.batch_id = await _find_batch(client, mark)
            if not job.batch_id:
                raise
        self._save()
        self._notice(f"batch {job.batch_id}: {job.questions} questions to {self._options.model}")

    async def _collect(self, client: Any, job: BatchJob) -> None:
        """Wait for a batch to end, and take its answers."""
        batch, status = await self._wait_for_end(client, job)
        requests = self._read_requests(job)
        batch_import = BatchImport(self._cache, self._options, self._price, self._secrets, requests)
        for name, file_id in (("output", batch.output_file_id), ("errors", batch.error_file_id)):
            if file_id:
                await self._download(client, file_id, batch_import, f"the {name} of {job.batch_id}")
        self.spent += batch_import.lost
        if batch_import.problem:
            self._notice(f"batch {job.batch_id}: left out: {batch_import.problem}")
            if not batch_import.results:  # another download may bring what was answered
                raise JudgeStopped(
                    f"batch {job.batch_id}: no result can be read{self._resume_hint}"
                )
        errors = batch_import.errors
        if status in ("failed", "cancelled") and not (batch.output_file_id or errors):
            self._jobs.remove(job)  # nothing of it was answered: a resumed run asks again
            self._save()
            problems = batch.errors.data if batch.errors and batch.errors.data else []
            reasons = "; ".join(str(problem.message) for problem in problems[:3]) or "no words"
            raise JudgeStopped(f"batch {job.batch_id} has {status}: {self._redact(reasons, 300)}")
        for key in requests:
            if self._cache.get(key):
                continue
            if key not in errors:  # it may have been paid
                self.spent += Usage(calls=1, unreported_calls=1)
                batch_import.dollars += requests[key].dollars
            missing = errors.get(key, MissingAnswer(f"no answer in the batch ({status})"))
            self.missed[key] = (self.missed.get(key, (0,))[0] + 1, missing)
        if self._budget:
            self._budget.spent += batch_import.dollars
        self._note()  # before the batch is done: those of other models may go on for hours
        job.done = True
        self._save()

    async def _wait_for_end(self, client: Any, job: BatchJob) -> tuple[Any, str]:
        """Return a batch that has ended, and how."""
        pause, before = _FIRST_POLL, ""
        while True:
            batch = await client.batches.retrieve(job.batch_id)
            status = self._redact(batch.status, 60)
            if status in _ENDED:
                return batch, status
            counts = batch.request_counts
            now = f"batch {job.batch_id}: {status}"
            now += f", {counts.completed} of {counts.total}" if counts else ""
            if now != before:
                self._notice(sanitize_line(now, 200))
            before = now
            await asyncio.sleep(min(pause, self._options.max_wait or pause))
            pause = min(pause * 1.5, _LAST_POLL)

    async def _download(
        self, client: Any, file_id: str, batch_import: BatchImport, name: str
    ) -> None:
        """Import a file of results, line by line."""
        size, n, rest = 0, 0, b""
        async with client.files.with_streaming_response.content(file_id) as content:
            async for chunk in content.iter_bytes():
                size += len(chunk)
                if size > _MAX_DOWNLOAD:
                    raise JudgeStopped(
                        f"the results of a batch are larger than {_MAX_DOWNLOAD >> 30} GB: no"
                        " answers to these questions; ask without --batch"
                    )
                *lines, rest = (rest + chunk).split(b"\n")
                rest = rest[: LONGEST_RESPONSE + 1]
                for line in lines:
                    n += 1
                    batch_import.take(line, f"{name}, line {n}")
        batch_import.take(rest, f"{name}, line {n + 1}")

    def _read_requests(self, job: BatchJob) -> dict[str, SentRequest]:
        """Return the requests of a batch, by key."""
        sent, file, cap = {}, self._questions(job), self._options.max_output_tokens
        try:
            with explain_unreadable(file), open_checked(file) as lines:
                for line in read_bounded_lines(lines):
                    fields, tokens = json.loads(line), int(len(line) / BUDGET_BYTES_PER_TOKEN)
                    dollars = sum(estimate_dollars(self._price, tokens, cap))
                    request = SentRequest(count_minimum_tokens(fields["body"]), dollars)
                    sent[str(fields["custom_id"])] = request
        except NO_RESULT as error:
            raise AnnotatorError(f"{file}: damaged: not the questions of a batch") from error
        return sent
