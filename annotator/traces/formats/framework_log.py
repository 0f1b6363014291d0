"""Logs as text that frameworks write, split by speaker: those in MAST's data set.

ChatDev, MetaGPT (two kinds), HyperAgent, AppWorld, Magentic-One, OpenManus, and AG2's messages as
it prints them, as Python or as indented keys; in a record of MAST, or in a text file. Name the
file: of a folder no ``.log`` or ``.txt`` is opened. A log of another layout is not split. What a
log says of itself, such as requests to a server, is counted and left out.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from textwrap import dedent
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.traces.authors import classify_word
from annotator.traces.conversation import Conversation, read_chat
from annotator.traces.model import Author
from annotator.traces.records import parse_literal, parse_time

KEY = "log"
"""The key of a document that is a log as text."""

_WHERE = "trajectory"
_CHATDEV_TIME = r"^\[(?P<time>\d{4}-\d\d-\d\d [\d:]{8}) [A-Z]+\] "
_CHATDEV_WHO = r"(?:(?P<who>[A-Z][\w .-]{0,60}): )?"
_CHATDEV_MARK = (
    r"\*\*(?:(?P<a>[^*<\n]+)<->(?P<b>[^*\n]+?) on : (?P<phase>[^*,\n]+)[^*\n]*"
    r"|\[(?P<tag>[^]\n]+)\])\*\*:?"
)
_CHATDEV_TIMED = re.compile(f"{_CHATDEV_TIME}{_CHATDEV_WHO}(?:{_CHATDEV_MARK})?", re.MULTILINE)
_CHATDEV_MARKED = re.compile(f"^(?P<time>)?{_CHATDEV_WHO}{_CHATDEV_MARK}", re.MULTILINE)
_CHATDEV_NOISE = ("HTTP Request", "flask app.py", "OpenAI_Usage_Info Receive")
_CHATDEV_TOOLS = ("Update Codes", "Test Reports", "Execute Detail", "Software Info")
_ROLE = re.compile(r"You are ([A-Z][\w ]+)\.")
_METAGPT = re.compile(
    r"^\[(?P<time>[\d-]{10} [\d:]{8})\] (?:FROM: (?P<who>.+?) TO: (?P<to>.*)\nACTION: .*\nCONTENT:"
    r"|NEW MESSAGES:)\n",
    re.MULTILINE,
)
_METAGPT_RULE = re.compile(r"\n-{60,}\s*(?:=== .* ===\s*)?\Z|\n*=== Communication Log Ended .*\Z")
_METAGPT_NAME = re.compile(r"\s*([A-Z]\w{0,60}(?: \w+){0,3}): ?\n?")
_MARKS = re.compile(r"^=== .* ===$\n*", re.MULTILINE)
_LOGURU = re.compile(
    r"^(?P<time>\d{4}-\d\d-\d\d [\d:]{8}(?:[.,]\d+)?) \| (?P<level>\w+) *\| (?P<place>\S+) - ",
    re.MULTILINE,
)
_ACT = re.compile(r"\w+\((?P<who>[\w ]+)\): to do (?P<action>\w+).*\n?")
_HYPERAGENT = re.compile(r"^[ \t]*HyperAgent_\S+ - [A-Z]+ - ", re.MULTILINE)
_RESPONSE = re.compile(
    r"(?:Inner-)?(?P<who>[A-Z][\w ]*?)(?:-Assistant)?['’]s Response:\s*"
    r"|(?P<a>\w+)->(?P<b>\w+):\s*"
)
_APPWORLD = re.compile(
    r"^[ \t]*(?:(?P<verb>Response from|Reply from|Message to) (?P<who>\S.*?) Agent"
    r"|(?P<output>Code Execution Output|Response from \w+ API)"
    r"|(?P<loop>(?:Entering|Exiting) .+? Agent message loop))[ \t]*$",
    re.MULTILINE,
)
_MAGENTIC = re.compile(
    r"^-{6,} (?:(?P<kind>\w+) \((?P<source>[^)\n]+)\)|(?P<who>\w[\w .-]*?)) -{6,}[ \t]*\n?",
    re.MULTILINE,
)
_MAGENTIC_END = re.compile(r"^SCENARIO\.PY COMPLETE", re.MULTILINE)
_MANUS_CALLS = re.compile(r"\W*(?:Tools being prepared|Tool arguments): ")
_MANUS_RESULT = re.compile(r"\W*Tool '(?P<tool>[^']+)' completed its mission! Result: ")
_THOUGHTS = re.compile(r"\W*(?P<who>\w[\w ]*?)'s thoughts: ?")
_ANSI = re.compile(r"\x1b\[[\d;]*m")
_CONSOLE = re.compile(
    r"^(?P<who>\w[\w .-]*?) \(to (?P<to>\w[\w .-]*?)\):[ \t]*\n"
    r"|^(?P<note>(?:>{4,}|Next speaker:).*)\n?|^-{60,}[ \t]*\n?",
    re.MULTILINE,
)
_CONSOLE_RESULT = re.compile(r"\*+ Response from calling (?:tool|function)")
_PYTHON = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|[{}]", re.DOTALL)
_AG2 = re.compile(
    r"^[ \t-]*content:(?P<content>.*?)\n[ \t]*role:[ \t]*(?P<role>\w+)[ \t]*\n"
    r"[ \t]*name:[ \t]*(?P<name>\S+)",
    re.MULTILINE | re.DOTALL,
)


def matches(document: Any) -> bool:
    text = document.get(KEY) if len(document) == 1 else None
    return isinstance(text, str) and read_log(text) is not None


def read(document: Any) -> Conversation:
    chat = read_log(document[KEY])
    if chat is None:
        raise UnreadableTrace("no log of a known layout")
    return chat


def read_log(text: str) -> Conversation | None:
    """Return the conversation in a framework's log; None if it is of no known layout."""
    for reader in _READERS:
        chat = reader(text)
        if chat and any(message.author == "agent" for message in chat.messages):
            return chat
    return None


def _split(pattern: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each match that is not empty, and the text until the next one."""
    heads = [match for match in pattern.finditer(text) if match[0].strip()]
    for head, end in pairwise([*heads, None]):
        assert head is not None  # noqa: S101 - only the last is
        yield head, text[head.end() : end.start() if end else len(text)].strip("\n")


class _Log(Conversation):
    """A conversation of the entries of a log."""

    def enter(self, sender: str, author: Author, text: str, **fields: Any) -> None:
        """Append a message if it has a text."""
        if text.strip():
            self.say(_WHERE, sender, author, text.strip("\n"), **fields)

    def say_before(self, text: str, pattern: re.Pattern[str]) -> None:
        """Append the text before the first entry: a person's prompt, or the harness's words."""
        before = _MARKS.sub("", text[: head.start()]) if (head := pattern.search(text)) else ""
        is_prompt = before.startswith("Enter your prompt")
        self.enter("user" if is_prompt else "task", "human" if is_prompt else "system", before)

    def take_prompt(self, text: str) -> str:
        """Return the text behind the role prompt that it begins with, and keep that."""
        prompt, end, content = text.partition("]\n\n")
        role = _ROLE.search(prompt)
        if not (end and role and prompt.startswith("[")):
            return text
        self.tasks.setdefault(role[1], prompt[1:])
        return content


def _read_chatdev(text: str) -> _Log | None:
    """A ChatDev log. Role prompts that it repeats are the tasks of their agents."""
    timed = _CHATDEV_TIMED.search(text) is not None
    # Without times any line in a message may look like a head, but for those with a mark.
    pattern = _CHATDEV_TIMED if timed else _CHATDEV_MARKED
    entries = list(_split(pattern, text))
    if not any(head["phase"] for head, _ in entries):
        return None
    chat = _Log()
    chat.say_before(text, pattern)
    for head, body in entries:
        who, tag = head["who"], head["tag"] or ""
        first = f"{tag}{who or ''}{body}"
        if noise := next((word for word in _CHATDEV_NOISE if first.startswith(word)), None):
            chat.ignored[noise] += 1
            continue
        time = _parse_chatdev_time(head["time"])
        body = body.strip("\n ")
        if tag == "Preprocessing":
            chat.enter("task", "system", body, time=time)
        elif head["phase"]:
            body = chat.take_prompt(body)
            other = head["b"] if who == head["a"] else head["a"]
            chat.enter(who or "", "agent", body, time=time, recipients=(other,), kind=head["phase"])
        else:
            author: Author = "tool" if tag in _CHATDEV_TOOLS else "system"
            if tag == "Start Chat":
                body = chat.take_prompt(body)
            chat.enter(who or "ChatDev", author, body, time=time, kind=tag or None)
    return chat


def _parse_chatdev_time(text: str | None) -> float | None:
    try:  # the day comes before the month
        moment = datetime.strptime(text or "", "%Y-%d-%m %H:%M:%S")
    except ValueError:
        return parse_time(text)
    return moment.replace(tzinfo=UTC).timestamp()


def _read_metagpt(text: str) -> _Log | None:
    chat = _Log()
    chat.say_before(text, _METAGPT)
    entries = [(head, _METAGPT_RULE.sub("", body)) for head, body in _split(_METAGPT, text)]
    news = [body for head, body in entries if not head["who"]]
    names = [name[1] for body in news if (name := _METAGPT_NAME.match(body))]
    for head, body in entries:
        time = parse_time(head["time"])
        if who := head["who"]:
            chat.enter(who, classify_word(who) or "agent", body, time=time)
            continue
        pattern = re.compile(rf"^({'|'.join(map(re.escape, names))}): ?\n?", re.MULTILINE)
        heads = list(_split(pattern, body.lstrip())) if names else []
        for name, content in heads:
            chat.enter(name[1], "agent", content, time=time)
        if not heads:
            chat.enter("MetaGPT", "unknown", body, time=time)
    return chat


def _read_metagpt_actions(text: str) -> _Log | None:
    chat = _Log()
    chat.say_before(text, _LOGURU)
    for head, body in _split(_LOGURU, text):
        action, time = _ACT.match(body), parse_time(head["time"])
        if action and "_act:" in head["place"]:
            content, kind = body[action.end() :], action["action"]
            chat.enter(action["who"], "agent", content, time=time, kind=kind)
        elif head["level"] in ("WARNING", "ERROR", "CRITICAL"):
            chat.enter("MetaGPT", "system", body, time=time)
        else:
            chat.ignored[head["place"].partition(":")[0]] += 1
            chat.enter("MetaGPT", "unknown", body.partition("\n")[2])
    return chat


def _read_openmanus(text: str) -> _Log | None:
    if "'s thoughts:" not in text and "completed its mission!" not in text:
        return None
    chat, agent = _Log(), "Manus"
    pieces: list[str] = []
    chat.say_before(text, _LOGURU)
    for head, body in _split(_LOGURU, text):
        time = parse_time(head["time"].replace(",", "."))
        if thoughts := _THOUGHTS.match(body):
            agent, content = thoughts["who"], body[thoughts.end() :]
            pieces += [content] if content.strip() not in ("", "None") else []
        elif calls := _MANUS_CALLS.match(body):
            pieces.append(body[calls.end() :])
        else:
            if pieces:
                chat.say(_WHERE, agent, "agent", *pieces, time=time)
                pieces = []
            if result := _MANUS_RESULT.match(body):
                chat.enter(result["tool"], "tool", body[result.end() :], time=time)
            elif "\n" in body.strip() or head["level"] != "INFO":
                chat.enter("OpenManus", "system", body, time=time)
            else:
                chat.ignored[head["place"].rpartition(":")[0]] += 1
    if pieces:
        chat.say(_WHERE, agent, "agent", *pieces)
    return chat


def _read_hyperagent(text: str) -> _Log | None:
    chat = _Log()
    chat.say_before(text, _HYPERAGENT)
    for _, block in _split(_HYPERAGENT, text):
        body = dedent(block)
        if head := _RESPONSE.match(body):
            to = (head["b"],) if head["b"] else ()
            chat.enter(head["who"] or head["a"], "agent", body[head.end() :], recipients=to)
        elif body.startswith("Initialized "):
            chat.ignored["Initialized"] += 1
        else:
            chat.enter("HyperAgent", "system", body)
    return chat


def _read_appworld(text: str) -> _Log | None:
    chat = _Log()
    names: dict[str, str] = {}  # they are written in two ways
    chat.say_before(text, _APPWORLD)
    for head, body in _split(_APPWORLD, text):
        body = dedent(body)
        if who := head["who"]:
            who = names.setdefault(who.lower(), who)
            if head["verb"] == "Message to":  # the log does not say from whom
                chat.enter("AppWorld", "unknown", body, recipients=(who,))
            else:
                chat.enter(who, "agent", body)
        elif head["output"]:
            chat.enter("code" if head["output"].startswith("Code") else "API", "tool", body)
        else:
            chat.ignored["message loop"] += 1
            chat.enter("AppWorld", "system", body)
    return chat


def _read_magentic(text: str) -> _Log | None:
    chat = _Log()
    if end := _MAGENTIC_END.search(text):
        chat.ignored["end of the script"] += text[end.start() :].count("\n") + 1
        text = text[: end.start()]
    entries = list(_split(_MAGENTIC, text))
    if entries and (setup := text[: entries[0][0].start()].strip()):
        chat.ignored["setup"] += setup.count("\n") + 1
    for head, body in entries:
        who, is_tool = head["who"] or head["source"], classify_word(head["kind"]) == "tool"
        author = "tool" if is_tool else classify_word(who) or "agent"
        chat.enter(who, author, body, kind=head["kind"])
    return chat


def _read_ag2_console(text: str) -> _Log | None:
    """A log of AG2 or AutoGen 0.2, as they print it: messages with a rule below each."""
    chat = _Log()
    for head, body in _split(_CONSOLE, _ANSI.sub("", text)):
        if who := head["who"]:
            author: Author = "tool" if _CONSOLE_RESULT.match(body.strip()) else "agent"
            author = classify_word(who) or "agent" if author == "agent" else author
            chat.enter(who, author, body, recipients=(head["to"],))
        elif head["note"]:
            chat.enter("AG2", "system", f"{head['note']}\n{body}" if body.strip() else "")
            chat.ignored["AG2's notes"] += not body.strip()
        else:
            chat.enter("AG2", "system", body)
    return chat


def _read_ag2(text: str) -> Conversation | None:
    items = list(_list_python_objects(text)) or [
        {**match.groupdict(), "content": dedent(match["content"]).strip()}
        for match in _AG2.finditer(text)
    ]
    chat = read_chat(items, _WHERE) if items else None
    if chat and (first := _AG2.search(text)):
        chat.task = dedent(text[: first.start()]).strip()
    return chat


def _list_python_objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the messages that are written as Python writes them."""
    depth, start = 0, 0
    for match in _PYTHON.finditer(text):
        if match[0] == "{":
            start = match.start() if depth == 0 else start
            depth += 1
        elif match[0] == "}" and depth:
            depth -= 1
            value = parse_literal(text[start : match.end()]) if depth == 0 else None
            if isinstance(value, dict) and {"content", "name"} <= value.keys():
                yield value


_READERS: tuple[Callable[[str], Conversation | None], ...] = (
    *(_read_chatdev, _read_metagpt, _read_openmanus, _read_metagpt_actions),
    *(_read_hyperagent, _read_appworld, _read_magentic, _read_ag2, _read_ag2_console),
)
