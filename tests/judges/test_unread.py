"""Prompts that a server cuts without a word: the two tags in the answer give them away."""

import json
import re

import pytest

from annotator.rubrics import Rubric
from tests.judges.test_llm import judged, scripted
from tests.judges.test_long import LONG, RIGHT, sent
from tests.judges.test_windows import FALSE
from tests.openai_server import NOTHING, OpenAIServer, Reply, Request

# A server that cuts, and what it leaves of so many characters.
CUTS = {
    "the end": lambda text, room: text[:room],
    "the beginning": lambda text, room: text[-room:],
    "all but a few tokens of the beginning": lambda text, room: text[:12] + text[12 - room :],
}


class Cutting:
    """A model behind a server that reads ``room`` characters and cuts the rest.

    As Ollama does, it first drops the oldest messages after the system's. The model repeats the
    tags that it sees, and gives the ``reply`` to what it sees in full, else finds nothing.
    """

    def __init__(self, room: int, reply: Reply, cut: str = "the beginning") -> None:
        self.room = room
        self.reply = reply
        self.cut = CUTS[cut]

    def __call__(self, request: Request) -> Reply:
        texts = [json.dumps(one, ensure_ascii=False) for one in request.messages]
        texts = [text.replace('\\"', '"') for text in texts]
        while sum(map(len, texts)) > self.room and len(texts) > 2:
            del texts[1]
        text = "".join(texts)
        complete = len(texts) == len(request.messages) and len(text) <= self.room
        text = text if len(text) <= self.room else self.cut(text, self.room)
        seen = re.findall(r'"((?:first|last)_tag)": ?"(\w+-\d{6})"', text)
        tags = {"first_tag": "first-000000", "last_tag": "last-000000", **dict(seen)}
        reply = self.reply if complete else NOTHING
        return Reply(answer=reply.answer | tags)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("mode", ["json_schema", "tools", "json"])
def test_a_prompt_that_was_cut_is_shortened_and_never_judged(
    rubric: Rubric, cut: str, mode: str
) -> None:
    with OpenAIServer(Cutting(65_000, RIGHT, cut)) as server:
        one = judged(server, LONG, rubric, mode=mode)
        sizes = [sent(request) for request in server.seen]
    assert (one.status, one.primary, bool(one.truncated)) == ("labelled", "C3a", True)
    assert sizes[0] > 65_000 > sizes[-1]


def test_one_that_is_always_cut_fails_and_says_why(rubric: Rubric) -> None:
    with OpenAIServer(Cutting(20_000, RIGHT)) as server:
        one = judged(server, LONG, rubric, mode="json_schema")
    assert one.status == "failed"
    assert "check word at the start of the prompt: the prompt was cut" in (one.error or "")


def test_a_prompt_that_is_made_for_the_context_is_not_cut(rubric: Rubric) -> None:
    with OpenAIServer(Cutting(40_000, RIGHT)) as server:
        one = judged(server, LONG, rubric, mode="json_schema", context=10_000)
        assert len(server.seen) == 1
    assert (one.status, bool(one.truncated)) == ("labelled", True)


@pytest.mark.parametrize("mode", ["json_schema", "tools", "json"])
def test_what_a_second_question_pushes_out_is_not_judged_without(rubric: Rubric, mode: str) -> None:
    """The first prompt fits. After a wrong quote the server drops the trace, and the model would
    find the last tag only in its own first answer.
    """
    with OpenAIServer(Cutting(10**6, FALSE)) as server:
        judged(server, LONG, rubric, mode=mode)
        first = sum(len(json.dumps(one, ensure_ascii=False)) for one in server.seen[0].messages)
    with OpenAIServer(Cutting(first + 100, FALSE)) as server:
        one = judged(server, LONG, rubric, mode=mode)
        assert len(server.seen) > 1
    assert (one.status, one.truncated) == ("undecided", {})


GIVEN = FALSE.answer
SWAPPED = GIVEN | {"first_tag": "LAST TAG", "last_tag": "FIRST TAG"}
TOLD = {"rationale": "I saw FIRST TAG and LAST TAG"}
# First answers with the tags of the prompt in them; the server fills them in.
TAGGED = {
    "as fields": Reply(answer=GIVEN),
    "swapped, so that our own words would print them": Reply(answer=SWAPPED),
    "in a rationale": Reply(answer=GIVEN | {"findings": [GIVEN["findings"][0] | TOLD]}),
    "quoted": Reply(answer=GIVEN | {"first_tag": 'the tag "FIRST TAG"'}),
    "in prose": Reply(text="I read FIRST TAG and LAST TAG.\n" + json.dumps(GIVEN)),
}


@pytest.mark.parametrize("mode", ["json_schema", "tools", "json"])
@pytest.mark.parametrize("first", TAGGED.values(), ids=TAGGED)
def test_a_reask_holds_each_tag_only_where_the_prompt_does(
    rubric: Rubric, mode: str, first: Reply
) -> None:
    """A model that sees the end of a cut prompt must not find the tags of its beginning there."""
    with OpenAIServer(scripted(first, RIGHT)) as server:
        assert judged(server, LONG, rubric, mode=mode).primary == "C3a"
        again = server.seen[1]
    answer, *words = again.messages[2:]
    calls = answer.get("tool_calls")
    text = calls[0]["function"]["arguments"] if calls else answer["content"]
    sent = json.dumps([answer, *words])
    assert not any(tag in sent for tag in again.tags.values())
    given = json.dumps(first.answer) if first.answer else first.text
    assert text == given.replace("FIRST TAG", "[tag]").replace("LAST TAG", "[tag]")


# A first answer that repeats the tags and is not accepted, what comes of it, and why.
READ = {
    "a quote that stands nowhere": (FALSE, "undecided", None),
    "a contradiction": ({"label": "C1b"}, "failed", 'label is "C1b" but there is no finding'),
    "a wrong form": ({"label": "C9"}, "failed", "label: "),
}


@pytest.mark.parametrize(("first", "status", "error"), READ.values(), ids=READ)
def test_tags_forgotten_in_a_second_answer_say_nothing_of_a_prompt_that_was_read(
    rubric: Rubric, first: Reply | dict[str, str], status: str, error: str | None
) -> None:
    """It is the same prompt, and it is not made shorter."""
    first = first if isinstance(first, Reply) else Reply(answer=NOTHING.answer | first)
    forgetful = Reply(answer={**NOTHING.answer, "first_tag": "?", "last_tag": "?"})
    with OpenAIServer(scripted(first, forgetful)) as server:
        found = judged(server, LONG, rubric, mode="json_schema")
        assert server.calls == 2
    assert (found.status, found.truncated) == (status, {})
    assert (error or "None") in str(found.error)


def test_an_answer_with_no_text_for_a_tag_does_not_say_that_it_was_read(rubric: Rubric) -> None:
    first, cut = (Reply(answer={**NOTHING.answer, "last_tag": tag}) for tag in (None, "?"))
    with OpenAIServer(scripted(first, cut, NOTHING)) as server:
        assert judged(server, LONG, rubric, mode="json_schema").truncated
