"""How servers say that a prompt is too long, and by how much."""

import re

from annotator.judges.llm.reply import Reply

_OVERFLOW = re.compile(
    r"context.{0,12}(length|size|window|exceed)|too (long|many tokens)|maximum.{0,40}tokens"
    r"|exceeds?.{0,40}(context|token)|longer than the maximum",
    re.IGNORECASE,
)
_CERTAIN = re.compile(r"range of input length|maximum prompt length", re.IGNORECASE)
_SETTING = re.compile(
    r"(unsupported|unknown|unrecognized|invalid).{0,20}parameter|max_\w*tokens\W.{0,30}too large",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"(?:context|model|sequence|maximum prompt)\W+(?:length|size|window|len)\D{0,30}?(\d{3,9})"
    r"|(\d{3,9}) maximum|input length should be \[\d+, ?(\d{1,9})",
    re.IGNORECASE,
)
_ASKED = re.compile(
    r"(?:requested|resulted in|has|contains|prompt \(length|too long:|you sent)\D{0,12}(\d{3,9})",
    re.IGNORECASE,
)


def too_long(words: str, body: object, code: str = "", certain: bool = False) -> Reply | None:
    """Return the reply that an error is if it says that the prompt is too long, else None.

    Args:
        words: what the server says.
        body: the error's fields, if it has any (llama.cpp gives the numbers there).
        code: the server's own name of the error.
        certain: whether its status alone says so.
    """
    text = f"{code} {words}"
    overflow = _OVERFLOW.search(text) and not _SETTING.search(words)
    if not (certain or overflow or _CERTAIN.search(text)):
        return None
    limit, asked = _lengths(body, words)
    said = f"the trace is too long for the model: {words}"
    return Reply(said, too_long=True, limit=limit, asked=asked)


def _lengths(body: object, said: str) -> tuple[int, int]:
    """Return the tokens that the model can read and those that it was sent; 0 if not said."""
    fields = body if isinstance(body, dict) else {}
    limit, asked = fields.get("n_ctx"), fields.get("n_prompt_tokens")
    if isinstance(limit, int) and isinstance(asked, int) and 0 < limit < asked < 10**8:
        return limit, asked
    found, sent = _LIMIT.search(said), _ASKED.search(said)
    return (
        int(next(filter(None, found.groups()))) if found else 0,
        int(sent.group(1)) if sent else 0,
    )
