"""CrewAI's ``output_log_file``: a log as text."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

_BEGIN = re.compile(r'(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d): (?=(?:task_name|task|agent)=")')
_KEY = re.compile(r'(?:^|", )(task_name|task|agent|status|output)="')


def is_log_line(line: str) -> bool:
    """Whether a line begins an entry of such a log."""
    return _BEGIN.match(line) is not None


def read_log(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the entries of a log, each with its timestamp; a text in one may have many lines."""
    entry: list[str] = []
    for line in lines:
        if is_log_line(line) and entry:
            yield _parse_entry("".join(entry))
            entry = []
        entry.append(line)
    if entry:
        yield _parse_entry("".join(entry))


def _parse_entry(text: str) -> dict[str, Any]:
    match = _BEGIN.match(text)
    if match is None:
        return {"text": text}
    parts = _KEY.split(text[match.end() :].rstrip().removesuffix('"'))
    return {"timestamp": match[1], **dict(zip(parts[1::2], parts[2::2], strict=True))}
