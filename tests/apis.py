"""What :class:`tests.openai_server.OpenAIServer` needs to speak another API than chat."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Fields = dict[str, Any]


@dataclass(frozen=True)
class Api:
    """``wrong``: what is said to a request that the API does not take, "" if it does; ``as_chat``:
    a request, and the path that it came by, as a chat completion's; ``as_answer``: a chat
    completion as it answers.
    """

    wrong: Callable[[Fields], str]
    as_chat: Callable[[Fields, str], Fields]
    as_answer: Callable[[Fields], Fields]
