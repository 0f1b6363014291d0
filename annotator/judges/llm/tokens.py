"""How long a text is in tokens, without asking anybody."""

from importlib import import_module
from typing import Any

BYTES_PER_TOKEN = 4.0
"""A typical text: 4.0 is the median of 88 real prompts in OpenAI's o200k (2.96 to 4.87)."""
FEWEST_BYTES_PER_TOKEN = 2.9
"""No real prompt was as dense; one that is, is made shorter when the server says so."""
DEAREST_BYTES_PER_TOKEN = 2.5
"""What a budget sets aside must be enough."""


class Tokens:
    """Counts tokens: exactly where the model's own tokenizer is on this machine, else by bytes.

    ``exact`` says which. tiktoken knows OpenAI's models and would download a vocabulary it does not
    have; it is used only if the file is there (in TIKTOKEN_CACHE_DIR or where tiktoken keeps it).
    """

    def __init__(self, model: str) -> None:
        self._encoding = _offline_encoding(model)
        self.exact = self._encoding is not None

    def count(self, text: str) -> int:
        """Return the number of tokens, or what a text of this length usually has."""
        return len(self._encoding.encode_ordinary(text)) if self.exact else typical(text)

    def fits(self, text: str, room: int) -> bool:
        """Whether a text has at most ``room`` tokens; it is only counted where that is in doubt."""
        return at_most(text) <= room or (self.exact and self.count(text) <= room)

    def __str__(self) -> str:
        if self.exact:
            return f"tokens counted by tiktoken ({self._encoding.name})"
        return f"tokens estimated from the length, {BYTES_PER_TOKEN:g} bytes each"


def typical(text: str) -> int:
    """Return the number of tokens that a text of this length usually has."""
    return int(_bytes(text) / BYTES_PER_TOKEN) + 1


def at_most(text: str) -> int:
    """Return a number of tokens that the text hardly exceeds."""
    return int(_bytes(text) / FEWEST_BYTES_PER_TOKEN) + 1


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _offline_encoding(model: str) -> Any:
    """Return tiktoken's encoding for a model if it needs no download, else None."""
    try:
        tiktoken: Any = import_module("tiktoken")
        files: Any = import_module("tiktoken.load")
    except ImportError:
        return None
    download, files.read_file = files.read_file, _refused  # it downloads what it does not find
    try:
        return tiktoken.encoding_for_model(model)
    except (KeyError, OSError):
        return None
    finally:
        files.read_file = download


def _refused(address: str) -> bytes:
    raise OSError(f"{address} is not on this machine")
