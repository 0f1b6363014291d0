"""Answers stored on this machine, so that no request is paid twice."""

import hashlib
import os
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from json import dumps, loads
from pathlib import Path

from annotator.base.errors import AnnotatorError
from annotator.base.files import explain_unreadable, open_checked
from annotator.base.remote import get_cache_folder
from annotator.base.text import sanitize_line
from annotator.judges.llm.response import ModelResponse
from annotator.rubrics.annotations import Usage

FORMAT_KEY = "mode "  # prefix of the keys of response formats
_NO_FORMAT_KEY = f"key not like '{FORMAT_KEY}%' and reply != ''"
ANSWERS = "answers.sqlite"  # the answers to a run in batches, in its directory

# What a file can lead to that is not what we wrote.
_DAMAGED = (
    *(sqlite3.Error, ValueError, TypeError, KeyError, AttributeError, ArithmeticError),
    RecursionError,
)
_PATIENCE = 2.0  # seconds to wait for a lock

_TABLE = """
create table if not exists answers (
    key text primary key, model text not null, reply text not null, usage text not null,
    run text not null, trace text not null, at integer not null
) without rowid
"""


def get_cache_file() -> Path:
    """Return the shared cache file: ANNOTATOR_CACHE, else in the user's cache folder."""
    if path := os.environ.get("ANNOTATOR_CACHE"):
        return Path(path)
    return get_cache_folder() / "answers.sqlite"


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer in the cache, and its usage.

    ``unbilled``: it came in a batch of this run, and no annotation has its cost yet.
    """

    response: ModelResponse
    usage: Usage
    unbilled: bool


class AnswerCache:
    """Answers in one SQLite file, shared by any number of processes.

    If the file cannot be used, ``problem`` says why, and nothing more is found or stored.

    Args:
        file: the SQLite file.
        run: the id of the run in batches; :meth:`unbilled` counts its answers.
        vital: raise instead of setting ``problem``.
        behind: a second file, only read, for answers that ``file`` lacks.
        read_only: never write.

    Raises:
        AnnotatorError: the file cannot be used, and it is vital.
    """

    def __init__(
        self,
        file: Path,
        run: str = "",
        *,
        vital: bool = False,
        behind: Path | None = None,
        read_only: bool = False,
    ) -> None:
        self.file = file
        exists = behind and behind.exists()
        self._behind = AnswerCache(behind, read_only=True) if behind and exists else None
        self.problem: str | None = None
        self._run = run
        self._vital = vital
        self._base: sqlite3.Connection | None = None
        try:
            if read_only:
                open_checked(file).close()
                self._base = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
            else:
                self._base = _open(file, alone=behind is not None)
        except (OSError, *_DAMAGED) as error:
            self._handle_error(error)

    def get(self, key: str, judge_call: str = "") -> KeptAnswer | None:
        """Return the answer with this key, or None.

        The first ``judge_call`` that gets an answer out of a batch is billed for it.
        """
        if self._base is None:
            return None
        try:
            row = self._base.execute(
                "select reply, usage, run, trace from answers where key = ? and reply != ''", (key,)
            ).fetchone()
            if row is None:
                return self._behind.get(key) if self._behind else None
            text, used, run, billed = map(str, row)
            response, usage = ModelResponse.from_json(text), _read_usage(used, key, text)
        except _DAMAGED as error:
            self._handle_error(error)
            return None
        if not (judge_call and self._run and run == self._run):
            return KeptAnswer(response, usage, False)
        if not billed:
            self._write("update answers set trace = ? where key = ?", [(judge_call, key)])
        return KeptAnswer(response, usage, billed in ("", judge_call))

    def put(self, key: str, model: str, response: ModelResponse, usage: Usage) -> None:
        """Store an answer."""
        text, used = response.to_json(), asdict(usage)
        used["check"] = _compute_checksum(key, text, used)
        row = (key, model, text, dumps(used), self._run, "", time.time())
        self._write("insert or replace into answers values (?, ?, ?, ?, ?, ?, ?)", [row])

    def forget(self, keys: Iterable[str]) -> None:
        """Delete answers that led to a failure, so that they are requested again."""
        self._write("delete from answers where key = ?", [(key,) for key in keys])

    def bill(self, keys: Iterable[str]) -> None:
        """Mark the cost of these answers as recorded."""
        if self._run:
            self._write("update answers set run = '' where key = ?", [(key,) for key in keys])

    def unbilled(self) -> Usage:
        """Return the cost of this run's answers that no annotation has yet."""
        if self._base is None or not self._run:
            return Usage()
        try:
            rows = self._base.execute("select usage from answers where run = ?", (self._run,))
            return sum((_read_usage(str(used)) for (used,) in rows), start=Usage())
        except _DAMAGED as error:
            self._handle_error(error)
            return Usage()

    def absorb(self, file: Path) -> None:
        """Copy the answers that are missing here from another file; ignore a damaged file.

        Raises:
            AnnotatorError: it is no regular file, or may not be read.
        """
        if not os.path.lexists(file):
            return
        with explain_unreadable(file):
            open_checked(file).close()
        if self._base is None:
            return
        with suppress(*_DAMAGED):
            self._base.execute("attach database ? as other", (str(file),))
            try:
                with self._base:
                    self._base.execute("insert or ignore into answers select * from other.answers")
            finally:
                self._base.execute("detach database other")

    def _write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        if self._base is None or not rows:
            return
        try:
            with self._base:
                self._base.executemany(statement, rows)
        except _DAMAGED as error:
            self._handle_error(error)

    def _handle_error(self, error: Exception) -> None:
        self.problem = f"the answer cache {self.file} cannot be used: {sanitize_line(str(error))}"
        if "locked" in str(error) and not self._vital:
            return  # by another process, and not for ever: this one answer is not looked up or kept
        self.close()
        if self._vital:
            damaged = not isinstance(error, OSError | sqlite3.OperationalError)
            advice = "; move it away, and what was answered is asked again" if damaged else ""
            raise AnnotatorError(self.problem + advice) from error

    def close(self) -> None:
        """Close the file."""
        if self._behind:
            self._behind.close()
        if self._base is not None:
            self._base.close()
            self._base = None


def _read_usage(text: str, key: str = "", response: str = "") -> Usage:
    """Return the cost of an answer; raises ValueError or TypeError if it is not what was kept."""
    fields = loads(text)
    check = fields.pop("check", None)
    if check and response and check != _compute_checksum(key, response, fields):
        raise ValueError("an answer in it is not what was kept")
    if "cost_usd" not in fields:
        raise ValueError("what an answer in it cost is not what was kept")
    return Usage.from_fields(fields)


def _compute_checksum(key: str, response: str, usage: Mapping[str, object]) -> str:
    """Return the check sum of an answer and its usage."""
    return hashlib.blake2b(dumps([key, response, usage]).encode(), digest_size=8).hexdigest()


def _open(file: Path, *, alone: bool = False) -> sqlite3.Connection:
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists():
        open_checked(file).close()
    else:  # prompts' answers quote what may be private
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    base = sqlite3.connect(file, timeout=_PATIENCE)
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            _prepare(base, "delete" if alone else "wal")
            return base
        except Exception as error:
            # Where several connections open a new file at once SQLite does not wait, as it does
            # elsewhere, but calls it locked.
            if "database is locked" not in str(error) or time.monotonic() > until:
                base.close()
                raise
        time.sleep(0.02)


def _prepare(base: sqlite3.Connection, journal: str) -> None:
    # An answer outlives a killed process; after a power cut the last few may be asked for again.
    # A log that several processes share needs one machine; a file of one process may lie anywhere.
    base.execute(f"pragma journal_mode = {journal}")
    base.execute("pragma synchronous = normal")
    base.execute(_TABLE)


@dataclass(frozen=True, slots=True)
class CachedModel:
    """The number of answers of one model in a cache, with the oldest and newest time."""

    model: str
    answers: int
    oldest: float
    newest: float


def list_models(file: Path) -> list[CachedModel]:
    """Return the models in a cache; nothing if the file does not exist.

    Raises:
        AnnotatorError: the file is no answer cache.
    """
    try:
        open_checked(file).close()
        with closing(_open(file)) as base:
            where = f"from answers where {_NO_FORMAT_KEY} group by model order by model"
            rows = base.execute(f"select model, count(*), min(at), max(at) {where}")
            return [CachedModel(*row) for row in rows]
    except FileNotFoundError:
        return []
    except (OSError, *_DAMAGED) as error:
        raise AnnotatorError(f"{file}: not an answer cache: {sanitize_line(str(error))}") from error


def clear(file: Path, model: str | None = None) -> int:
    """Delete the answers of one model, or all; return their number.

    Raises:
        AnnotatorError: the file is no answer cache, or cannot be written.
    """
    of_model, values = ("model = ?", (model,)) if model else ("true", ())
    try:
        open_checked(file).close()
        with closing(_open(file)) as base:
            with base:
                where = f"from answers where {of_model}"
                count = f"select count(*) {where} and {_NO_FORMAT_KEY}"
                dropped: int = base.execute(count, values).fetchone()[0]
                base.execute(f"delete {where}", values)
            base.execute("vacuum")
            return dropped
    except FileNotFoundError:
        return 0
    except (OSError, *_DAMAGED) as error:
        raise AnnotatorError(f"{file}: cannot be cleared: {sanitize_line(str(error))}") from error
