"""Small runs to try the rules on: conversations and patches made up here, of tides mostly."""

from annotator.traces import AgentEnd, Feature, Message, Outcome, Trace
from tests.facts.diffs import change


def talk(*lines, to=()):
    """Return messages from lines "sender: text"."""
    pairs = [line.split(": ", 1) for line in lines]
    return tuple(Message(n, sender, to, text) for n, (sender, text) in enumerate(pairs, 1))


def run(*lines, patches=None, **outcome):
    messages = lines if lines and isinstance(lines[0], Message) else talk(*lines)
    outcome = Outcome(**outcome)
    return Trace("run", "test", "", messages, patches or {}, outcome)


STATUS = "Status of the harbour page: the tide table is finished.\nAll of its tests pass here."
FACT = "The ferry table lists the harbour first, then the pier, and the lighthouse comes last."

BASE = [f"line {n}" for n in range(1, 21)]


def patch(file, at, *added, removed=0):
    """Return a diff that puts lines before base line ``at``, with one line of context around."""
    gone = [f"-{line}" for line in BASE[at - 1 : at - 1 + removed]]
    body = [
        f" {BASE[at - 2]}",
        *gone,
        *(f"+{line}" for line in added),
        f" {BASE[at - 1 + removed]}",
    ]
    old, new = 2 + removed, 2 + len(added)
    head = [f"--- a/{file}", f"+++ b/{file}", f"@@ -{at - 1},{old} +{at - 1},{new} @@"]
    return "\n".join([*head, *body]) + "\n"


OURS = patch("tides.py", 5, "import re", "def tide(hour, unit):", "    return hour * unit")
THEIRS = patch("tides.py", 5, "import re", "def tide(hour, moon):", "    look(moon)")
ELSEWHERE = patch("tides.py", 15, "def moon(hour):", "    return None")
OTHER_FILE = patch("moons.py", 5, "def tide(hour, moon):", "    look(moon)")
TESTS = """E   KeyError: 'ebb' is not there
FAILED tests/test_tides.py::test_ebb - KeyError
FAILED tests/test_tides.py::test_flow - KeyError
"""


def both(one=OURS, two=THEIRS):
    return {"a": one, "b": two}


def conflict(*lines, patches=None, **more):
    return run(*lines, patches=patches or both(), **{"passed": False, "merge": "conflicts"} | more)


def alone(*results, output=TESTS):
    """Return features a, b ... that failed after the merge, with their results alone."""
    return tuple(
        Feature(name, name, False, result, output=output)
        for name, result in zip("ab", results, strict=False)
    )


def dead(*lines, error=None, status="Error", patches=None, features=None):
    return run(
        *lines,
        patches=patches if patches is not None else both(one=""),
        passed=False,
        merge="clean",
        features=alone(False, True) if features is None else features,
        agents=(AgentEnd("a", status=status, error=error), AgentEnd("b", status="Submitted")),
    )


CHAT = ("a: I add a unit to the tide.", "b: I add the moon to it.")

BOTH_PATCHES = [
    ("patch:a", "+import re\n+def tide(hour, unit):\n+    return hour * unit"),
    ("patch:b", "+import re\n+def tide(hour, moon):\n+    look(moon)"),
]
FAILED = ("outcome", "FAILED tests/test_tides.py::test_ebb - KeyError")

SAFE = "a: My tide edits do not conflict with your moon edits."
UNIT = "a: Which unit does your tide table store?"
FINES = "a: Do overdue fines round up or down?"
CARDS = "b: Finished the borrower card layout, moving on to its colours."


def told(*lines, one=OURS, two=ELSEWHERE, **outcome):
    """A run whose patches do not meet, unless others are given."""
    return run(*lines, "b: Good to hear.", patches=both(one, two), **outcome)


RENAMED = change(" import re\n-TIDE_UNIT = 'foot'\n METRE = 1", "tides.py")
NOW = "a: It is finished, TIDE_UNIT now returns metres."

TEXT = ["def tide(hour, moon):", "    look(moon)", "    return hour * 2"]


def agreed(*after, text=TEXT, two=TEXT[:1], before=(), passed=False, merge="conflicts"):
    """A text is sent by a and sent back by b; a's patch has it, and b's what is said here."""
    sent = ["\n".join([head, "code:", *lines]) for head, lines in
            (("a: type: DRAFT", TEXT), ("b: type: AGREE", text))]  # fmt: skip
    patches = both(patch("tides.py", 5, *TEXT), patch("tides.py", 5, *two))
    return run(*before, *sent, *after, patches=patches, passed=passed, merge=merge)


WRITTEN = "b: The tide is written as agreed."


def owners(one="a: You own tides.py.", two="b: No, you own tides.py from now on.", **more):
    return conflict(one, two, **more)


def clean(*lines, features=(), **more):
    more = {"patches": both(), "passed": False, "merge": "clean", "features": features} | more
    return run(*lines, **more)


def lost(*lines, one=OURS, two=ELSEWHERE, works=(True, True), output=TESTS, **more):
    """All merges, and features fail that work alone."""
    features = alone(*works, output=output)
    return clean(*lines, **{"patches": both(one, two), "features": features} | more)


DONE = "a: The tide unit is done and tested."
TAKEN = "a: I'll implement both features, mine and yours."
DID = "a: I added both features, mine and yours."
BACK = "a: I removed your moon feature from my patch."
LOOK = "a: I will add look_moon() to tides.py."
ALONE = "a: I will not touch tides.py."
EBB = ["def ebb(hour):", "    return hour * 2"]
ORDER = "a: I edit tides.py first, then you add the moon on top."
AFTER_YOU = "b: Agreed, after you."
LINE = "a: Please keep the line `return tide(hour)` in it."
CALL = patch("tides.py", 5, "    return tide(hour)")


def twice(*lines, more=(), **outcome):
    """Both patches hold the same function; ``more`` is what a's has beyond it."""
    patches = both(patch("tides.py", 5, *EBB, *more), patch("tides.py", 5, *EBB, "# by the moon"))
    return conflict(*lines, patches=patches, **outcome)


def heads(one, two):
    """Each gives tide() another parameter, unless they are the same."""
    body = " import re\n-def tide(hour):\n+def tide(hour, {}):\n     pass"
    return both(*(change(body.format(x), "tides.py", 5, "class Tide:") for x in (one, two)))


def listed(one, two, name="tide"):
    """Each gives a function another parameter, on a line of its own."""
    body = f" def {name}(\n     hour,\n+    {{}}: str = None,\n     day,\n ):"
    return both(*(change(body.format(x), "tides.py", 5) for x in (one, two)))


def bodies(one="metre(hour)", two="moon(hour)"):
    body = " def tide(hour):\n-    return hour\n+    return {}\n "
    return both(*(change(body.format(x), "tides.py", 5) for x in (one, two)))


HEAD = heads("unit", "moon")["a"]
CALLING = change(" import re\n+print(tide(3))", "moons.py")
IMPORTING = [
    change(" import re\n+from moons import moon", "tides.py"),
    change(" import re\n+from tides import tide", "moons.py"),
]
CIRCLE = "E   ImportError: circular import of tide and moon"


def tangled(*lines, patches=None, output=CIRCLE, **more):
    return lost(*lines, patches=patches or both(*IMPORTING), output=output, **more)


SECOND = "a: I add unit to tide() as its second parameter."
METRES, MOON = "a: I let tide() return metres.", "b: In tide() I look at the moon."


def good(*lines, **more):
    """A run that passed; its patches do not meet."""
    more = {"patches": both(two=OTHER_FILE), "passed": True, "merge": "clean"} | more
    return run(*lines, **more)


PROPOSED, COUNTERED = "a: I propose that tide() returns metres.", "b: Let's return feet instead."
ACCEPTED = "a: Agreed, feet it is."
PAGE = ["a: The moon has a page.", "a: It has a colour.", "a: The page is a table."]
MINE, YOURS = "a: I only touch tides.py.", "b: I will only edit moons.py."
GO_AHEAD = "b: Agreed, go ahead."


def said(*lines):
    """The quotes of whole messages; of each the number and the line."""
    return [(f"message:{n}", line.split(": ", 1)[1]) for n, line in lines]
