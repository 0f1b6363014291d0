"""Requests of an export, posted to a server: with retries, and no score twice."""

import hashlib
import json
import os
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import httpx2
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt
from tenacity.wait import wait_random_exponential

from annotator.base.errors import AnnotatorError
from annotator.base.files import LineLog, open_checked
from annotator.base.text import dump_json, format_count, hide_url_secrets, sanitize_line
from annotator.exports.scores import Record, Target
from annotator.judges.llm.redact import Secrets

_ATTEMPTS, _LONGEST_WAIT = 5, 30.0  # seconds
_HOPELESS = 20  # so many traces refused before a score is accepted: the address is wrong
_REFUSED = frozenset((400, 404, 409, 413, 422))  # about the records, not about the server


@dataclass(slots=True)
class Sent:
    """How many scores a server accepted, now and ``before``; the refused ones with the reason."""

    accepted: int = 0
    before: int = 0
    refused: list[tuple[str, str, str]] = field(default_factory=list)  # name, trace, reason


class _Postponed(Exception):
    """A failure that may pass."""


def send_requests(file: Path, target: Target, url: str, key_env: str | None = None) -> Sent:
    """Post each line of a file; ``FILE.sent`` keeps which scores the server has accepted.

    A refused request is divided until the refused records are by themselves.

    Args:
        file: as :func:`annotator.exports.scores.write_requests` writes it.
        target: the tool at the address.
        url: of the server; the path of requests is added.
        key_env: the environment variable with the key; default: the tool's usual ones.

    Raises:
        AnnotatorError: the server cannot be reached, refuses the key, or accepts nothing.
    """
    url = url.rstrip("/")
    name, auth, headers, secrets = _find_key(target, key_env)
    sent = Sent()
    with (
        LineLog(file.with_name(f"{file.name}.sent"), durable=False, private=True) as log,
        httpx2.Client(auth=auth, headers=headers, timeout=60) as client,
        secrets.kept(),
        open_checked(file) as lines,
    ):
        log.cut_torn()
        accepted = set(log.read().split())
        for line in lines:
            records = target.unwrap(json.loads(line))
            pending = [record for record in records if _stamp(url, record) not in accepted]
            sent.before += len(records) - len(pending)
            for batch, refused in _post_all(client, url, target, pending, name):
                for record in batch:
                    if reason := refused.get(record.get("id", "")) or refused.get(""):
                        reason = sanitize_line(secrets.redact(reason), 200)
                        sent.refused.append((*target.identify(record), reason))
                    else:
                        log.append(_stamp(url, record) + b"\n")
                        sent.accepted += 1
                rejects_all = not (sent.accepted or sent.before)
                if rejects_all and len({trace for _, trace, _ in sent.refused}) >= _HOPELESS:
                    raise AnnotatorError(
                        f"{hide_url_secrets(url)} refused the first {len(sent.refused)} scores:"
                        f" {sent.refused[0][2]}. Are the address and the traces' ids right?"
                    )
    return sent


def _stamp(url: str, record: Record) -> bytes:
    """Return a hash of an address and a record."""
    return hashlib.sha256(f"{url}\0{dump_json(record)}".encode()).hexdigest().encode()


def _find_key(
    target: Target, key_env: str | None
) -> tuple[str, tuple[str, str] | None, dict[str, str], Secrets]:
    """Return the names of the variables, the user with the key, else headers, and the secrets."""
    names = (key_env,) if key_env else target.key_envs
    key = next((value for name in names if (value := os.environ.get(name))), "")
    user = os.environ.get(target.user_env, "") if target.user_env else ""
    if key_env and not key:
        raise AnnotatorError(f"--api-key-env {key_env}: this environment variable is not set")
    if not (key.isascii() and key.isprintable()):
        raise AnnotatorError(
            f"the key in {' or '.join(names)} holds characters that no key can have"
        )
    auth = (user, key) if user and key else None
    headers = {"Authorization": f"Bearer {key}"} if key and not auth else {}
    basic = b64encode(f"{user}:{key}".encode()).decode()
    needed = " and ".join(filter(None, (target.user_env, " or ".join(names))))
    return needed, auth, headers, Secrets([key, user, basic])


def _post_all(
    client: httpx2.Client, url: str, target: Target, records: Sequence[Record], key: str
) -> Iterator[tuple[Sequence[Record], dict[str, str]]]:
    """Yield records that were posted together, with the reasons by id of the refused ones; the id
    "" is for all.
    """
    batches = [records] if records else []
    while batches:
        batch = batches.pop()
        response = _post(client, url, target, batch)
        status, reason = response.status_code, f"HTTP {response.status_code}: {response.text}"
        try:
            answer = json.loads(response.text) if response.is_success else None
        except ValueError:  # a page to log in at, say
            answer = None
        if status in _REFUSED and len(batch) > 1:
            half = len(batch) // 2
            batches += [batch[half:], batch[:half]]
        elif status in _REFUSED:
            yield batch, {"": reason}
        elif isinstance(answer, dict):
            yield batch, dict(target.find_refused(answer))
        else:
            hint = f". Set {key}" if status in (401, 403) else ""
            raise AnnotatorError(f"{hide_url_secrets(url)}: {sanitize_line(reason, 200)}{hint}")


def _post(
    client: httpx2.Client, url: str, target: Target, batch: Sequence[Record]
) -> httpx2.Response:
    """Return the answer to a request, after retries."""
    trace_id = quote(target.identify(batch[0])[1], safe="")
    address = f"{url}{target.path.replace('{trace_id}', trace_id)}"
    headers = {"Content-Type": "application/json"}

    retrying = Retrying(
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_random_exponential(0.5, _LONGEST_WAIT),
        retry=retry_if_exception_type(_Postponed),
        reraise=True,
    )
    try:
        return retrying(_try_post, client, address, dump_json(target.wrap(batch)), headers)
    except _Postponed as error:
        rest = format_count(len(batch), "score")
        raise AnnotatorError(
            f"{hide_url_secrets(url)}: gave up after {_ATTEMPTS} tries: {error} ({rest} left in"
            " this request). The same command goes on from there"
        ) from None


def _try_post(
    client: httpx2.Client, address: str, body: str, headers: dict[str, str]
) -> httpx2.Response:
    try:
        response = client.post(address, content=body.encode(), headers=headers)
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
        raise AnnotatorError(f"--url: {sanitize_line(str(error))}") from None
    except httpx2.RequestError as error:
        raise _Postponed(sanitize_line(str(error) or type(error).__name__, 200)) from None
    if response.status_code == 429 or response.status_code >= 500:
        raise _Postponed(f"HTTP {response.status_code}")
    return response
