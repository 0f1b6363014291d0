"""What each rule of the rules judge finds, what it just misses, and what stands beside what.

The runs are small: conversations and patches made up here, of tides mostly.
"""

from annotator.cooperbench.rules import comm_errors, emergent, symptoms
from annotator.traces import AgentEnd, Feature
from tests.cooperbench.facts.diffs import change
from tests.cooperbench.facts.diffs import run as _run

BASE = [f"line {n}" for n in range(1, 21)]
TESTS = """E   KeyError: 'ebb' is not there
FAILED tests/test_tides.py::test_ebb - KeyError
FAILED tests/test_tides.py::test_flow - KeyError
"""
FAILED = ("outcome", "FAILED tests/test_tides.py::test_ebb - KeyError")


def run(*lines, patches=None, **outcome):
    return _run(lines, patches, **outcome)


def patch(file, at, *added, removed=0):
    """Return a diff that puts lines before base line ``at``, with one line of context around."""
    gone = [f"-{line}" for line in BASE[at - 1 : at - 1 + removed]]
    new = [f"+{line}" for line in added]
    body = [f" {BASE[at - 2]}", *gone, *new, f" {BASE[at - 1 + removed]}"]
    return change("\n".join(body), file, at - 1)


OURS = patch("tides.py", 5, "import re", "def tide(hour, unit):", "    return hour * unit")
THEIRS = patch("tides.py", 5, "import re", "def tide(hour, moon):", "    look(moon)")
ELSEWHERE = patch("tides.py", 15, "def moon(hour):", "    return None")
OTHER_FILE = patch("moons.py", 5, "def tide(hour, moon):", "    look(moon)")
BOTH_PATCHES = [
    ("patch:a", "+def tide(hour, unit):\n+    return hour * unit"),
    ("patch:b", "+def tide(hour, moon):\n+    look(moon)"),
]


def both(one=OURS, two=THEIRS):
    return {"a": one, "b": two}


def conflict(*lines, patches=None, **more):
    return run(*lines, patches=patches or both(), **{"passed": False, "merge": "conflicts"} | more)


def clean(*lines, features=(), **more):
    more = {"patches": both(two=OTHER_FILE), "passed": False, "merge": "clean"} | more
    return run(*lines, features=features, **more)


def good(*lines, **more):
    """A run that passed; its patches do not meet."""
    return clean(*lines, **{"passed": True} | more)


def alone(*results, output=TESTS):
    """Return features a, b ... that failed after the merge, with their results alone."""
    named = zip("ab", results, strict=False)
    return tuple(Feature(name, name, False, result, output=output) for name, result in named)


def dead(*lines, error=None, status="Error", patches=None, features=None, merge="clean"):
    """A run in which a delivered nothing, unless patches are given."""
    return run(
        *lines,
        patches=patches if patches is not None else both(one=""),
        passed=False,
        merge=merge,
        features=alone(False, True) if features is None else features,
        agents=(AgentEnd("a", status=status, error=error), AgentEnd("b", status="Submitted")),
    )


def said(*lines):
    """The quotes of whole messages; of each the number and the line."""
    return [(f"message:{n}", line.split(": ", 1)[1]) for n, line in lines]


CHAT = ("a: Good morning to you.", "b: It is a fine day.")
SAFE = "a: Our edits in tides.py do not conflict."
CLASH = "b: Our patches do overlap in tides.py."
MAP, UNIT = "b: I take the map.", "a: Which unit does your tide table store?"
DONE = "a: The tide unit is done and tested."
TAKEN = "a: I'll implement both features, mine and yours."
DID = "a: I added both features, mine and yours."
BACK = "a: I removed your moon feature from my patch."
ORDER = "a: I edit tides.py first, then you add the moon on top."
AFTER_YOU, GO_AHEAD = "b: Agreed, after you.", "b: Agreed, go ahead."
PROPOSED, COUNTERED = "a: I propose that tide() returns metres.", "b: Let's return feet instead."
ACCEPTED = "a: Agreed, feet it is."
PAGE = ["a: The moon has a page.", "a: It has a colour.", "a: The page is a table."]
MINE, YOURS = "a: I only touch tides.py.", "b: I will only edit moons.py."

EBB = ["def ebb(hour):", "    return hour * 2"]
SHOWN = "\n".join(["a: type: DRAFT", "code:", *EBB])


def twice(*lines, more=(), **outcome):
    """Both patches hold the same function; ``more`` is what a's has beyond it."""
    own = "flow = hour - 1", "wave = hour + 1"
    ours, theirs = (patch("tides.py", 5, *EBB, x) for x in own)
    ours = patch("tides.py", 5, *EBB, own[0], *more) if more else ours
    return conflict(*lines, patches=both(ours, theirs), **outcome)


ELSEWHERE_TOO = patch("moons.py", 15, *EBB)
EBB_TWICE = [("patch:a", "+def ebb(hour):"), ("patch:b", "+def ebb(hour):")]
WRONG, AGAIN = "a: I was wrong, there is a conflict in tides.py.", "a: No conflict in our patches."

# The rules and their codes.
CODES = {
    comm_errors.find_refuted_assurance: "C3a",
    comm_errors.find_unanswered_question: "C1a",
    symptoms.find_claim_without_delivery: "broken_commitment",
    symptoms.find_missing_delivery: "implementation_failure",
    symptoms.find_lone_failure_after_merge: "implementation_failure",
    symptoms.find_broken_order: "timing_dependency",
    symptoms.find_duplicate_work: "work_overlap",
    symptoms.find_silent_overlap: "work_overlap",
    emergent.find_negotiation: "negotiation",
    emergent.find_resource_division: "resource_division",
    emergent.find_role_division: "role_division",
}
(
    ASSURED, UNANSWERED, CLAIMED, MISSING, LONE, ORDERED, TWICE, SILENT, NEGOTIATED, DIVIDED,
    TAKEN_OVER,
) = CODES  # fmt: skip

# The rule, a run and the quotes.
HITS = {
    "nothing clashes": (ASSURED, conflict(SAFE), [*said((1, SAFE)), *BOTH_PATCHES]),
    "nothing clashes, merge not reported": (ASSURED, conflict(SAFE, merge=None),
        [*said((1, SAFE)), *BOTH_PATCHES]),
    "nothing clashes, corrected and said again": (ASSURED, conflict(SAFE, CLASH, AGAIN),
        [*said((3, AGAIN)), *BOTH_PATCHES]),
    "no reply": (UNANSWERED, run(MAP, UNIT, patches={"b": ""}), said((2, UNIT), (1, MAP))),
    "no reply, for the partner crashed": (UNANSWERED,
        run(UNIT, agents=(AgentEnd("b", status="Error", error="out of memory"),),
            patches={"b": ""}),
        [*said((1, UNIT)), ("outcome", "out of memory")]),
    "done, but empty": (CLAIMED, dead(DONE), [*said((1, DONE)), FAILED]),
    "done, but crashed": (CLAIMED, dead(DONE, patches=both(), error="out of memory"),
        [*said((1, DONE)), ("outcome", "out of memory")]),
    "empty": (MISSING, dead(status="x"), [FAILED]),
    "crashed": (MISSING, dead(*CHAT, patches=both(), error="out of memory"),
        [("outcome", "out of memory")]),
    "fails alone": (LONE, clean(*CHAT, features=alone(False, False)), [FAILED]),
    "order accepted": (ORDERED, conflict(ORDER, AFTER_YOU), [*said((1, ORDER)), *BOTH_PATCHES]),
    "both carry the work": (TWICE, twice("a: I add the ebb."), EBB_TWICE),
    "both carry the work, in two places": (TWICE,
        conflict(*CHAT, patches=both(patch("tides.py", 5, *EBB, "x = 1"), patch("tides.py", 5,
            "y = 1") + ELSEWHERE_TOO)),
        EBB_TWICE),
    "did the partner's part": (TWICE, conflict(DID), [*said((1, DID)), *BOTH_PATCHES]),
    "carried by others than those who meet": (SILENT,
        conflict(*CHAT, patches=both() | {"c": OTHER_FILE}), BOTH_PATCHES),
    "same place, unspoken": (SILENT, conflict(*CHAT), BOTH_PATCHES),
    "same place, not reported": (SILENT, run(patches=both()), BOTH_PATCHES),
    "negotiated": (NEGOTIATED, good(PROPOSED, COUNTERED, ACCEPTED),
        said((1, PROPOSED), (2, COUNTERED), (3, ACCEPTED))),
    "negotiated, accepted at last, then done": (NEGOTIATED,
        good(PROPOSED, COUNTERED, *PAGE[:2], ACCEPTED, "b: I added feet to tide()."),
        said((1, PROPOSED), (2, COUNTERED), (5, ACCEPTED))),
    "files": (DIVIDED, good(MINE, YOURS), said((1, MINE), (2, YOURS))),
    "files of the other": (DIVIDED,
        good(one := "a: I will not touch moons.py.", two := "b: I won't edit tides.py."),
        said((1, one), (2, two))),
    "code": (DIVIDED,
        good(one := "a: I only touch tide().", two := "b: I only edit moon().",
            patches=both(two=ELSEWHERE)),
        said((1, one), (2, two))),
    "part taken over": (TAKEN_OVER, good(TAKEN, GO_AHEAD), said((1, TAKEN), (2, GO_AHEAD))),
}  # fmt: skip

MISSES = {
    ASSURED: {
        "corrected": conflict(SAFE, CLASH),
        "corrected by the same agent": conflict(SAFE, WRONG),
        "a clean merge": conflict(SAFE, merge="clean"),
        "nothing there says anything": conflict(
            SAFE, patches=both(*(patch("tides.py", 5, x) for x in ("def __init__(", "else:")))
        ),
    },
    UNANSWERED: {
        "a chat by turns that ends there": run(MAP, UNIT),
        "a chat by turns of a known team": run(MAP, UNIT, agents=(AgentEnd("a"), AgentEnd("b"))),
        "answered": run(UNIT, "b: It stores metres."),
        "nothing shows it": run(UNIT, patches={"b": ""}),
    },
    CLAIMED: {
        "a plan": dead(f"a: type: PLAN\nnote: {DONE[3:]}"),
        "the partner's": dead(f"b{DONE[1:]}"),
        "its patch works alone": dead(DONE, patches=both(), features=alone(True, True)),
        "delivered": dead(DONE, patches=both(), status="Submitted"),
        "nothing shows it": dead(DONE, features=()),
    },
    MISSING: {
        "its patch works alone": dead(patches=both(), features=alone(True, True)),
        "delivered": dead(patches=both(), status="Submitted"),
        "nothing shows it": dead(features=()),
    },
    LONE: {
        "one works alone": clean(features=alone(False, True)),
        "alone it is not known": clean(features=alone(False, None)),
        "a conflict": clean(features=alone(False, False), merge="conflicts"),
        "the merge is not known": clean(features=alone(False, False), merge=None),
        "no feature": clean(),
        "nothing shows it": clean(features=alone(False, False, output="")),
    },
    ORDERED: {
        "not agreed": conflict(ORDER, "b: The moon needs a page of its own."),
        "the patches do not meet": conflict(ORDER, AFTER_YOU, patches=both(two=OTHER_FILE)),
        "a clean merge": conflict(ORDER, AFTER_YOU, merge="clean"),
    },
    TWICE: {
        "one carries the other's": twice(more=["x = ebb(1)", "y = ebb(2)", "z = ebb(3)"]),
        "shown to be written by both": twice(SHOWN),
        "carried, a clean merge": twice(merge="clean"),
        "only promised": conflict(TAKEN),
        "only drafted": conflict(f"a: type: DRAFT\nnote: {DID[3:]}"),
        "taken back": conflict(DID, BACK),
        "the patches do not meet": conflict(DID, patches=both(two=OTHER_FILE)),
        "the patches of others meet": conflict(
            f"c{DID[1:]}", patches=both() | {"c": patch("sea.py", 5, "x = 1")}
        ),
        "a clean merge": conflict(DID, merge="clean"),
    },
    SILENT: {
        "the file is named": conflict("a: I change harbour/tides.py now."),
        "what stands there is named": conflict("a: I give the hour its unit."),
        "another place": conflict(*CHAT, patches=both(two=ELSEWHERE)),
        "another file": conflict(*CHAT, patches=both(two=OTHER_FILE)),
        "a clean merge": conflict(*CHAT, merge="clean"),
        "the same lines": conflict(*CHAT, patches=both(patch("tides.py", 5, *EBB),
                                                       patch("tides.py", 5, *EBB))),
    },
    NEGOTIATED: {
        "no counter-proposal": good(PROPOSED, "b: Agreed, metres it is."),
        "another proposal": good(PROPOSED, "b: I propose that the moon has a page.", ACCEPTED),
        "nothing proposed before": good("a: I store tides.", COUNTERED, ACCEPTED),
        "its own proposal before": good(f"b{PROPOSED[1:]}", COUNTERED, ACCEPTED),
        "not accepted": good(PROPOSED, COUNTERED),
        "accepted by itself": good(PROPOSED, COUNTERED, f"b{ACCEPTED[1:]}"),
        "accepted too late": good(PROPOSED, COUNTERED, *PAGE, ACCEPTED),
        "done before": good("b: I added feet to tide().", PROPOSED, COUNTERED, ACCEPTED),
    },
    DIVIDED: {
        "one only": good(MINE, "b: I edit the moon."),
        "one agent twice": good(MINE, f"a{YOURS[1:]}"),
        "no patch": good(MINE, YOURS, patches=both(two="")),
        "the patches overlap": good(MINE, YOURS, patches=both()),
        "the patches adjoin": good(
            MINE, YOURS, patches=both(two=patch("tides.py", 4, "a new line", removed=1))
        ),
        "another file than its own": good(
            MINE, YOURS, patches=both(OURS + patch("moons.py", 15, "x = 1"), OTHER_FILE)
        ),
        "a file not left alone": good(
            "a: I will not touch moons.py.", YOURS,
            patches=both(OURS + patch("moons.py", 15, "x = 1"), OTHER_FILE),
        ),
    },
    TAKEN_OVER: {
        "not accepted": good(TAKEN, "b: The moon has a page."),
        "accepted by itself": good(TAKEN, f"a{GO_AHEAD[1:]}"),
        "accepted before": good("a: Hello to you.", GO_AHEAD, TAKEN),
        "accepted too late": good(TAKEN, *PAGE, GO_AHEAD),
        "done already": good(DID, GO_AHEAD),
        "taken back": good(TAKEN, GO_AHEAD, BACK),
        "both patches hold it": good(TAKEN, GO_AHEAD, patches=both(OURS, OURS)),
    },
}  # fmt: skip

BC, TD = "broken_commitment", "timing_dependency"
WO, IF = "work_overlap", "implementation_failure"

# All codes that are found in a failed run, the primary one first; none: undecided.
BESIDE = {
    "all that was said": ([TD, IF], conflict(
        "b: I go first.", "a: You go first.", TAKEN, BACK, UNIT, features=alone(False, True)
    )),
    "work done twice": ([WO], twice(TAKEN, BACK)),
    "but not before an order": ([TD, WO], twice(ORDER, AFTER_YOU)),
    "one that fails alone stands beside": ([WO, IF], conflict(features=alone(False, True))),
    "not one that is not known to": ([WO], conflict(features=alone(None, True))),
    "nothing delivered decides alone": ([BC, IF], dead(ORDER, AFTER_YOU, DONE, merge="conflicts")),
    "crashed after a working patch": ([WO], dead(patches=both(), merge="conflicts",
                                                 features=alone(True, True))),
    "an assurance has no symptom": ([], conflict(SAFE)),
    "what works alone fails together": ([], clean(*CHAT, features=alone(True, True))),
    "one of two fails alone": ([], clean(*CHAT, features=alone(False, True))),
    "any number of agents": ([WO], conflict(
        patches={"x": ELSEWHERE, "y": OTHER_FILE, "a": OURS, "b": THEIRS}
    )),
}  # fmt: skip
