"""Where quotes stand, and what is refused: the check that every finding has to pass."""

import contextlib
import re
import signal
from dataclasses import replace

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from annotator.annotations import Claim, Evidence, Quote, Verdict
from annotator.evidence import check, locate, source_id, verify
from annotator.rubrics import Rubric
from annotator.traces import AgentEnd, Feature, Message, Outcome, Step, Trace
from annotator.visible import see


@contextlib.contextmanager
def promptly(seconds=10):
    """Stop what would hang; what takes linear time is done in a small part of ``seconds``."""

    def stop(*_):
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def talk(*texts, **more):
    """Return a trace in which agent1 says the first text, agent2 the second, and so on."""
    messages = [Message(n, f"agent{n}", (), text) for n, text in enumerate(texts, 1)]
    return Trace("t", "test", "", tuple(messages), **more)


def places(quote, text):
    """Return the places of a text, said by agent1, where the quote stands."""
    return [(span.start, span.end) for span in locate(quote, talk(text))]


# --- what may differ, and what may not. In a row: the quote, the text, the passage accepted (None:
# all of the text).

ACCEPTED = {
    "same": ("I take the parser", "I take the parser", None),
    "within a sentence": ("take the parser", "I take the parser.", "take the parser"),
    "blanks around": ("  I take the parser\n", "I take the parser", None),
    "white space": ("I take the parser", "I  take\n\tthe\r\nparser", None),
    "no-break space": ("I take the parser", "I take\u00a0the parser", None),
    "Cyrillic letters": ("I take the parser", "I t\u0430ke the p\u0430rser", None),
    "zero-width space": ("I take the parser", "I take \u200bthe parser", None),
    "white space before marks": ("foo(x, y)", "foo( x,y )", None),
    "case": ("i TAKE the Parser", "I take the parser", None),
    "case of other scripts": ("ÜBER ЖЁЛТЫЙ σ", "über жёлтый Σ", None),
    "curly single": ("it isn't done", "it isn’t done", None),
    "curly double": ('he said "done" twice', "he said “done” twice", None),
    "low double": ('he said "done" twice', "he said „done“ twice", None),
    "straight for curly": ("he said “done” twice", 'he said "done" twice', None),
    "em dash": ("well - it works", "well — it works", None),
    "en dash": ("lines 1-5 only", "lines 1–5 only", None),
    "two hyphens for a dash": ("well -- it works", "well — it works", None),
    "dash for two hyphens": ("well — it works", "well -- it works", None),
    "no-break hyphen": ("a well-known case", "a well‑known case", None),
    "minus": ("x = -1 again", "x = −1 again", None),
    "ellipsis sign": ("so ... it works", "so … it works", None),
    "line end escaped in the text": ("first line second", "first line\\nsecond", None),
    "line end escaped in the quote": ("first line\\nsecond", "first line\nsecond", None),
    "escaped quotation marks": ('say "hello" to them', 'say \\"hello\\" to them', None),
    "bold": ("do not touch this", "do **not** touch this", None),
    "italics": ("do not touch this", "do *not* touch this", None),
    "underscores": ("do not touch this", "do _not_ touch this", None),
    "underscores over two words": ("do not touch this", "do __not touch__ this", None),
    "code": ("use foo_bar here", "use `foo_bar` here", None),
    "struck out": ("use foo_bar here", "use ~~foo_bar~~ here", None),
    "emphasis in the quote": ("do **not** touch `this`", "do not touch this", None),
    "speaker": ("agent1: I take it now", "I take it now", None),
    "speaker in capitals": ("AGENT1: I take it now", "I take it now", None),
    "speaker in bold": ("**agent1**: I take it now", "I take it now", None),
    "number and speaker": ("[1] agent1: I take it now", "I take it now", None),
    "message and speaker": ("Message 1, agent1: I take it now", "I take it now", None),
    "speaker and recipient": ("[1] agent1 to agent2: I take it now", "I take it now", None),
    "arrow to the recipient": ("agent1 -> agent2: I take it now", "I take it now", None),
    "full stop": ("I take it now.", "I take it now", None),
    "other end": ("I take it now!", "I take it now.", "I take it now"),
    "quotation marks around": ('"I take it now"', "I take it now", None),
    "ellipsis at the end": ("I take it...", "I take it now", "I take it"),
    "ellipsis at both ends": ("… take it …", "I take it now", "take it"),
    "patch line": ("+x = 1", " y = 2\n+x = 1\n", "+x = 1"),
    "patch line with a blank": ("- x = 1", "-x = 1", None),
    "two patch lines": ("-x = 1 +x = 2", "-x = 1\n+x = 2", None),
    "whole line of one word": ("done", "I said\ndone\nand left", "done"),
    "long word": ("implementation", "the implementation is here", "implementation"),
    "Chinese clause": ("我会修改解析器", "好的。我会修改解析器。", "我会修改解析器"),
    "composed accents": (
        "le café est prêt",
        "le cafe\u0301 est pre\u0302t ici",
        "le cafe\u0301 est pre\u0302t",
    ),
    "emoji without its form": ("done \u2714 and merged", "done \u2714\ufe0f and merged", None),
    "long quote that cuts words": (
        "ble to say that the parser and the printer work toge",
        "I am unable to say that the parser and the printer work together",
        "to say that the parser and the printer work",
    ),
    "script without spaces": ("我来写 解析", "我来写 解析器", "我来写 解析"),
}


@pytest.mark.parametrize(("quote", "text", "passage"), ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(quote, text, passage):
    (span,) = locate(quote, talk(text))
    passage = text if passage is None else passage
    assert span.quote == text[span.start : span.end] == passage
    assert span.source == "message:1"
    assert span.match == ("exact" if quote.strip() == passage else "typography")


REFUSED = {
    "missing word": ("I take parser", "I take the parser"),
    "missing first words joined": ("I parser", "I take the parser"),
    "added word": ("I take the new parser", "I take the parser"),
    "added word at the end": ("I take the parser now", "I take the parser"),
    "changed word": ("I write the parser", "I take the parser"),
    "changed number": ("the lines 10 to 21", "the lines 10 to 20"),
    "other order": ("take I the parser", "I take the parser"),
    "negated": ("I did touch it", "I did not touch it"),
    "ellipsis in the middle": ("I take ... parser", "I take the parser"),
    "ellipsis sign in the middle": ("I take … parser", "I take the parser"),
    "other speaker": ("agent2: I take it now", "I take it now"),
    "speaker with a longer name": ("agent12: I take it now", "I take it now"),
    "no such speaker": ("bob: I take it now", "I take it now"),
    "word between speaker and colon": ("agent1 refuses: do the work", "do the work"),
    "cut word and marks": ("ount = a - b * 2", "the amount = a - b * 2"),
    "operator left out": ("set a b now", "set a * b now"),
    "operator added": ("set a * b now", "set a b now"),
    "power left out": ("set a b now", "set a ** b now"),
    "multiplied in place": ("set a = b now", "set a *= b now"),
    "comparison": ("x = y then", "x == y then"),
    "bound": ("if a >= b then", "if a > b then"),
    "plus for minus": ("+x = 1 again", "-x = 1 again"),
    "minus for plus": ("-x = 1 again", "+x = 1 again"),
    "sign of the second line": ("-x = 1\n-x = 2", "-x = 1\n+x = 2"),
    "minus behind a speaker": ("agent1: -x = 1 again", "+x = 1 again"),
    "dash for plus": ("–x = 1 again", "+x = 1 again"),
    "comma added": ("now, that is it", "now that is it"),
    "comma left out": ("now that is it", "now, that is it"),
    "brackets left out": ("not a b at all", "not (a b) at all"),
    "point in a number": ("it is 15 percent", "it is 1.5 percent"),
    "words joined": ("foobar is here", "foo bar is here"),
    "words split": ("foo bar is here", "foobar is here"),
    "hyphen joined": ("preload it now", "pre-load it now"),
    "hyphen split": ("pre load it now", "pre-load it now"),
    "name split": ("foo bar is here", "foo_bar is here"),
    "name joined": ("foo_bar is here", "foo bar is here"),
    "short word": ("done", "I am done now"),
    "number": ("12", "there are 12 of them"),
    "word cut in two words": ("see no", "I see nothing here"),
    "end of a word": ("art it", "I start it"),
    "word cut at the end": ("now I see no", "now I see nothing here"),
    "word cut at the start": ("able to merge cleanly", "I was unable to merge cleanly"),
    "another ending": ("The tests pass", "The tests passed"),
    "up to an apostrophe": ("your branch I can", "your branch I can't see"),
    "from an apostrophe": ("t see your branch", "I can't see your branch"),
    "half of a number": ("all of it passes 1", "all of it passes 1,000 of 2,000"),
    "before the point": ("the coverage is 9", "the coverage is 9.5%"),
    "without its sign": ("1 lines removed", "net -1 lines removed"),
    "from a hyphen": ("blocking call is fine", "a non-blocking call is fine"),
    "up to a hyphen": ("it is thread", "it is thread-unsafe"),
    "Hebrew word cut": ("אני לא ראי", "אני לא ראיתי את זה"),
    "Hindi word cut": ("मैं बदल", "मैं बदलूंगा"),
    "another number": ("3.5 tests fail", "row 3. 5 tests fail"),
    "part of a name": ("I rename row", "I rename row_count"),
    "stars that a patch has": ("def parse(args) now", "def parse(~args) now"),
    "mark alone": ("***", "I *** it"),
    "nothing": ("", "I take it"),
    "blanks": (" \n\t", "I take it"),
    "only a speaker": ("agent1:", "I take it"),
    "longer than the text": ("I take it now and then", "I take it"),
    "empty text": ("I take it", ""),
}


@pytest.mark.parametrize(("quote", "text"), REFUSED.values(), ids=REFUSED)
def test_refused(quote, text):
    assert locate(quote, talk(text)) == []


def test_every_place_is_found_in_the_order_of_the_sources():
    trace = talk("go on, go on", "go on", patches={"agent1": "+go on\n"})
    assert [(span.source, span.start) for span in locate("go on", trace)] == [
        ("message:1", 0),
        ("message:1", 7),
        ("message:2", 0),
        ("patch:agent1", 1),
    ]


def test_exact_places_win_over_similar_ones():
    assert places("go on", "Go on. Now go on.") == [(11, 16)]


def test_no_more_than_a_hundred_places_of_one_source():
    assert len(places("go on", "go on " * 500)) == 100


def test_origins_limit_the_search():
    trace = talk("go on now", patches={"agent1": "+go on now\n"})
    assert [span.source for span in locate("go on now", trace, ("patches",))] == ["patch:agent1"]


def test_steps_are_searched_only_if_asked_for():
    steps = {"agent1": (Step(1, "agent", "go on now"), Step(2, "tool", "go on now"))}
    trace = Trace("t", "test", "", (), read_steps=lambda: steps)
    assert locate("go on now", trace, ("messages", "patches", "outcome")) == []
    assert [one.source for one in locate("go on now", trace, ("steps",))] == ["step:agent1:1"]
    assert [one.source for one in locate("go on now", trace)] == ["step:agent1:1", "step:agent1:2"]


BROKEN = Outcome(
    merge="conflicts",
    features=(Feature("1", output="one test failed"), Feature("2", output="two tests failed")),
    agents=(AgentEnd("agent1", error="out of memory"),),
)


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("one test failed", True),
        ("out of memory", True),
        ("conflicts", True),
        ("test failed\ntwo tests", False),
        ("test failed two tests", False),
        ("one test failed\ntwo", False),
        ("failed\ntwo tests failed", False),
        ("conflicts\nout of memory", False),
    ],
)
def test_no_quote_runs_across_two_reports(quote, found):
    assert bool(locate(quote, talk(outcome=BROKEN))) is found


def test_no_quote_runs_across_two_parts_of_a_message():
    trace = Trace("t", "test", "", (Message(1, "a", (), "I take it\nnot really", breaks=(9,)),))
    assert locate("take it\nnot", trace) == locate("take it not", trace) == []
    assert [span.start for span in locate("not really", trace)] == [10]


# --- laws

LAW = settings(max_examples=100)

RICH = st.text(
    st.one_of(
        st.sampled_from(
            "ab nrt\\\n\t_*`~-—–\"'“”‘’….,:;!?()[]+=1中ßİſ\u200b\u00a0\ufeff\x00😀\u0301"
        ),
        st.characters(),
    ),
    max_size=60,
)


@LAW
@given(RICH, RICH)
@example("_a_ b c", "a b c")
@example("x\\ny z", "y z")
def test_a_span_is_the_text_at_its_place(text, quote):
    for span in locate(quote, talk(text)):
        assert text[span.start : span.end] == span.quote != ""
        if span.match == "exact":
            assert span.quote == quote.strip()


@LAW
@given(RICH, st.data())
def test_a_span_of_a_piece_of_the_text_is_the_text_at_its_place(text, data):
    start = data.draw(st.integers(0, len(text)))
    quote = data.draw(st.sampled_from([str, str.upper, str.title]))(text[start:])
    for span in locate(quote + data.draw(st.sampled_from(["", ".", "…"])), talk(text)):
        assert text[span.start : span.end] == span.quote != ""


@LAW
@given(RICH.map(lambda text: text.replace("\ud800", "")), RICH, RICH)
def test_no_span_crosses_a_break(one, two, quote):
    text = f"{one}\n{two}"
    trace = Trace("t", "test", "", (Message(1, "a", (), text, breaks=(len(one),)),))
    for asked in (quote, text, text[len(one) // 2 : len(one) + 1 + len(two) // 2]):
        for span in locate(asked, trace):
            assert span.end <= len(one) or span.start > len(one)


@LAW
@given(RICH, st.data())
def test_a_slice_of_whole_words_is_found_at_its_place(text, data):
    words = [match.span() for match in re.finditer(r"\S+", text)]
    assume(words)
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    start, end = words[first][0], words[last][1]
    quote = text[start:end]
    assume(len(re.findall(r"\w+", see(quote).text)) >= 2)  # less may identify nothing
    spans = locate(quote, talk(text))
    assert (start, end) in [(span.start, span.end) for span in spans]
    assert {span.match for span in spans} == {"exact"}


# Words of several scripts with simple case, and the typography that may stand around them.
WORD = st.text("abnrtxyz0189éüяж中日", min_size=1, max_size=6)
WORDS = st.lists(WORD, min_size=4, max_size=12, unique_by=str.casefold)
AROUND = st.sampled_from(["{}", "{}", "{}", "*{}*", "**{}**", "`{}`", "_{}_", "~~{}~~"])
BETWEEN = st.sampled_from([" ", " ", "\n", "  ", "\t", "\u00a0", " \\n ", "\r\n"])


@st.composite
def dressed(draw):
    """Draw distinct words, and a text of them in typographic dress."""
    words = draw(WORDS)
    pieces = [draw(AROUND).format(word) for word in words]
    text = pieces[0]
    for piece in pieces[1:]:
        text += draw(BETWEEN) + piece
    return words, text


@LAW
@given(dressed())
def test_words_are_found_in_any_dress(drawn):
    words, text = drawn
    (place,) = places(" ".join(words), text)
    assert re.sub(r"[*`~_]", "", text[slice(*place)]) == re.sub(r"[*`~_]", "", text)


@LAW
@given(dressed(), st.data())
def test_a_deleted_word_is_never_overlooked(drawn, data):
    words, text = drawn
    assume(not {"n", "r", "t"} & set(words))  # else the letter of an escape is one of the words
    del words[data.draw(st.integers(1, len(words) - 2))]
    assert places(" ".join(words), text) == []


@st.composite
def strange(draw, words):
    """Draw a word that is no part of any of the words."""
    word = draw(st.text("qkvж7日", min_size=1, max_size=5))
    assume(not any(word.casefold() in one.casefold() for one in words))
    return word


@LAW
@given(dressed(), st.data())
def test_an_inserted_word_is_never_overlooked(drawn, data):
    words, text = drawn
    word = data.draw(strange(words))
    words.insert(data.draw(st.integers(0, len(words))), word)
    assert places(" ".join(words), text) == []


@LAW
@given(dressed(), st.data())
def test_a_replaced_word_is_never_overlooked(drawn, data):
    words, text = drawn
    word = data.draw(strange(words))
    words[data.draw(st.integers(0, len(words) - 1))] = word
    assert places(" ".join(words), text) == []


@LAW
@given(WORDS, st.data())
def test_two_words_swapped_are_never_overlooked(words, data):
    text = " ".join(words)
    first, second = data.draw(st.permutations(range(len(words))))[:2]
    words[first], words[second] = words[second], words[first]
    assert places(" ".join(words), text) == []


PHRASE = st.sampled_from(["{}", "{}", "{}", "{}'s", '"{}"', "{}-{}", "({})", "{},", "{}_x"])


@LAW
@given(WORDS, st.data())
def test_typography_changes_nothing_about_the_place(words, data):
    pieces = [data.draw(PHRASE).format(word, word) for word in words]
    first = data.draw(st.integers(0, len(words) - 2))
    last = data.draw(st.integers(first + 1, len(words) - 1))
    text = " ".join(pieces)
    start = len(" ".join(pieces[:first])) + bool(first)
    quote = " ".join(pieces[first : last + 1])
    end = start + len(quote)
    assert text[start:end] == quote

    recased = data.draw(st.sampled_from([str, str.upper, str.swapcase, str.title]))(quote)
    curly = recased.replace("'", "’") if data.draw(st.booleans()) else recased
    curly = re.sub('"(.*?)"', "“\\1”", curly) if data.draw(st.booleans()) else curly
    dashed = curly.replace("-", data.draw(st.sampled_from("-–‑")))
    spaced = dashed.replace(" ", data.draw(st.sampled_from([" ", "\n", "  ", "\u00a0", "\\n"])))
    found = places(spaced, text)
    assert (start, end) in found
    ended = spaced + data.draw(st.sampled_from([".", "!", "?", "...", "…"]))
    trimmed = quote.strip("\"(),'")
    at = quote.find(trimmed)
    assert any(one[0] in (start, start + at) and end - one[1] <= 2 for one in places(ended, text))


# --- hostile length: quadratic time would take minutes to hours

N = 100_000
MANY = {
    "asterisks": "*" * N,
    "backticks": "`" * N,
    "spaces": " " * N,
    "underscores": "_" * N,
    "backslashes": "\\" * N,
    "tildes": "~" * N,
    "escaped line ends": "\\n" * (N // 2),
    "one letter": "a" * N,
    "digits": "1" * N,
    "quotation marks": "'\"" * (N // 2),
    "dashes": "-—" * (N // 2),
    "combining marks": "a" + "\u0301" * N,
    "underscored letters": "_a_" * (N // 3),
    "starred letters": "*a*" * (N // 3),
    "line ends": "\n" * N,
    "Cyrillic letters": "\u0430\u0435" * (N // 2),
}


@pytest.mark.parametrize("text", MANY.values(), ids=MANY)
def test_hostile_text(text):
    with promptly():
        assert places("take the parser", text) == []
        assert places("a the * parser", f"a {text} parser") == []
        assert places("take the parser", f"{text} take the parser {text}") != []


@pytest.mark.parametrize("quote", MANY.values(), ids=MANY)
def test_hostile_quote(quote):
    with promptly():
        assert places(f"x {quote} y", "x take the parser y") == []
        assert places(f"agent1 {quote}: take it all", "take the parser") == []


@pytest.mark.parametrize("many", MANY.values(), ids=MANY)
def test_hostile_text_and_quote(many):
    with promptly():
        assert places(f"{many} x", many) == []


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        pytest.param("* a b", "*" * N, id="asterisk-in-asterisks"),
        pytest.param("\\ a b", "\\" * N, id="backslash-in-backslashes"),
        pytest.param("~ a b", "~" * N, id="tilde-in-tildes"),
        pytest.param("aa", "a" * N, id="piece-of-a-word-without-end"),
        pytest.param("a b" * 200 + " c", "a b" * (N // 3), id="nearly-periodic"),
        pytest.param("_ a b", "_" * N, id="underscore-in-underscores"),
        pytest.param("- - - a b", "- " * N, id="dashes-in-dashes"),
    ],
)
def test_hostile_pairs(quote, text):
    with promptly():
        assert places(quote, text) == []


@pytest.mark.parametrize(
    ("quote", "count"),
    [
        pytest.param("we will do this instead", 0, id="not-there"),
        pytest.param("We  will do THAT", 100, id="everywhere"),
        pytest.param("that", 0, id="one-word-everywhere"),
        pytest.param("will", 0, id="another-word-everywhere"),
    ],
)
def test_five_megabytes_on_one_line(quote, count):
    with promptly():
        assert len(places(quote, "we will do that " * 330_000)) == count


def test_hostile_claim():
    trace = talk(*("we will do that " * 3_000 for _ in range(5)))
    claim = Claim("free", "", (Quote("we will do this " * 35, "message:1"),))
    with promptly():
        _, wrong = verify(claim, trace, RUBRIC)
    assert len(wrong) == 1
    assert len(wrong[0]) < 600


# --- claims

CODE = {"name": "A code", "definition": "Something", "evidence": "Something"}
RUBRIC = Rubric.model_validate(
    {
        "id": "test",
        "version": 1,
        "title": "Test",
        "source": "made here",
        "choice": "primary",
        "instructions": "Judge",
        "codes": [
            {"id": "pair", **CODE},
            {"id": "free", **CODE, "min_quotes": 1},
            {"id": "coded", **CODE, "must_quote": ["patches", "outcome"], "min_quotes": 1},
        ],
        "precedence": ["pair", "free", "coded"],
    }
)
TRACE = Trace(
    "t",
    "test",
    "",
    (
        Message(1, "agent1", ("agent2",), "I take the parser. You take the printer."),
        Message(2, "agent2", ("agent1",), "Fine, I take the printer now."),
        Message(3, "shell", (), "3 files were changed", author="tool"),
    ),
    {"agent1": "+parser = 1\n", "agent2": "+printer = 1\n"},
    Outcome(merge="conflicts", error="CONFLICT in main.py"),
    read_steps=lambda: {"agent1": (Step(1, "agent", "I read the whole file"),)},
)


def claim(code, *quotes):
    """Return a claim from pairs of a quote and the source it is said to stand in."""
    return Claim(code, "because", tuple(Quote(text, source) for text, source in quotes))


def refusal(code, *quotes):
    """Return why a claim is refused, and see that nothing of it becomes a finding."""
    one = claim(code, *quotes)
    _, wrong = verify(one, TRACE, RUBRIC)
    assert wrong
    findings, (rejected,) = check(Verdict((one,)), TRACE, RUBRIC)
    assert findings == []
    assert (rejected.code, rejected.quotes) == (code, tuple(text for text, _ in quotes))
    assert rejected.reason == "; ".join(wrong)
    return rejected.reason


GOOD = (("I take the parser", "message:1"), ("fine, I take the PRINTER", "message:2"))


def test_claim_with_two_passages_is_a_finding():
    (finding,), rejected = check(Verdict((claim("pair", *GOOD),)), TRACE, RUBRIC)
    assert rejected == []
    assert (finding.code, finding.rationale) == ("pair", "because")
    assert finding.evidence == (
        Evidence("I take the parser", "message:1", 0, 17, "exact"),
        Evidence("Fine, I take the printer", "message:2", 0, 24, "typography"),
    )


AGAIN = talk("go on with it, go on with it, go on within")


@pytest.mark.parametrize(
    ("evidence", "start"),
    [
        pytest.param(("go on with it", "message:1", 15, 28, "exact"), 15, id="stands-there"),
        pytest.param(("go on with it", "message:1", 14, 27, "exact"), 0, id="not-there"),
        pytest.param(("go on with it", "message:2", 15, 28, "exact"), 0, id="no-such-source"),
        pytest.param(("go on with it", "message:1", -28, -15, "exact"), 0, id="no-place"),
        pytest.param(("go on with", "message:1", 30, 40, "typography"), 0, id="cuts-a-word"),
        pytest.param(("go on", "message:1", 15, 20, "exact"), 0, id="not-the-judges-words"),
    ],
)
def test_a_place_that_was_found_before_is_kept_if_it_stands(evidence, start):
    """Where it does not, the quote is looked for, and stands first at 0."""
    before = replace(claim("free", ("go on with it", "message:1")), evidence=(Evidence(*evidence),))
    (finding,), rejected = check(Verdict((before,)), AGAIN, RUBRIC)
    assert rejected == []
    assert [(passage.quote, passage.start) for passage in finding.evidence] == [
        ("go on with it", start)
    ]


@pytest.mark.parametrize(
    ("quote", "evidence", "reason"),
    [
        pytest.param(
            ("All tests pass, I ran them twice", "message:1"),
            ("I take the parser", "message:1", 0, 17, "typography"),
            "not found in message:1, nor anywhere else",
            id="other-words",
        ),
        pytest.param(
            ("i take the parser", "message:2"),
            ("I take the parser", "message:1", 0, 17, "typography"),
            "found in message:1, not in message:2",
            id="other-source",
        ),
        pytest.param(
            ("I", "message:1"),
            ("I", "message:1", 0, 1, "exact"),
            "not found in message:1, nor anywhere else",
            id="identifies-nothing",
        ),
        pytest.param(
            ("I take the pars", "message:1"),
            ("I take the pars", "message:1", 0, 15, "exact"),
            "not found in message:1, nor anywhere else",
            id="cuts-a-word",
        ),
    ],
)
def test_a_place_found_before_does_not_stand_for_another_quote(quote, evidence, reason):
    """A judge of one's own may give places too: they prove no words that stand elsewhere."""
    before = replace(claim("free", quote), evidence=(Evidence(*evidence),))
    passages, (wrong,) = verify(before, TRACE, RUBRIC)
    assert passages == []
    assert wrong.endswith(reason)


def test_a_place_found_before_does_not_run_across_a_break():
    trace = Trace("t", "test", "", (Message(1, "a", (), "I take it\nnot really", breaks=(9,)),))
    passage = Evidence("I take it\nnot", "message:1", 0, 13, "typography")
    before = replace(claim("free", ("I take it not", "message:1")), evidence=(passage,))
    passages, wrong = verify(before, trace, RUBRIC)
    assert (passages, len(wrong)) == ([], 1)


def test_a_place_of_other_typography_is_kept():
    before = replace(
        claim("free", ("“Go on\nwith *it*”", "message:1")),
        evidence=(Evidence("go on with it", "message:1", 15, 28, "typography"),),
    )
    passages, wrong = verify(before, AGAIN, RUBRIC)
    assert (passages, wrong) == (list(before.evidence), [])


def test_places_found_before_must_be_as_many_and_apart():
    quotes = [("go on with it", "message:1")] * 2
    first = Evidence("go on with it", "message:1", 0, 13, "exact")
    for evidence in ((first,), (first, first)):
        before = replace(claim("pair", *quotes), evidence=evidence)
        passages, wrong = verify(before, AGAIN, RUBRIC)
        assert ([passage.start for passage in passages], wrong) == ([0, 15], [])


def test_two_passages_of_one_source_will_do():
    quotes = (("I take the parser", "message:1"), ("You take the printer", "message:1"))
    assert verify(claim("pair", *quotes), TRACE, RUBRIC)[1] == []


def test_wrong_source_is_refused_and_the_right_one_named():
    reason = refusal("free", ("i take the parser", "message:2"))
    assert "found in message:1, not in message:2" in reason


def test_all_right_sources_are_named_up_to_three():
    texts = ["I take it all", *["nothing of it here"], *["I take it all"] * 5]
    _, (reason,) = verify(claim("free", ("I take it all", "message:2")), talk(*texts), RUBRIC)
    assert "found in message:1, message:3, message:4 and 3 more, not in message:2" in reason


def test_no_such_source_is_refused_and_the_right_one_named():
    reason = refusal("free", ("i take the parser", "message:99"))
    assert "found in message:1, not in 'message:99' (no such source)" in reason


def test_quote_found_nowhere_names_a_similar_passage():
    _, (reason,) = verify(
        claim("free", ("I took the parsers", "message:1")),
        talk("I take the parser"),
        RUBRIC,
        hints=True,
    )
    assert "not found in message:1, nor anywhere else" in reason
    assert "similar, in message:1:" in reason
    assert "I take the parser" in reason


def test_quote_like_nothing_names_no_passage():
    reason = refusal("free", ("zebra quagga okapi", "message:1"))
    assert reason.endswith("nor anywhere else")


@pytest.mark.parametrize(
    "second",
    ["I take the parser", "i take the PARSER", "take the parser", "I take the parser. You take"],
)
def test_same_passage_twice_is_refused(second):
    reason = refusal("pair", ("I take the parser", "message:1"), (second, "message:1"))
    assert "the same passage as another quote" in reason


def test_same_words_at_two_places_are_two_passages():
    trace = talk("go on now, go on now")
    evidence, wrong = verify(claim("pair", *[("go on now", "message:1")] * 2), trace, RUBRIC)
    assert wrong == []
    assert [one.start for one in evidence] == [0, 11]


@pytest.mark.parametrize("turned", [False, True], ids=["short-first", "long-first"])
def test_order_of_the_quotes_does_not_matter(turned):
    """The short quote stands at two places, the long one only around the first of them."""
    trace = talk("go on now with the parser. Then go on now.")
    quotes = [("go on now", "message:1"), ("go on now with the parser", "message:1")]
    _, wrong = verify(claim("pair", *(quotes[::-1] if turned else quotes)), trace, RUBRIC)
    assert wrong == []


def test_too_few_quotes_are_refused():
    reason = refusal("pair", ("I take the parser", "message:1"))
    assert reason == "pair: 1 quote(s), 2 separate passages needed"


def test_no_quotes_are_refused():
    assert refusal("free") == "free: 0 quote(s), 1 separate passages needed"


def test_one_bad_quote_among_good_ones_refuses_the_claim():
    reason = refusal("pair", *GOOD, ("I take the moon", "message:1"))
    assert 'quote "I take the moon": not found' in reason


def test_must_quote_refuses_a_claim_without_such_a_quote():
    reason = refusal("coded", *GOOD)
    needed = "at least 1, one of them from the patches or outcome"
    assert reason == f"coded: quotes needed: {needed}"


@pytest.mark.parametrize(
    "quote", [("+parser = 1", "patch:agent1"), ("CONFLICT in main.py", "outcome")]
)
def test_must_quote_is_met_by_one_quote(quote):
    assert verify(claim("coded", GOOD[0], quote), TRACE, RUBRIC)[1] == []


@pytest.mark.parametrize("code", ["nonsense", "none", "Pair", ""])
def test_unknown_code_is_refused(code):
    assert refusal(code, *GOOD) == f"{code}: not a code of the rubric test"


@pytest.mark.parametrize(
    ("quote", "source"),
    [("3 files were changed", "message:3"), ("I read the whole file", "step:agent1:1")],
    ids=["tools", "steps"],
)
def test_text_that_the_rubric_does_not_accept_is_refused(quote, source):
    reason = refusal("free", (quote, source))
    assert f"{source} is text that the rubric does not accept as evidence" in reason


def test_text_that_the_rubric_does_not_accept_is_not_named_as_the_right_source():
    reason = refusal("free", ("3 files were changed", "message:1"))
    assert "message:3" not in reason


def test_words_of_an_agent_named_from_a_text_that_is_not_accepted_are_moved():
    evidence, wrong = verify(claim("free", ("I take the parser", "message:3")), TRACE, RUBRIC)
    assert (wrong, [(item.source, item.match) for item in evidence]) == (
        [],
        [("message:1", "moved")],
    )
    both = Message(3, "shell", (), "agent1: I take the parser", author="tool")
    trace = replace(TRACE, messages=(*TRACE.messages[:2], both))
    _, (reason,) = verify(claim("free", ("I take the parser", "message:3")), trace, RUBRIC)
    assert "message:3 is text that the rubric does not accept" in reason


def test_rubric_that_accepts_tools_accepts_them():
    rubric = RUBRIC.model_copy(update={"quote_from": ("tools", "steps")})
    quotes = (("3 files were changed", "message:3"), ("I read the whole file", "step:agent1:1"))
    evidence, wrong = verify(claim("pair", *quotes), TRACE, rubric)
    assert wrong == []
    assert [one.source for one in evidence] == ["message:3", "step:agent1:1"]


def test_second_claim_of_a_code_is_refused():
    verdict = Verdict((claim("free", GOOD[0]), claim("free", GOOD[1]), claim("pair", *GOOD)))
    findings, (rejected,) = check(verdict, TRACE, RUBRIC)
    assert [finding.code for finding in findings] == ["free", "pair"]
    assert findings[0].evidence[0].source == "message:1"
    assert (rejected.code, rejected.reason) == ("free", "free: given twice")


def test_second_claim_of_a_code_stands_if_the_first_does_not():
    verdict = Verdict((claim("free", ("I take the moon", "message:1")), claim("free", GOOD[1])))
    findings, rejected = check(verdict, TRACE, RUBRIC)
    assert [finding.evidence[0].source for finding in findings] == ["message:2"]
    assert [one.code for one in rejected] == ["free"]


def test_no_claims_no_findings():
    assert check(Verdict(), TRACE, RUBRIC) == ([], [])


@pytest.mark.parametrize(
    "spelling",
    [
        "message:2",
        "2",
        "Message 2",
        "[message:2]",
        "message 2",
        "MESSAGE:2",
        "msg 2",
        "m2",
        "#2",
        "[2]",
        "`message:2`",
        "(2)",
        " 2 ",
        "message: 2",
        "message_2",
        "message:02",
    ],
)
def test_source_spellings(spelling):
    evidence, wrong = verify(claim("free", (GOOD[1][0], spelling)), TRACE, RUBRIC)
    assert wrong == []
    assert evidence[0].source == "message:2"


@pytest.mark.parametrize(
    ("spelling", "source"),
    [
        ("[patch:agent1]", "patch:agent1"),
        ("patch agent1", "patch:agent1"),
        ("patch: agent1", "patch:agent1"),
    ],
)
def test_source_spellings_of_patches(spelling, source):
    evidence, wrong = verify(claim("free", ("+parser = 1", spelling)), TRACE, RUBRIC)
    assert wrong == []
    assert evidence[0].source == source


@pytest.mark.parametrize(
    "spelling",
    [
        "",
        "message:0",
        "message:",
        "0",
        "2.0",
        "message:1-2",
        "2, 3",
        "9" * 30,
        "patch:2",
        "*",
    ],
)
def test_source_spellings_that_name_nothing(spelling):
    _, (reason,) = verify(claim("free", (GOOD[1][0], spelling)), TRACE, RUBRIC)
    assert "(no such source)" in reason


@pytest.mark.parametrize(
    "agent", ["planner agent", "coder (gpt)", "a:b", "[bot]", "agent #2", "`x`"]
)
def test_patch_of_an_agent_with_any_name_can_be_quoted(agent):
    trace = Trace("t", "test", "", (), {agent: "+parser = 1\n"})
    (source,) = trace.sources()
    evidence, wrong = verify(claim("free", ("+parser = 1", source.id)), trace, RUBRIC)
    assert wrong == []
    assert evidence[0].source == source.id


@LAW
@given(RICH, RICH, st.sampled_from(["message:1", "message:2", "1", "patch:agent1", "?"]))
def test_what_is_accepted_stands_in_its_source(text, quote, source):
    trace = talk(text, "take the parser", patches={"agent1": text})
    evidence, wrong = verify(claim("free", (quote, source)), trace, RUBRIC)
    assert bool(evidence) is not bool(wrong)
    for one in evidence:
        assert trace.source(one.source).text[one.start : one.end] == one.quote


def test_added_lines_may_be_quoted_without_their_signs():
    patch = "@@ -1,2 +1,4 @@\n-old line\n+first = 1\n+second = 2\n kept = 3\n"
    trace = Trace("t", "x", "", patches={"agent1": patch})
    (span,) = locate("first = 1\nsecond = 2", trace)
    assert (span.quote, span.source) == ("first = 1\n+second = 2", "patch:agent1")
    assert patch[span.start : span.end] == span.quote
    assert locate("old line\nsecond = 2", trace) == []
    assert locate("- first = 1\n- second = 2", trace) == []


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("[[0123456789abcdef0123456789abcdef message:3 from a to b]]", "message:3"),
        ("Outcome", "outcome"),
        ("message:3.", "message:3"),
        ("patch:Agent1", "patch:Agent1"),
        ("Patch: agent1", "patch:agent1"),
    ],
)
def test_sources_are_understood_as_judges_write_them(given, meant):
    assert source_id(given) == meant


def test_a_quote_that_crosses_a_break_is_found_right_behind_it():
    """At 5 it runs across the break at 9; at 10 it does not, though both places overlap."""
    message = Message(1, "b", (), "I'll done done done", breaks=(9,))
    found = locate("done done", Trace("t", "generic", "", (message,)))
    assert [(one.start, one.end) for one in found] == [(10, 19)]


# --- where the quotes of a finding come from

PLACES = {
    "repeated": {
        "places": [["messages"], ["messages"]],
        "authors": "same",
        "separate_messages": True,
    },
    "ignored": {
        "places": [["messages"], ["messages"]],
        "authors": "different",
        "separate_messages": True,
    },
    "refuted": {"places": [["messages"], ["messages", "patches", "outcome"]]},
    "refuted_elsewhere": {
        "places": [["messages"], ["messages", "patches", "outcome"]],
        "separate_messages": True,
    },
    "doubled": {
        "places": [["messages", "patches"], ["messages", "patches"]],
        "authors": "different",
    },
    "broken": {"places": [["patches"], ["outcome"]]},
}
PLACES_RUBRIC = Rubric.model_validate(
    {
        **RUBRIC.model_dump(exclude={"codes", "precedence"}),
        "min_quotes": 1,
        "choice": "many",
        "precedence": [],
        "codes": [{"id": name, **CODE, **fields} for name, fields in PLACES.items()],
    }
)
ASK = ("I take the parser", "message:1")
MORE = ("You take the printer", "message:1")
REPLY = ("Fine, I take the printer now", "message:2")
OWNED = ("The parser is mine", "message:4")
LINE, THEIRS = ("+parser = 1", "patch:agent1"), ("+printer = 1", "patch:agent2")
REPORT = ("CONFLICT in main.py", "outcome")


@pytest.mark.parametrize(
    ("code", "quotes", "fills"),
    [
        ("repeated", (ASK, OWNED), True),
        ("repeated", (ASK, MORE), False),  # one message
        ("repeated", (ASK, REPLY), False),  # two agents
        ("repeated", (ASK, REPLY, OWNED), True),  # with one more beside
        ("repeated", (ASK, LINE), False),
        ("ignored", (ASK, REPLY), True),
        ("ignored", (ASK, OWNED), False),
        ("ignored", (ASK, THEIRS), False),  # a line is no reply
        ("refuted", (ASK, REPORT), True),
        ("refuted", (REPORT, ASK), True),  # in any order
        ("refuted", (ASK, MORE), True),
        ("refuted", (LINE, REPORT), False),
        ("refuted_elsewhere", (ASK, MORE), False),  # one message
        ("refuted_elsewhere", (ASK, OWNED), True),
        ("refuted_elsewhere", (ASK, LINE), True),
        ("refuted_elsewhere", (ASK, MORE, REPORT), True),
        ("doubled", (LINE, THEIRS), True),
        ("doubled", (ASK, THEIRS), True),
        ("doubled", (ASK, LINE), False),
        ("doubled", (ASK, REPORT), False),
        ("broken", (LINE, REPORT), True),
        ("broken", (LINE, THEIRS), False),
        ("broken", (LINE,), False),
    ],
)
def test_the_quotes_of_a_finding_fill_its_places(code, quotes, fills):
    more = Message(4, "agent1", ("agent2",), "The parser is mine.")
    trace = replace(TRACE, messages=(*TRACE.messages, more))
    _, wrong = verify(claim(code, *quotes), trace, PLACES_RUBRIC)
    assert (wrong == []) == fills
    if not fills and len(quotes) > 1:
        assert wrong == [f"{code}: quotes needed: {PLACES_RUBRIC.describe_quotes(code)}"]


def test_a_passage_that_stands_in_one_other_source_only_is_moved():
    evidence, wrong = verify(claim("free", ("I take the parser", "message:2")), TRACE, RUBRIC)
    assert wrong == []
    assert [(item.source, item.match) for item in evidence] == [("message:1", "moved")]
    twice = talk("I take it all", "nothing", "I take it all")
    assert verify(claim("free", ("I take it all", "message:2")), twice, RUBRIC)[1]
