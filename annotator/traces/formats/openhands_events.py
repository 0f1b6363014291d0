"""OpenHands: the events of a session, each a file of a folder named ``events``."""

import re

from annotator.traces.files import read_json
from annotator.traces.formats.openhands import converse
from annotator.traces.model import Trace

name = "openhands-events"

_EVENT = re.compile(r"(event-)?(\d+)(-[\w-]+)?\.json")


def owns(file: str) -> bool:
    """Whether a file of this name may be an event."""
    return _EVENT.fullmatch(file) is not None


def claims(folder: str, files: frozenset[str]) -> bool:
    """Whether a folder of this name with these files is a session."""
    return folder == "events" and any(map(owns, files))


def read(folder: str, names: frozenset[str], trace_id: str) -> Trace:
    numbers = {int(match[2]): match[0] for file in names if (match := _EVENT.fullmatch(file))}
    chat = converse([read_json(folder, numbers[n]) for n in sorted(numbers)])
    return chat.trace(name, trace_id, folder)
