"""Questions that are asked together and answered later: files in the form of OpenAI's Batch API."""

import asyncio
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from pydantic_core import to_json

from annotator.annotations import Usage
from annotator.errors import AnnotatorError, JudgeStopped, Pending
from annotator.files import NewFile, explain_errors, write_file
from annotator.judges.llm.budget import Budget
from annotator.judges.llm.cache import AnswerCache
from annotator.judges.llm.prices import Price, read_cost
from annotator.judges.llm.reply import CallFailed, Reply, Unanswered, read_reply, too_long
from annotator.judges.llm.settings import Options, api_key
from annotator.regular import lines_of, open_regular, read_regular
from annotator.text import one_line, without_url_secrets

_STATE = "state.json"
_MOST_REQUESTS = 50_000  # in one file: OpenAI's limits
_MOST_BYTES = 190_000_000
_ATTEMPTS = 3  # how often a question is asked whose answer does not come
_FIRST_POLL, _LAST_POLL = 1.0, 60.0  # seconds between two looks at a batch
_ENDED = ("completed", "failed", "expired", "cancelled")
_NO_RESULT = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


def request_line(key: str, body: Mapping[str, Any], url: str) -> bytes:
    """Return one question as a line of a batch file, which ``vllm run-batch`` reads, too."""
    line = {"custom_id": key, "method": "POST", "url": url, "body": body}
    return to_json(line) + b"\n"


def batch_url(options: Options) -> str:
    """Return what the lines of a batch are addressed to."""
    url = options.spoken.batch_url
    return url.replace("chat/completions", "responses") if options.api == "responses" else url


class FileOutbox:
    """Writes questions into one file, which is there once it is kept, or, without one, takes none.

    Raises:
        AnnotatorError: the file cannot be written.
    """

    asks_again = False
    spent = Usage()

    def __init__(self, file: Path | None, options: Options) -> None:
        self.file = file
        self._url = batch_url(options)
        self.written = 0
        self.errors: dict[str, str] = {}  # what the results say instead of an answer, by key
        self._asked: set[bytes] = set()
        busy = f"{file}: another run is writing it: wait for its end, or name another --batch-file"
        self._out = NewFile(file, busy=busy) if file else None

    def ask(self, key: str, body: Mapping[str, Any], most: float) -> NoReturn:
        """See :meth:`annotator.judges.llm.session.Outbox.ask`."""
        if self._out is None:
            raise Unanswered(self.errors.get(key, "there is no answer to it in the batch results"))
        if (short := bytes.fromhex(key)[:12]) not in self._asked:
            self._asked.add(short)
            self._out.write(request_line(key, body, self._url))
            self.written += 1
        raise Pending("asked in a file")

    def keep(self) -> None:
        """Bring the file to its place: every question is in it.

        Raises:
            AnnotatorError: it cannot be written.
        """
        if self._out:
            self._out.keep()

    def close(self) -> None:
        """Drop a file that was not kept."""
        if self._out:
            self._out.drop()


async def _find_batch(client: Any, mark: Mapping[str, str]) -> str:
    """Return the id of the batch that was created with this mark, or ""."""
    async for batch in client.batches.list(limit=100):
        if (batch.metadata or {}).items() >= mark.items():
            return str(batch.id)
    return ""


@dataclass(frozen=True, slots=True)
class Result:
    """One line of batch results. ``words``: why it is no answer, "" if it is one."""

    key: str
    body: object
    words: str = ""
    status: int = 200
    fields: Mapping[str, object] = field(default_factory=dict)

    @property
    def too_long(self) -> Reply | None:
        """The reply that it is if it says that the prompt was too long."""
        if not self.words or self.status in (408, 409, 429) or self.status >= 500:
            return None
        code = str(self.fields.get("code") or self.fields.get("type") or "")
        return too_long(self.words, self.fields, code, self.status == 413)


def read_results(file: Path) -> Iterator[Result]:
    """Yield the lines of a file of batch results, OpenAI's or those of ``vllm run-batch``.

    Raises:
        AnnotatorError: the file cannot be read, or a line is no result (with its number).
    """
    try:
        with open_regular(file) as lines:
            for n, line in enumerate(lines_of(lines), 1):
                if not line.strip():
                    continue
                try:
                    yield _result(json.loads(line))
                except _NO_RESULT as wrong:
                    what = "expected a line of batch results with custom_id and response"
                    raise AnnotatorError(f"{file}, line {n}: {what}") from wrong
    except OSError as error:
        raise AnnotatorError(f"{file}: {error.strerror or error}") from error


def _result(value: dict[str, Any]) -> Result:
    key, response = str(value["custom_id"]), value.get("response") or {}
    status, body = int(response.get("status_code") or 200), response.get("body")
    if status == 200 and body is not None and not value.get("error"):
        return Result(key, body)
    given = body.get("error", body) if isinstance(body, dict) and status != 200 else None
    given = given or value.get("error")
    while isinstance(given, dict) and isinstance(given.get("error"), dict):
        given = given["error"]
    fields = given if isinstance(given, dict) else {}
    reason = one_line(str(fields.get("message") or fields.get("code") or given or "no answer"), 300)
    return Result(
        key, body, f"HTTP {status}: {reason}" if status != 200 else reason, status, fields
    )


@dataclass
class Ingested:
    """What a file of batch results held: errors by key, what they used, and the dollars for its
    answers.
    """

    errors: dict[str, str] = field(default_factory=dict)
    lost: Usage = field(default_factory=Usage)
    dollars: float = 0.0


def ingest(file: Path, cache: AnswerCache, options: Options, price: Price | None) -> Ingested:
    """Put the answers of a file of batch results into ``cache``; what stands there already stays.

    Raises:
        AnnotatorError: as :func:`read_results`.
    """
    ingested = Ingested()
    for result in read_results(file):
        usage, reply, words = Usage(calls=1), result.too_long, result.words
        if not words:
            usage = read_cost(result.body, price, options.spoken)
            try:
                reply = read_reply(result.body)
            except ValueError as wrong:
                words = str(wrong)
        if reply is None:
            ingested.errors[result.key] = words
            ran = result.status != 200 or result.body is not None
            ingested.lost += usage if ran else Usage()  # else it was never asked
            continue
        held = cache.get(result.key, "")
        if held is None or (held.reply, held.usage) != (reply, usage):
            cache.put(result.key, options.model, reply, usage, "")
            ingested.dollars += usage.cost_usd or 0.0
    return ingested


@dataclass
class Job:
    """One batch: its file of questions, and what the server calls it. ``mark`` is sent with it."""

    n: int
    mark: str
    questions: int = 0
    file_id: str = ""
    batch_id: str = ""
    done: bool = False


class BatchOutbox:
    """Questions of one model that go to its endpoint as batches; everything is in ``folder``.

    The process may be killed at any moment. A batch is sent with the run's id and a mark of its
    own, and one whose creation was not noted is found again by them. ``spent``: calls that were not
    answered.
    """

    asks_again = True

    def __init__(
        self,
        folder: Path,
        run: str,
        options: Options,
        cache: AnswerCache,
        price: Price | None,
        budget: Budget | None,
        notice: Callable[[str], None],
    ) -> None:
        self.folder = folder
        self._budget = budget
        self._run = run
        self._options = options
        self._cache = cache
        self._price = price
        self._notice = notice
        self._jobs: list[Job] = []
        self.spent = Usage()
        self._missed: dict[str, tuple[int, str]] = {}  # how often a question was not answered
        self._out: NewFile | None = None
        self._asked: set[bytes] = set()
        self._size = 0
        self._most = 0.0
        with explain_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        try:
            state = json.loads(read_regular(folder / _STATE))
            self._jobs = [Job(**job) for job in state["jobs"]]
            # What was given up is asked again by a resumed run.
            missed = {key: (n, words) for key, (n, words) in state["missed"].items()}
            self._missed = {
                key: attempt for key, attempt in missed.items() if attempt[0] < _ATTEMPTS
            }
        except FileNotFoundError:
            pass
        except (ValueError, KeyError, TypeError) as error:
            raise AnnotatorError(f"{folder / _STATE}: damaged: {error}") from error

    def _save(self) -> None:
        state = {"jobs": [asdict(job) for job in self._jobs], "missed": self._missed}
        write_file(self.folder / _STATE, json.dumps(state))

    def ask(self, key: str, body: Mapping[str, Any], most: float) -> NoReturn:
        """See :meth:`annotator.judges.llm.session.Outbox.ask`."""
        times, words = self._missed.get(key, (0, ""))
        if times >= _ATTEMPTS:
            raise CallFailed(f"{words} (the last of {times} batches)")
        if (short := bytes.fromhex(key)[:12]) not in self._asked:
            self._asked.add(short)
            line = request_line(key, body, batch_url(self._options))
            full = self._jobs and self._jobs[-1].questions >= _MOST_REQUESTS
            if self._out is None or full or self._size + len(line) > _MOST_BYTES:
                self._keep()
                self._out = self._next_file()
            self._out.write(line)
            self._size += len(line)
            self._most += most
            self._jobs[-1].questions += 1
        raise Pending("asked in a batch")

    def close(self) -> None:
        """Drop what was not sent."""
        if self._out:
            self._out.drop()

    def _keep(self) -> None:
        if self._out:
            self._out.keep()
            self._out = None

    def _next_file(self) -> NewFile:
        last = max((job.n for job in self._jobs), default=0)
        self._jobs.append(Job(last + 1, uuid.uuid4().hex))
        self._size = 0
        return NewFile(self._questions(self._jobs[-1]))

    def _questions(self, job: Job) -> Path:
        return self.folder / f"{job.n}.jsonl"

    async def settle(self) -> None:
        """Send what was asked, wait for all batches, and put their answers into the cache.

        Raises:
            BudgetReached: the questions may cost more than is left; none was sent.
            JudgeStopped: the server refuses a batch.
        """
        self._keep()
        most, self._most = self._most, 0.0
        if self._budget and most:
            self._budget.check(most)
            self._budget.spent += most  # set aside, also against other models of a panel
        import httpx2
        from openai import APIConnectionError, APIStatusError

        from annotator.judges.llm.client import open_client

        options = self._options
        key = api_key(options.base_url, options.api_key_env)
        tries = options.attempts + 1
        client = open_client(options, key, connections=4, attempts=tries, batches=True)
        try:
            self._save()
            for job in self._jobs:
                if not job.done:
                    await self._send(client, job)
            for job in self._jobs:
                if not job.done:
                    await self._collect(client, job)
        except APIStatusError as error:
            reason = one_line(str(error.message), 300)
            raise JudgeStopped(f"the server refuses the batch: {reason}") from error
        except (APIConnectionError, httpx2.TransportError) as error:  # cut off while it is read
            cause = one_line(str(error.__cause__ or error), 200)
            sent = any(job.batch_id and not job.done for job in self._jobs)
            there = "; what was sent goes on there, --resume takes it up" if sent else ""
            raise JudgeStopped(f"connection failed: {cause}{there}") from error
        except OSError as error:
            raise AnnotatorError(f"{self.folder}: {error.strerror or error}") from error
        except (AttributeError, TypeError, ValueError) as error:  # the SDK checks nothing
            words = f"{options.base_url} does not answer as the Batch API does: {error}"
            raise JudgeStopped(one_line(without_url_secrets(words), 300)) from error
        finally:
            await client.close()
        if self._budget:
            self._budget.spent -= most  # what it did cost was added
        self._asked.clear()

    async def _send(self, client: Any, job: Job) -> None:
        """Create the batch of a job, unless it is there already: it must not be paid twice."""
        from openai import APIConnectionError, InternalServerError

        mark = {"annotator_run": self._run, "annotator_batch": job.mark}
        if job.file_id and not job.batch_id:  # stopped between the two: was it created?
            job.batch_id = await _find_batch(client, mark)
        if job.batch_id:
            return
        file = await client.files.create(file=self._questions(job), purpose="batch")
        job.file_id = file.id
        self._save()
        try:
            batch = await client.with_options(max_retries=0).batches.create(
                input_file_id=job.file_id,
                endpoint=batch_url(self._options),
                completion_window="24h",
                metadata=mark,
            )
            job.batch_id = batch.id
        except (APIConnectionError, InternalServerError):  # the answer may be all that is lost
            job.batch_id = await _find_batch(client, mark)
            if not job.batch_id:
                raise
        self._save()
        self._notice(f"batch {job.batch_id}: {job.questions} questions to {self._options.model}")

    async def _collect(self, client: Any, job: Job) -> None:
        """Wait for a batch to end, and take its answers."""
        pause, before = _FIRST_POLL, ""
        while (batch := await client.batches.retrieve(job.batch_id)).status not in _ENDED:
            counts = batch.request_counts
            now = f"batch {batch.id}: {batch.status}"
            now += f", {counts.completed} of {counts.total}" if counts else ""
            if now != before:
                self._notice(now)
            before = now
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LAST_POLL)
        errors: dict[str, str] = {}
        for name, file_id in (("output", batch.output_file_id), ("errors", batch.error_file_id)):
            if file_id:
                file = self.folder / f"{job.n}-{name}.jsonl"
                async with client.files.with_streaming_response.content(file_id) as content:
                    with NewFile(file) as out:
                        async for chunk in content.iter_bytes():
                            out.write(chunk)
                ingested = ingest(file, self._cache, self._options, self._price)
                errors |= ingested.errors
                self.spent += ingested.lost
                if self._budget:
                    self._budget.spent += ingested.dollars
        if batch.status in ("failed", "cancelled") and not (batch.output_file_id or errors):
            self._jobs.remove(job)  # nothing of it was answered: a resumed run asks again
            self._save()
            problems = batch.errors.data if batch.errors and batch.errors.data else []
            reasons = "; ".join(str(problem.message) for problem in problems[:3]) or "no words"
            raise JudgeStopped(f"batch {batch.id} has {batch.status}: {one_line(reasons, 300)}")
        for key in self._unanswered(job):
            words = errors.get(key, f"no answer in the batch ({batch.status})")
            self._missed[key] = (self._missed.get(key, (0, ""))[0] + 1, words)
        job.done = True
        self._save()

    def _unanswered(self, job: Job) -> Iterator[str]:
        with open_regular(self._questions(job)) as lines:
            for line in lines:
                key = str(json.loads(line)["custom_id"])
                kept = self._cache.get(key, "")
                if not (kept and kept.reply):
                    yield key
