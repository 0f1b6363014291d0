"""How long a text is: by the model's own tokenizer where it is on this machine, never by asking."""

import hashlib
import socket
import tempfile
from pathlib import Path

import pytest

from annotator.judges.llm.context import Tokens
from annotator.rubrics import Rubric
from tests.judges.test_llm import judged
from tests.judges.test_long import LONG
from tests.openai_server import OpenAIServer


@pytest.fixture
def vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where tiktoken looks for the vocabulary of gpt-4o; the network is an error."""
    pytest.importorskip("tiktoken", reason="tiktoken is missing: pip install tiktoken")

    def no_network(*_: object, **__: object) -> None:
        raise AssertionError("something is to be downloaded")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    url = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
    return tmp_path / hashlib.sha1(url.encode()).hexdigest()


def test_a_vocabulary_that_is_not_here_is_not_downloaded(vocabulary: Path) -> None:
    tokens = Tokens("gpt-4o")
    assert (tokens.exact, tokens.count("x" * 400)) == (False, 101)
    assert not list(vocabulary.parent.iterdir())


def test_a_damaged_vocabulary_is_not_downloaded_again(vocabulary: Path) -> None:
    vocabulary.write_text("cut off")
    assert not Tokens("gpt-4o").exact


def test_a_vocabulary_that_tiktoken_may_not_use_is_not_downloaded(
    vocabulary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty TIKTOKEN_CACHE_DIR turns tiktoken's cache off."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    monkeypatch.setattr(tempfile, "tempdir", str(vocabulary.parent))
    (vocabulary.parent / "data-gym-cache").mkdir()
    (vocabulary.parent / "data-gym-cache" / vocabulary.name).write_text("whole")
    assert not Tokens("gpt-4o").exact


def test_the_models_own_tokenizer_decides_where_it_is_here(
    vocabulary: Path, rubric: Rubric, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a vocabulary of single bytes every character is a token."""
    import tiktoken

    bytewise = {bytes([n]): n for n in range(256)}
    encoding = tiktoken.Encoding(
        "o200k_base", pat_str=r"[\s\S]", mergeable_ranks=bytewise, special_tokens={}
    )
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, "o200k_base", encoding)
    vocabulary.write_text("")
    assert "counted by tiktoken (o200k_base)" in str(Tokens("gpt-4o"))
    with OpenAIServer() as server:
        one = judged(server, LONG, rubric, mode="json", model="gpt-4o", context=30_000)
        [request] = server.seen
    assert one.truncated
    assert 6_000 < len(request.user) < len(LONG.messages) * 1_500
    assert sum(len(one["content"]) for one in request.messages) <= 30_000
