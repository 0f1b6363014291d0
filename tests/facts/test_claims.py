"""Facts that hold messages against patches: ``claims`` of one agent, ``combined`` of several."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotator.evidence import spans_in
from annotator.facts import claims, combined, partner, refuted
from annotator.facts.registry import KINDS, know
from annotator.traces import Message, Outcome, Trace
from tests.facts.diffs import change
from tests.growth import FACTOR, LIMIT, growth, parts

WATCHED = frozenset({*claims.KINDS, *partner.KINDS, *refuted.KINDS, *combined.KINDS})


def run(lines, patches, kind=None, **outcome):
    """Return a trace from lines "sender: text" and the patches by agent."""
    pairs = [line.split(": ", 1) for line in lines]
    messages = tuple(
        Message(n, sender, (), text, kind=kind) for n, (sender, text) in enumerate(pairs, 1)
    )
    return Trace("run", "test", "", messages, patches, outcome=Outcome(**outcome))


def quotes(trace, fact):
    """Return what a fact rests on, after checking what holds of every fact."""
    sources = {source.id: source for source in trace.sources(("messages", "patches", "outcome"))}
    assert fact.kind in KINDS
    assert fact.says.isprintable(), fact
    json.dumps(dict(fact.about))
    found = []
    for span in fact.spans:
        source = sources[span.source]
        assert 0 <= span.start < span.end <= len(source.text), fact
        assert not any(span.start <= at < span.end for at in source.breaks), fact
        quote = source.text[span.start : span.end]
        places = [(place.start, place.end) for place in spans_in(quote, source)]
        assert (span.start, span.end) in places or len(places) == 100, (fact, quote)
        found.append(quote)
    return found


def found(trace, kinds=WATCHED):
    """Return the facts of some kinds, each with its quotes."""
    return [(fact, quotes(trace, fact)) for fact in know(trace).of(*kinds)]


def kinds_of(trace):
    return [fact.kind for fact, _ in found(trace)]


# --- one agent's words and its own patch --------------------------------------------------------

TIDES = {"a": change(" harbour\n+tide = 1", "harbour/tides.py")}
RENAMED = {"a": change(" harbour\n-level = 2\n+height = 3", "harbour/tides.py")}

# what "a" writes -> its patches, the kind, the quote of its patch
OWN = {
    "I did not touch tides.py.": (TIDES, "untouched_refuted", "+tide = 1"),
    "I have not edited `harbour/tides.py`.": (TIDES, "untouched_refuted", "+tide = 1"),
    "My patch does not change /srv/harbour/tides.py.": (TIDES, "untouched_refuted", "+tide = 1"),
    "I won't touch tides.py.": (TIDES, "promise_broken", "+tide = 1"),
    "I'm going to draw it, and I will not modify tides.py.": (TIDES, "promise_broken", "+tide = 1"),
    "The level is now = 3.": (RENAMED, "name_not_in_patch", "-level = 2"),
    "level() now returns 3.": (RENAMED, "name_not_in_patch", "-level = 2"),
}


@pytest.mark.parametrize("text", OWN)
def test_words_and_the_own_patch(text):
    patches, kind, shown = OWN[text]
    trace = run([f"a: {text}"], patches)
    [(fact, quoted)] = found(trace)
    assert (fact.kind, fact.agents, quoted) == (kind, ("a",), [text, shown])
    assert fact.about["message"] == 1


NOTHING_OF_ITS_OWN = {
    "hedged": ("I should not touch tides.py.", TIDES),
    "thought": ("I think I did not touch tides.py.", TIDES),
    "under a condition": ("I won't touch tides.py unless you ask for it.", TIDES),
    "for a while": ("I won't touch tides.py until you are done.", TIDES),
    "so far": ("I haven't touched tides.py yet.", TIDES),
    "before something": ("I won't touch tides.py before you do.", TIDES),
    "a part of the file": ("I did not touch tide_row in tides.py.", TIDES),
    "another file": ("I did not touch piers.py.", TIDES),
    "another folder": ("I did not touch library/tides.py.", TIDES),
    "no file": ("I did not touch the tide table.", TIDES),
    "asked for": ("Please don't touch tides.py.", TIDES),
    "asked": ("Did you say that you won't touch tides.py?", TIDES),
    "of the partner": ("You won't touch tides.py, I hope.", TIDES),
    "what it only touches": ("I'll only touch piers.py.", TIDES),
    "the partner changes it": ("I did not touch tides.py.", {"b": TIDES["a"]}),
    "an empty patch": ("I did not touch tides.py.", {"a": ""}),
    "only renamed": (
        "I did not touch tides.py.",
        {"a": "diff --git a/tides.py b/x.py\nrename from tides.py\nrename to x.py\n"},
    ),
    "the name is added": ("The height is now = 3.", RENAMED),
    "the name is shown": ("The harbour is now = 3.", RENAMED),
    "no such name": ("The pier is now = 3.", RENAMED),
    "a longer name": ("The lev is now = 3.", RENAMED),
    "the name is removed and added": (
        "The level is now = 3.",
        {"a": change("-level = 2\n+level = 3", "tides.py")},
    ),
    "a question of the name": ("Is it so that level is now equal to 3?", RENAMED),
    "a name of the partner's patch": ("The level is now = 3.", {"b": RENAMED["a"]}),
    "code in a message": ("```\nlevel now is 3, I did not touch tides.py\n```", RENAMED),
    "quoted": ("> I did not touch tides.py.", TIDES),
}


@pytest.mark.parametrize("case", NOTHING_OF_ITS_OWN)
def test_nothing_against_the_own_patch(case):
    text, patches = NOTHING_OF_ITS_OWN[case]
    assert kinds_of(run([f"a: {text}"], patches)) == []


def test_each_file_that_was_to_be_left_alone_counts():
    text = "I won't touch tides.py or piers.py or loans.py."
    patch = change("+tide = 1", "tides.py") + change("+pier = 2", "src/piers.py")
    trace = run([f"a: {text}"], {"a": patch})
    assert [(fact.about["path"], quoted[1]) for fact, quoted in found(trace)] == [
        ("tides.py", "+tide = 1"),
        ("src/piers.py", "+pier = 2"),
    ]


# --- the partner's part -------------------------------------------------------------------------

# text -> whether it says that it is done
PARTNER_WORK = {
    "I will implement both mine and yours.": False,
    "I'll do your half too.": False,
    "I'll add the tide row (mine) and the loan row (yours).": False,
    "I will add the row for both of us.": False,
    "I added both features.": True,
    "I have implemented your tide_row as well.": True,
    "I also implemented your `lossless` option, so both features are there.": True,
    "Done with everything, yours included.": True,
}
NO_PARTNER_WORK = [
    "I could implement your row.",
    "If you like, I'll implement your row.",
    "Please implement your row as well.",
    "Could you do both features?",
    "I'll add both files.",
    "I updated both files, `tides.py` and `piers.py`, for the new clock.",
    "I'll implement the row using your table.",
    "I will implement it for your review.",
    "I added the tide row against your table.",
    "Both tests of mine pass, and both features are green.",
    "I won't implement your row.",
    "You implemented both features.",
    "My resolver is finished; yours I have not looked at.",
    "Implemented both branches of the conversion that my issue lists.",
    "I have read your spec and I have no objection to it.",
]


@pytest.mark.parametrize("text", PARTNER_WORK)
def test_the_partners_part(text):
    trace = run(["a: Hello there.", f"a: {text}"], {})
    [(fact, quoted)] = found(trace)
    assert (fact.kind, quoted, fact.agents) == ("partner_work", [text], ("a",))
    assert fact.about["done"] is PARTNER_WORK[text]


@pytest.mark.parametrize("text", NO_PARTNER_WORK)
def test_not_the_partners_part(text):
    assert kinds_of(run(["a: Hello there.", f"a: {text}"], {})) == []


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (["a: type: DRAFT\nnote: I added both features."], None),
        (["a: I will draw the clock first. I added both features."], None),
        (["a: Hello there.", "a: I added both features."], "PROPOSE"),
    ],
)
def test_what_a_plan_says_is_done_is_still_to_do(lines, kind):
    [(fact, quoted)] = found(run(lines, {}, kind=kind))
    assert (fact.kind, fact.about["done"]) == ("partner_work", False)
    assert quoted == ["I added both features."]


# --- assurances and orders, where patches meet --------------------------------------------------

OURS = change(" harbour\n-tide = 1\n+tide = 2", "tides.py")
THEIRS = change(" harbour\n-tide = 1\n+tide = 3", "tides.py")
BESIDE = change(" harbour\n-tide = 1\n+tide = 2\n pier", "tides.py")
BELOW = change(" harbour\n tide = 1\n-pier\n+quay", "tides.py")
APART = change("+lamp = 1", "tides.py", at=50)
MEET = {"a": OURS, "b": THEIRS}
SAME = {"a": OURS, "b": OURS}
AT_A, AT_B = "-tide = 1\n+tide = 2", "-tide = 1\n+tide = 3"

# what "a" writes -> (claim, hedged)
REFUTED = {
    "Our edits merge cleanly.": ("no_conflict", False),
    "There is no overlap between our patches.": ("no_conflict", False),
    "We work in disjoint parts of tides.py.": ("disjoint", False),
    "Our patches are graded separately.": ("independent", False),
    "Our edits should merge cleanly.": ("no_conflict", True),
    "As long as you stay away, our edits don't collide.": ("no_conflict", True),
}


@pytest.mark.parametrize("text", REFUTED)
def test_an_assurance_where_the_patches_meet(text):
    trace = run([f"a: {text}"], MEET, merge="conflicts")
    [(fact, quoted)] = found(trace)
    assert (fact.kind, fact.agents) == ("assurance_refuted", ("a", "b"))
    assert quoted == [text, AT_A, AT_B]
    assert (fact.about["claim"], fact.about["hedged"]) == REFUTED[text]
    assert (fact.about["path"], fact.about["merge"]) == ("tides.py", "conflicts")


FINE = "Our edits merge cleanly."
NOT_REFUTED = {
    "they do not meet": (FINE, {"a": OURS, "b": APART}, None),
    "another file": (FINE, {"a": OURS, "b": change("+tide = 3", "piers.py")}, None),
    "one patch": (FINE, {"a": OURS}, "conflicts"),
    "one of them empty": (FINE, {"a": OURS, "b": ""}, "conflicts"),
    "the same edit, clean merge": (FINE, SAME, "clean"),
    "the same edit, merge not known": (FINE, SAME, None),
    "asked": ("Do our edits merge cleanly, or is there a conflict?", MEET, "conflicts"),
    "asked for": ("Please make sure that our edits merge cleanly.", MEET, "conflicts"),
    "proposed": ("I propose separate files so our edits do not collide.", MEET, "conflicts"),
    "a purpose": ("I put it below so that we don't collide.", MEET, "conflicts"),
    "a clash": ("Our edits do overlap in tide_row.", MEET, "conflicts"),
    "of an own merge": ("I merged your branch and there were no conflicts.", MEET, "conflicts"),
    "quoted": (f"> {FINE}", MEET, "conflicts"),
}


@pytest.mark.parametrize("case", NOT_REFUTED)
def test_no_assurance_refuted(case):
    text, patches, merge = NOT_REFUTED[case]
    assert kinds_of(run([f"a: {text}"], patches, merge=merge)) == []


def test_lines_beside_each_other_refute_as_well_but_equal_ones_never():
    trace = run([f"a: {FINE}"], {"a": BESIDE, "b": BELOW}, merge="conflicts")
    [(fact, quoted)] = found(trace)
    assert (fact.kind, quoted[:2]) == ("assurance_refuted", [FINE, AT_A])
    assert kinds_of(run([f"a: {FINE}"], SAME, merge="conflicts")) == []


def test_without_a_conflict_of_its_own_an_agent_is_not_refuted():
    trace = run([f"c: {FINE}"], {**MEET, "c": APART}, merge="conflicts")
    assert kinds_of(trace) == []


# the messages -> who goes first, the quotes of messages
ORDERS = {
    "accepted": (["a: You go first.", "b: Agreed."], "b", ["You go first."]),
    "stated alike": (
        ["a: You go first.", "b: I'll go first."],
        "b",
        ["I'll go first.", "You go first."],
    ),
    "offered and accepted": (
        ["a: I could go first.", "b: Sounds good to me."],
        "a",
        ["I could go first."],
    ),
    "accepted late": (
        ["a: I push first.", "a: The tide is high.", "b: It is low.", "b: Works for me."],
        "a",
        ["I push first."],
    ),
    "said twice": (["a: You go first.", "a: You push first.", "b: Ok."], "b", ["You push first."]),
}


@pytest.mark.parametrize("case", ORDERS)
def test_an_agreed_order_where_the_patches_meet(case):
    lines, first, spoken = ORDERS[case]
    [(fact, quoted)] = found(run(lines, MEET))
    assert (fact.kind, fact.agents) == ("order_lost", ("a", "b"))
    assert quoted == [*spoken, AT_A, AT_B]
    assert fact.about["first"] == first


NO_ORDER_LOST = {
    "nobody accepts": (["a: You go first.", "b: The tide is high."], MEET),
    "both yield": (["a: You go first.", "b: You go first."], MEET),
    "offered by both": (["a: I could go first.", "b: You could go first."], MEET),
    "an offer": (["a: If you prefer, you go first.", "b: Agreed."], MEET),
    "asked": (["a: Which of us should go first here?", "b: Agreed."], MEET),
    "the patches do not meet": (["a: You go first.", "b: Agreed."], {"a": OURS, "b": APART}),
    "the same edit": (["a: You go first.", "b: Agreed."], SAME),
    "accepted before": (["b: Agreed.", "a: You go first."], MEET),
    "accepted by oneself": (["a: You go first.", "a: Agreed."], MEET),
    "too late": (["a: You go first.", *["b: The tide is high."] * 5, "b: Agreed."], MEET),
    "one patch": (["a: You go first.", "b: Agreed."], {"a": OURS}),
    "about the words": (["a: I'll ping you before you push.", "b: Agreed."], MEET),
}


@pytest.mark.parametrize("case", NO_ORDER_LOST)
def test_no_order_lost(case):
    assert kinds_of(run(*NO_ORDER_LOST[case])) == []


# --- owners and requests ------------------------------------------------------------------------


def test_each_calls_the_other_the_owner():
    lines = ["a: You own tides.py.", "b: You fully own tides.py, go on."]
    [(fact, quoted)] = found(run(lines, MEET))
    assert (fact.kind, fact.agents) == ("ownership_crossed", ("a", "b"))
    assert quoted == ["You own tides.py.", "You fully own tides.py, go on."]
    assert fact.about["path"] == "tides.py"


@pytest.mark.parametrize(
    ("lines", "patches"),
    [
        (["a: You own tides.py.", "b: I own tides.py."], MEET),
        (["a: You own tides.py.", "a: You own tides.py."], MEET),
        (["a: Do you own tides.py or do I?", "b: You own tides.py."], MEET),
        (["a: You own tides.py.", "b: You own tides.py."], {"a": OURS}),
        (["a: You own it.", "b: You own it."], {"a": OURS, "b": change("+x y", "piers.py")}),
    ],
)
def test_no_owners_crossed(lines, patches):
    assert kinds_of(run(lines, patches)) == []


ASKED = {
    "a": change("+    tide = level(3)\n+    ebb = 1", "tides.py"),
    "b": change("+lamp = 1", "tides.py", at=40),
}
REQUESTS = [
    "Please add `tide = level(3)` to your patch.",
    "You should keep 'tide = level(3)' there.",
    'Just put "tide  =  level(3)" at the end.',
    "You can append `level(3)` to it.",
]


@pytest.mark.parametrize("text", REQUESTS)
def test_a_line_that_was_asked_for(text):
    [(fact, quoted)] = found(run([f"a: {text}"], ASKED))
    assert (fact.kind, fact.agents) == ("request_not_followed", ("a", "b"))
    assert quoted == [text, "+    tide = level(3)".strip()]


WISH = REQUESTS[0]
NOT_ASKED = {
    "the partner has it": (WISH, change("+  tide=level( 3 )", "piers.py")),
    "the partner's file shows it": (WISH, change(" tide = level(3)\n+lamp = 1", "piers.py")),
    "not in the own patch": ("Please add `tide = level(4)` to your patch.", ASKED["b"]),
    "no code": ("Please add `a high tide` to your patch.", ASKED["b"]),
    "not quoted": ("Please add tide = level(3) to your patch.", ASKED["b"]),
    "told": ("I added `tide = level(3)` to my patch.", ASKED["b"]),
    "no patch of the partner": (WISH, ""),
    "in a block": (f"```\n{WISH}\n```", ASKED["b"]),
}


@pytest.mark.parametrize("case", NOT_ASKED)
def test_no_request_left(case):
    text, other = NOT_ASKED[case]
    assert kinds_of(run([f"a: {text}"], {"a": ASKED["a"], "b": other})) == []


# --- texts that were agreed, and work that is carried -------------------------------------------

CODE = "```\ntide = level(1)\nebb = level(2)\nimport harbour\n```"
LATER = CODE.replace("level(2)", "level(5)")
WHOLE = change("+tide = level(1)\n+ebb = level(2)\n+import harbour", "tides.py")
PART = change("+tide = level(1)\n+import harbour", "tides.py", at=40)
NO_IMPORT = change("+tide = level(1)\n+ebb = level(2)", "tides.py", at=40)
BACK = [f"a: {CODE}", f"b: Agreed.\n{CODE}"]


@pytest.mark.parametrize(
    ("lines", "patches", "agents", "spoken"),
    [
        (BACK, (WHOLE, PART), ("a", "b"), "ebb = level(2)"),
        (BACK, (PART, WHOLE), ("b", "a"), "ebb = level(2)"),
        (
            [*BACK, f"a: {LATER}", f"b: Agreed.\n{LATER}"],
            (WHOLE.replace("level(2)", "level(5)"), PART),
            ("a", "b"),
            "ebb = level(5)",
        ),
    ],
)
def test_an_agreed_text_that_one_patch_lacks(lines, patches, agents, spoken):
    trace = run(lines, dict(zip("ab", patches, strict=True)))
    [(fact, quoted)] = found(trace)
    assert (fact.kind, fact.agents) == ("agreed_text_differs", agents)
    assert quoted == [spoken, f"+{spoken}"]
    assert (fact.about["missing"], fact.about["lacks"]) == (1, agents[1])
    assert fact.about["message"] == len(lines)


SHORT = "```\ntide = level(1)\n```"
NO_AGREED_TEXT = {
    "only an import": (BACK, (WHOLE, NO_IMPORT)),
    "both have it": (BACK, (WHOLE, WHOLE)),
    "neither has it": (BACK, (APART, change("+quay = 1", "x.py"))),
    "shown but not added": (BACK, (WHOLE, change(" tide = level(1)\n ebb = level(2)\n+x y"))),
    "sent once": ([*BACK[:1], "b: Agreed."], (WHOLE, PART)),
    "sent twice by one": ([*BACK[:1], f"a: {CODE}"], (WHOLE, PART)),
    "another text": ([BACK[0], f"b: {LATER}"], (WHOLE, PART)),
    "replaced later": ([*BACK, f"a: {LATER}", f"b: Agreed.\n{LATER}"], (WHOLE, WHOLE)),
    "one line": ([f"a: {SHORT}", f"b: {SHORT}"], (change("+tide = level(1)"), APART)),
    "one patch": (BACK, (WHOLE, "")),
}


@pytest.mark.parametrize("case", NO_AGREED_TEXT)
def test_no_agreed_text_lacks(case):
    lines, patches = NO_AGREED_TEXT[case]
    assert kinds_of(run(lines, dict(zip("ab", patches, strict=True)))) == []


def added(*names, at=1):
    return change("\n".join(f"+{name} = level({len(name)})" for name in names), "tides.py", at=at)


def test_a_patch_that_holds_most_of_another():
    small, large = added("tide", "ebb"), added("tide", "ebb", "pier", "quay", "lock", at=60)
    [(fact, quoted)] = found(run(["a: Hello there."], {"a": small, "b": large}))
    assert (fact.kind, fact.agents) == ("work_carried", ("b", "a"))
    assert quoted == ["+tide = level(4)", "+tide = level(4)"]
    assert (fact.about["lines"], fact.about["of"], fact.about["share"]) == (2, 2, 1.0)


FOUR = ("tide", "ebb", "pier", "quay")
CARRIED = {
    "half": (FOUR, ("tide", "ebb", "lock", "lamp", "rope"), [("b", "a")]),
    "each half": (FOUR, ("tide", "ebb", "lock", "lamp"), [("a", "b"), ("b", "a")]),
    "under half": ((*FOUR, "buoy"), ("tide", "ebb", "lock", "lamp", "rope"), []),
    "one line": (("tide",), ("tide", "lock", "lamp"), []),
    "nothing": (FOUR, ("lock", "lamp"), []),
}


@pytest.mark.parametrize("case", CARRIED)
def test_how_much_is_carried(case):
    ours, theirs, expected = CARRIED[case]
    trace = run(["a: Hello there."], {"a": added(*ours), "b": added(*theirs, at=60)})
    assert sorted(fact.agents for fact, _ in found(trace)) == expected


def test_code_shown_in_messages_is_not_carried_over():
    small, large = added("tide", "ebb"), added("tide", "ebb", "pier", at=60)
    shown = "a: ```\ntide = level(4)\nebb = level(3)\n```"
    assert kinds_of(run([shown], {"a": small, "b": large})) == []


def test_patches_alone_say_nothing():
    assert kinds_of(run([], SAME, merge="conflicts")) == []


# --- laws ---------------------------------------------------------------------------------------

AGENTS = ("a", "b", "c\u202e\x1b[31m")
PIECES = st.sampled_from([
    "I won't touch", "I did not touch", "tides.py", "`tides.py`", "and", "no conflict", "between",
    "our edits", ".", ",", "", "\n", "level is now = 3", "implement", "both", "your feature",
    "(yours)", "You own", "tides.py.", "please add", "'tide = level(1)'", "`level(1)`", "you go",
    "I push", "first", "Agreed.", "I'll layer it on top", "```\n", "\n```\n", "tide = level(1)",
    "ebb = level(2)", "import harbour", "type: DRAFT", "code:", "\nnote:", "done", "all", "if",
    "merge cleanly.", "should", "?", "graded separately.", "disjoint lines", "right after", "1.5",
    "`def f()`", "dropped", "from my patch", "don't", "e.g.", "*x*", "> x", "- -3", "é", "İ",
    "\x00", "\x85", "\u2028", "\u202e", "\u0301", "\udcff",
])  # fmt: skip
TEXTS = st.lists(PIECES, max_size=18).map(" ".join) | st.text(max_size=20)
LINES = st.sampled_from([
    " harbour", "-tide = 1", "+tide = level(1)", "+ebb = level(2)", "-level = 2", "+import harbour",
    "+x", "+", "@@ -1,3 +1,4 @@ def f():", "--- a/tides.py", "+++ b/tides.py", "\\ No newline",
    "diff --git a/x.png b/x.png", "Binary files a/x.png and b/x.png differ", "+é\x00 \u202eb",
    "+\udcff ab cd", "+\x85 y z", "+\u0301a b",
])  # fmt: skip
BODIES = st.lists(LINES, min_size=1, max_size=9).map("\n".join)
PATCHES = BODIES.map(lambda body: change(body, "tides.py")) | st.text(max_size=30)
BREAKABLE = frozenset(" \n")


@st.composite
def runs(draw):
    messages = []
    for n, text in enumerate(draw(st.lists(TEXTS, max_size=5)), 1):
        places = [at for at, char in enumerate(text) if char in BREAKABLE]
        breaks = draw(st.sets(st.sampled_from(places), max_size=2)) if places else ()
        kind = draw(st.sampled_from([None, None, "PROPOSE", "DONE"]))
        sender = draw(st.sampled_from(AGENTS))
        messages.append(Message(n, sender, (), text, kind=kind, breaks=tuple(sorted(breaks))))
    patches = {agent: draw(PATCHES) for agent in AGENTS[: draw(st.integers(0, 3))]}
    outcome = Outcome(merge=draw(st.sampled_from([None, "clean", "conflicts"])))
    return Trace("run", "test", "", tuple(messages), patches, outcome=outcome)


@settings(max_examples=300)
@given(runs())
def test_any_run_gives_facts_that_can_be_quoted(trace):
    everything = list(know(trace))
    assert everything == list(know(trace))
    for fact in everything:
        assert fact.kind in KINDS
        for text in quotes(trace, fact):
            assert text == text.strip()


@settings(max_examples=60)
@given(runs())
def test_facts_of_a_kind_are_those_among_all(trace):
    everything = list(know(trace))
    for kind in KINDS:
        assert know(trace).of(kind) == [fact for fact in everything if fact.kind == kind]
    some = sorted(KINDS)[::3]
    assert know(trace).of(*some) == [fact for fact in everything if fact.kind in some]
    known = know(trace)
    assert known.of() == []
    assert known.of("work_carried") + known.of("work_carried") == 2 * known.of("work_carried")
    assert Counter(fact.kind for fact in known) == Counter(fact.kind for fact in everything)


# --- bounds -------------------------------------------------------------------------------------


def block(n=0):
    """A block of 200 lines, other ones for every number."""
    return "```\n" + "\n".join(f"tide_{n}_{row} = level({row})" for row in range(200)) + "\n```"


def rows(last, count):
    return "\n".join(f"+    tide_0_{row} = level(harbour, {last})" for row in range(count))


def hunks(agent, count):
    pieces = (f"@@ -{9 * n} +{9 * n} @@\n-tide = {n}\n+tide_{agent} = {n}\n" for n in range(count))
    return "--- a/tides.py\n+++ b/tides.py\n" + "".join(pieces)


def patched(one, two):
    return [change(one, "tides.py"), change(two, "tides.py")]


def hostile(part):
    """Messages and patches, what is long in each one part in so many of the whole."""
    talk = ["Our edits merge cleanly. You go first. You own tides.py. tide_0_1 is now = 3."] * 2
    n, small = 2_000 // part, "```\nab = cde\nfg = hij\n```\nx\n"
    few, one, two = patched(rows(1, 100), rows(2, 100)), rows(1, 22 * n), rows(2, 22 * n)
    return {
        "many blocks": ([block(k) for k in range(n)], few),
        "one block, many times": ([block()] * n, few),
        "many small blocks": ([small * 20] * n, patched("+x y", "+y z")),
        "two megabytes, equal": (talk, patched(one, one)),
        "two megabytes": (talk, patched(one, two)),
        "a line of two megabytes": (
            talk,
            patched("+" + "tide(" * (200 * n), "+" + "ebb " * (250 * n)),
        ),
        "many hunks": (talk, [hunks(agent, 10 * n) for agent in "ab"]),
    }


@pytest.mark.parametrize("part", parts(10))
@pytest.mark.parametrize("case", hostile(1_000))
def test_hostile_runs_take_bounded_time(case, part):
    traces = []
    for texts, patches in (hostile(one)[case] for one in (FACTOR * part, part)):
        lines = [f"{'ab'[n % 2]}: {text}" for n, text in enumerate(texts)]
        traces.append(run(lines, dict(zip("ab", patches, strict=True))))
    assert growth(lambda trace: know(trace).of(*WATCHED), *traces) < LIMIT
