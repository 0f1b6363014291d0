"""What each rule of the rules judge finds, what it just misses, and which of two decides."""

from annotator.judges.rules import comm_errors, emergent, symptoms
from tests.facts.diffs import change
from tests.judges.rule_runs import (
    ACCEPTED,
    AFTER_YOU,
    ALONE,
    BACK,
    BOTH_PATCHES,
    CALL,
    CALLING,
    CARDS,
    CHAT,
    CIRCLE,
    COUNTERED,
    DID,
    DONE,
    EBB,
    ELSEWHERE,
    FACT,
    FAILED,
    FINES,
    GO_AHEAD,
    HEAD,
    IMPORTING,
    LINE,
    LOOK,
    METRES,
    MINE,
    MOON,
    NOW,
    ORDER,
    OTHER_FILE,
    OURS,
    PAGE,
    PROPOSED,
    RENAMED,
    SAFE,
    SECOND,
    STATUS,
    TAKEN,
    TESTS,
    TEXT,
    THEIRS,
    UNIT,
    WRITTEN,
    YOURS,
    agreed,
    alone,
    bodies,
    both,
    clean,
    conflict,
    dead,
    good,
    heads,
    listed,
    lost,
    owners,
    patch,
    run,
    said,
    tangled,
    told,
    twice,
)

HITS = {
    # comm_errors
    "nothing clashes": (
        comm_errors.no_clash_asserted, "C3a", conflict(SAFE), [*said((1, SAFE)), *BOTH_PATCHES],
    ),
    "a hedge in another sentence": (
        comm_errors.no_clash_asserted, "C3a",
        conflict("a: The ebb test should pass. Our edits do not conflict."),
        [("message:1", "Our edits do not conflict."), *BOTH_PATCHES],
    ),
    "nothing clashes, corrected": (
        comm_errors.no_clash_asserted, "C3b",
        conflict(SAFE, two := "b: Our patches do overlap in tides.py."),
        said((1, SAFE), (2, two)),
    ),
    "nothing clashes, corrected by the same agent": (
        comm_errors.no_clash_asserted, "C3b",
        conflict(SAFE, two := "a: I was wrong, there will be a conflict in tides.py."),
        said((1, SAFE), (2, two)),
    ),
    "nothing clashes, then only doubted": (
        comm_errors.no_clash_asserted, "C3a",
        conflict(SAFE, "b: Perhaps our patches do overlap in tides.py."),
        [*said((1, SAFE)), *BOTH_PATCHES],
    ),
    "nothing clashes, contradicted before": (
        comm_errors.no_clash_asserted, "C3a",
        conflict("b: Our patches do overlap in tides.py.", SAFE),
        [*said((2, SAFE)), *BOTH_PATCHES],
    ),
    "nothing clashes, corrected and said again": (
        comm_errors.no_clash_asserted, "C3a",
        conflict(SAFE, "b: Our patches do overlap.", three := "a: No conflict in our patches."),
        [*said((3, three)), *BOTH_PATCHES],
    ),
    "untouched": (
        comm_errors.file_not_left_alone, "C3a",
        told(one := "a: I did not touch moons.py.", one=OURS + OTHER_FILE),
        [*said((1, one)), ("patch:a", "+def tide(hour, moon):\n+    look(moon)")],
    ),
    "untouched, in a passed run": (
        comm_errors.file_not_left_alone, "C3a",
        told(one, one=OURS + OTHER_FILE, passed=True),
        [*said((1, one)), ("patch:a", "+def tide(hour, moon):\n+    look(moon)")],
    ),
    "name is now": (
        comm_errors.name_not_in_place, "C3a", told(NOW, one=RENAMED),
        [*said((1, NOW)), ("patch:a", "-TIDE_UNIT = 'foot'")],
    ),
    "as agreed": (
        comm_errors.not_as_agreed, "C3a", agreed(WRITTEN),
        [*said((3, WRITTEN)), ("message:2", "look(moon)"), ("patch:a", "+    look(moon)")],
    ),
    "as agreed, the other takes back": (
        comm_errors.not_as_agreed, "C3a", agreed(WRITTEN, "a: I removed the tide from my patch."),
        [*said((3, WRITTEN)), ("message:2", "look(moon)"), ("patch:a", "+    look(moon)")],
    ),
    "owners": (
        comm_errors.owners_crossed, "C3a", owners(),
        [("message:1", "You own tides.py."), ("message:2", "No, you own tides.py from now on.")],
    ),
    "no reply": (
        comm_errors.question_without_reply, "C1a", run("b: I take the map.", UNIT),
        said((2, UNIT), (1, "b: I take the map.")),
    ),
    "ignored": (
        comm_errors.question_ignored, "C1b", run(FINES, CARDS), said((1, FINES), (2, CARDS)),
    ),
    "the same block": (
        comm_errors.repetition, "C4b", run(f"a: {STATUS}", f"a: {STATUS}"),
        [(f"message:{n}", STATUS.split("\n")[0]) for n in (1, 2)],
    ),
    "the same fact": (
        comm_errors.repetition, "C4a", run(f"a: {FACT}", f"a: {FACT}"),
        [("message:1", FACT), ("message:2", FACT)],
    ),
    # symptoms
    "done, but empty": (
        symptoms.claimed_but_not_delivered, "broken_commitment", dead(DONE),
        [*said((1, DONE)), FAILED],
    ),
    "done, but crashed": (
        symptoms.claimed_but_not_delivered, "broken_commitment",
        dead(DONE, patches=both(), error="out of memory"),
        [*said((1, DONE)), ("outcome", "out of memory")],
    ),
    "empty": (
        symptoms.nothing_delivered, "implementation_failure", dead(status="Submitted"), [FAILED],
    ),
    "crashed": (
        symptoms.nothing_delivered, "implementation_failure",
        dead(*CHAT, patches=both(), error="out of memory"), [("outcome", "out of memory")],
    ),
    "fails alone": (
        symptoms.fails_alone, "implementation_failure",
        clean(*CHAT, features=alone(False, False)), [FAILED],
    ),
    "identical patches fail alone": (
        symptoms.fails_alone, "implementation_failure",
        clean(*CHAT, features=alone(False), merge="identical"), [FAILED],
    ),
    "agreed text": (
        symptoms.agreed_text_not_written, "placeholder_misuse", agreed(),
        [("message:2", "look(moon)"), ("patch:a", "+    look(moon)")],
    ),
    "partner's part, taken back": (
        symptoms.promise_taken_back, "broken_commitment", conflict(TAKEN, BACK),
        said((1, TAKEN), (2, BACK)),
    ),
    "own promise by name, taken back": (
        symptoms.promise_taken_back, "broken_commitment",
        conflict(LOOK, two := "a: I removed look_moon() from my patch."),
        said((1, LOOK), (2, two)),
    ),
    "promise to leave alone": (
        symptoms.promise_taken_back, "broken_commitment", conflict(ALONE),
        [*said((1, ALONE)), BOTH_PATCHES[0]],
    ),
    "both carry the work": (
        symptoms.work_done_twice, "work_overlap", twice(*CHAT),
        [("patch:a", "+def ebb(hour):"), ("patch:b", "+def ebb(hour):")],
    ),
    "did the partner's part": (
        symptoms.work_done_twice, "work_overlap", conflict(DID), [*said((1, DID)), *BOTH_PATCHES],
    ),
    "order accepted": (
        symptoms.order_not_kept, "timing_dependency", conflict(ORDER, AFTER_YOU),
        [*said((1, ORDER)), *BOTH_PATCHES],
    ),
    "order stated by both": (
        symptoms.order_not_kept, "timing_dependency",
        conflict(ORDER, two := "b: You edit tides.py first, then I look."),
        [*said((2, two), (1, ORDER)), *BOTH_PATCHES],
    ),
    "line not there": (
        symptoms.contract_not_kept, "placeholder_misuse", conflict(LINE, patches=both(CALL)),
        [*said((1, LINE)), ("patch:a", "+    return tide(hour)")],
    ),
    "no clash": (
        symptoms.no_clash_assumed, "unverifiable_claims", conflict(SAFE),
        [*said((1, SAFE)), *BOTH_PATCHES],
    ),
    "no clash, hedged": (
        symptoms.no_clash_assumed, "unverifiable_claims",
        conflict(one := "a: Our edits should not conflict."), [*said((1, one)), *BOTH_PATCHES],
    ),
    "no clash, the flat one of two": (
        symptoms.no_clash_assumed, "unverifiable_claims", conflict(SAFE, f"b{one[1:]}"),
        [*said((1, SAFE)), *BOTH_PATCHES],
    ),
    "open question": (
        symptoms.question_left_open, "unresponsiveness", conflict("b: I add the moon.", UNIT),
        said((2, UNIT), (1, "b: I add the moon.")),
    ),
    "ignored question": (
        symptoms.question_left_open, "unresponsiveness", conflict(FINES, CARDS),
        said((1, FINES), (2, CARDS)),
    ),
    "two heads": (
        symptoms.signature_left_open, "parameter_flow",
        conflict(SECOND, patches=heads("unit", "moon")),
        [*said((1, SECOND)), ("patch:a", "+def tide(hour, unit):"),
         ("patch:b", "+def tide(hour, moon):")],
    ),
    "parameters at one place": (
        symptoms.signature_left_open, "parameter_flow",
        conflict(SECOND, patches=listed("unit", "moon")),
        [*said((1, SECOND)), ("patch:a", "+    unit: str = None,"),
         ("patch:b", "+    moon: str = None,")],
    ),
    "parameters of a constructor": (
        symptoms.signature_left_open, "parameter_flow",
        conflict(one := "a: I add unit to __init__() too.",
                 patches=listed("unit", "moon", "__init__")),
        [*said((1, one)), ("patch:a", "+    unit: str = None,"),
         ("patch:b", "+    moon: str = None,")],
    ),
    "a call by the old signature": (
        symptoms.old_contract_used, "parameter_flow", lost(SECOND, one=HEAD, two=CALLING),
        [*said((1, SECOND)), ("patch:a", "+def tide(hour, unit):"),
         ("patch:b", "+print(tide(3))")],
    ),
    "imports in a circle": (
        symptoms.imports_tangled, "dependency_access", tangled(),
        [("outcome", CIRCLE), ("patch:a", "+from moons import moon"),
         ("patch:b", "+from tides import tide")],
    ),
    "one name twice": (
        symptoms.written_twice, "work_overlap", lost(two=THEIRS),
        [("patch:a", "+def tide(hour, unit):"), ("patch:b", "+def tide(hour, moon):")],
    ),
    "two designs": (
        symptoms.two_designs, "divergent_architecture",
        conflict(METRES, MOON, patches=bodies()),
        [*said((1, METRES), (2, MOON)), ("patch:a", "-    return hour\n+    return metre(hour)"),
         ("patch:b", "-    return hour\n+    return moon(hour)")],
    ),
    "same place": (symptoms.same_place, "work_overlap", conflict(*CHAT), BOTH_PATCHES),
    "same place, silent": (symptoms.same_place, "work_overlap", conflict(), BOTH_PATCHES),
    "same place, merge not known": (
        symptoms.same_place, "work_overlap", conflict(*CHAT, merge=None), BOTH_PATCHES,
    ),
    "repeated": (
        symptoms.repetition, "repetition", lost(f"a: {FACT}", f"a: {FACT}"),
        [("message:1", FACT), ("message:2", FACT)],
    ),
    "a failing test": (
        symptoms.unexplained, "implementation_failure",
        conflict(patches=both(two=ELSEWHERE), features=alone(True, True)), [FAILED],
    ),
    "an error of the run": (
        symptoms.unexplained, "implementation_failure",
        run(passed=False, error="the sandbox is gone"), [("outcome", "the sandbox is gone")],
    ),
    "nothing but the merge": (
        symptoms.unexplained, "implementation_failure",
        conflict(patches=both(two=ELSEWHERE)), [("outcome", "conflicts")],
    ),
    # emergent
    "negotiated": (
        emergent.plan_negotiated, "negotiation", good(PROPOSED, COUNTERED, ACCEPTED),
        said((1, PROPOSED), (2, COUNTERED), (3, ACCEPTED)),
    ),
    "negotiated, accepted at last, then done": (
        emergent.plan_negotiated, "negotiation",
        good(PROPOSED, COUNTERED, *PAGE[:2], ACCEPTED, "b: I added feet to tide()."),
        said((1, PROPOSED), (2, COUNTERED), (5, ACCEPTED)),
    ),
    "files": (
        emergent.bounds_kept, "resource_division", good(MINE, YOURS), said((1, MINE), (2, YOURS)),
    ),
    "files of the other": (
        emergent.bounds_kept, "resource_division",
        good(one := "a: I will not touch moons.py.", two := "b: I won't edit tides.py."),
        said((1, one), (2, two)),
    ),
    "lines": (
        emergent.bounds_kept, "resource_division",
        good(one := "a: I only touch lines 1 to 9.", two := "b: I only edit lines 12 to 20.",
             patches=both(two=ELSEWHERE)),
        said((1, one), (2, two)),
    ),
    "symbols": (
        emergent.bounds_kept, "resource_division",
        good(one := "a: I only touch tide().", two := "b: I only edit moon().",
             patches=both(two=ELSEWHERE)),
        said((1, one), (2, two)),
    ),
    "part taken over": (
        emergent.part_taken_over, "role_division", good(TAKEN, GO_AHEAD),
        said((1, TAKEN), (2, GO_AHEAD)),
    ),
}  # fmt: skip

MISSES = {
    comm_errors.no_clash_asserted: {
        "hedged": conflict("a: Our edits should not conflict."),
        "on a condition": conflict("a: Our edits do not conflict as long as you keep to moons.py."),
        "on a condition before": conflict("a: If you keep to moons.py, our edits do not conflict."),
        "doubted": conflict("a: I doubt that our edits do not conflict."),
        "hoped": conflict("a: I hope that our edits do not conflict."),
        "a purpose": conflict("a: I keep to tides.py so that our edits do not conflict."),
        "a request": conflict("a: Please make sure that our edits do not conflict."),
        "a question": conflict("a: Is it sure that our edits do not conflict at all?"),
        "the run passed": conflict(SAFE, passed=True),
        "the outcome is not known": conflict(SAFE, passed=None),
        "a clean merge": conflict(SAFE, merge="clean"),
        "the merge is not known": conflict(SAFE, merge=None),
        "the patches do not meet": conflict(SAFE, patches=both(two=OTHER_FILE)),
        "of a file in which they do not meet": conflict(
            "a: Our edits do not conflict in moons.py.", patches=both(OURS + OTHER_FILE)
        ),
        "another agent's patch meets": conflict(
            f"c{SAFE[1:]}", patches=both() | {"c": OTHER_FILE}
        ),
    },
    comm_errors.file_not_left_alone: {
        "true": told("a: I did not touch moons.py."),
        "a promise": told("a: I will not touch moons.py.", one=OURS + OTHER_FILE),
        "hedged": told("a: I probably did not touch moons.py.", one=OURS + OTHER_FILE),
        "for a while": told("a: I did not touch moons.py until now.", one=OURS + OTHER_FILE),
        "a part of it": told("a: I did not touch ebb() in moons.py.", one=OURS + OTHER_FILE),
        "the partner's patch": told("b: I did not touch moons.py.", one=OURS + OTHER_FILE),
        "only another one": told("a: I did not touch moons.py, only tides.py."),
        "what was changed is named too": told(
            "a: I changed tides.py and did not touch moons.py."
        ),
    },
    comm_errors.name_not_in_place: {
        "written anew": told(
            NOW, one=change(" import re\n-TIDE_UNIT = 'foot'\n+TIDE_UNIT = 'm'", "tides.py")
        ),
        "shown elsewhere": told(NOW, one=RENAMED + change(" x = TIDE_UNIT\n+y = 1", "moons.py")),
        "not in the patch": told(NOW),
        "not said to be now": told("a: It is finished, TIDE_UNIT returns metres.", one=RENAMED),
        "said of another patch": told(
            "a: In your patch TIDE_UNIT now returns metres.", one=RENAMED
        ),
        "a question": told("a: Do you know that TIDE_UNIT now returns metres?", one=RENAMED),
        "the partner's patch": told(f"b{NOW[1:]}", one=RENAMED),
    },
    comm_errors.not_as_agreed: {
        "one line missing": agreed(WRITTEN, two=TEXT[:2]),
        "all lines written": agreed(WRITTEN, two=TEXT),
        "not sent back word for word": agreed(WRITTEN, text=[*TEXT[:2], "    return hour * 3"]),
        "taken back": agreed(WRITTEN, "b: I removed the tide from my patch."),
        "not said to be as agreed": agreed("b: The tide is written."),
        "only promised": agreed("b: I will write the tide as agreed."),
        "said before": agreed(before=[WRITTEN]),
        "said by the other": agreed(f"a{WRITTEN[1:]}"),
        "a clean merge": agreed(WRITTEN, merge="clean"),
        "the run passed": agreed(WRITTEN, passed=True),
        "the outcome is not known": agreed(WRITTEN, passed=None),
    },
    comm_errors.owners_crossed: {
        "one only": owners(two="b: Yes, I own tides.py."),
        "one agent twice": owners(two="a: You own tides.py, as I said."),
        "asked": owners(two="b: Do you own tides.py from now on?"),
        "no file in common": owners(patches=both(two=OTHER_FILE)),
        "two files": owners(
            "a: You own moons.py.", patches=both(OURS + OTHER_FILE, THEIRS + ELSEWHERE)
        ),
        "a clean merge": owners(merge="clean"),
        "the run passed": owners(passed=True),
        "the outcome is not known": owners(passed=None),
    },
    comm_errors.question_without_reply: {
        "answered": run(UNIT, "b: It stores metres."),
        "written past": run(FINES, CARDS),
        "taken back": run("b: I take the map.", UNIT, "a: Never mind, the readme says it."),
        "asks for an action": run("b: I take the map.", "a: Please rebase the tide on mine."),
        "nothing to show it": run(UNIT),
    },
    comm_errors.question_ignored: {
        "no reply at all": run("b: I take the map.", FINES),
        "touched": run(FINES, "b: Finished the borrower card layout, it shows fines in cents."),
        "touched late": run(FINES, CARDS, "b: The rounding of all the overdue fines goes up."),
        "taken back": run(FINES, CARDS, "a: Never mind, the readme says it."),
    },
    comm_errors.repetition: {
        "prescribed": run(f"a: type: AGREE\n{FACT}", f"a: type: AGREE\n{FACT}"),
        "a reminder": run(UNIT, "b: I take the map.", UNIT),
        "garbled before": run(f"a: {FACT.replace('pier', ' ')}", f"a: {FACT}"),
        "resent": run(f"a: {FACT}", f"a: {FACT} (resend)"),
        "another sender": run(f"a: {FACT}", f"b: {FACT}"),
        "a new number": run(f"a: {FACT} Row 3.", f"a: {FACT} Row 4."),
    },
    symptoms.claimed_but_not_delivered: {
        "a plan": dead(f"a: type: PLAN\nnote: {DONE[3:]}"),
        "a promise": dead("a: I will add the tide unit."),
        "hedged": dead("a: I think the tide unit is done."),
        "the partner's": dead(f"b{DONE[1:]}"),
        "a merge is no work": dead("a: I have merged your branch."),
        "its patch works alone": dead(DONE, patches=both(), features=alone(True, True)),
        "delivered": dead(DONE, patches=both(), status="Submitted"),
        "nothing to show it": dead(DONE, features=()),
    },
    symptoms.nothing_delivered: {
        "its patch works alone": dead(patches=both(), features=alone(True, True)),
        "delivered": dead(patches=both(), status="Submitted"),
        "nothing to show it": dead(features=()),
    },
    symptoms.fails_alone: {
        "one works alone": clean(features=alone(False, True)),
        "alone it is not known": clean(features=alone(False, None)),
        "a conflict": clean(features=alone(False, False), merge="conflicts"),
        "the merge is not known": clean(features=alone(False, False), merge=None),
        "no feature": clean(),
        "nothing to show it": clean(features=alone(False, False, output="")),
    },
    symptoms.agreed_text_not_written: {
        "one line missing": agreed(two=TEXT[:2]),
        "all lines written": agreed(two=TEXT),
        "not sent back word for word": agreed(text=[*TEXT[:2], "    return hour * 3"]),
        "a clean merge": agreed(merge="clean"),
        "the merge is not known": agreed(merge=None),
    },
    symptoms.promise_taken_back: {
        "nothing promised": conflict(BACK),
        "the partner took it": conflict(f"b{TAKEN[1:]}", BACK),
        "promised after": conflict(BACK, TAKEN),
        "another name": conflict(LOOK, "a: I removed look_sun() from my patch."),
        "the partner's promise": conflict(
            f"b{LOOK[1:]}", "a: I removed look_moon() from my patch."
        ),
        "a clean merge": conflict(TAKEN, BACK, merge="clean"),
        "the merge is not known": conflict(TAKEN, BACK, merge=None),
        "left alone as promised": conflict("a: I will not touch moons.py."),
        "left alone, said afterwards": conflict("a: I did not touch tides.py."),
        "left alone, a clean merge": conflict(ALONE, merge="clean"),
    },
    symptoms.work_done_twice: {
        "one carries the other's": twice(*CHAT, more=["x = ebb(1)", "y = ebb(2)", "z = ebb(3)"]),
        "shown to be written by both": twice("\n".join(["a: type: DRAFT", "code:", *EBB])),
        "carried, a clean merge": twice(*CHAT, merge="clean"),
        "only promised": conflict(TAKEN),
        "only drafted": conflict(f"a: type: DRAFT\nnote: {DID[3:]}"),
        "hedged": conflict(f"a: I think {DID[3:]}"),
        "the patches do not meet": conflict(DID, patches=both(two=OTHER_FILE)),
        "the patches of others meet": conflict(
            f"c{DID[1:]}", patches=both() | {"c": patch("sea.py", 5, "x = 1")}
        ),
        "a clean merge": conflict(DID, merge="clean"),
    },
    symptoms.order_not_kept: {
        "not agreed": conflict(ORDER, "b: The moon needs a page of its own."),
        "the other way round": conflict(ORDER, "b: I edit tides.py first, then you look."),
        "hedged, not accepted": conflict("a: I might edit tides.py first, then you."),
        "an offer": conflict("a: If you prefer, I edit tides.py first.", AFTER_YOU),
        "accepted by the same agent": conflict(ORDER, f"a{AFTER_YOU[1:]}"),
        "the patches do not meet": conflict(ORDER, AFTER_YOU, patches=both(two=OTHER_FILE)),
        "a clean merge": conflict(ORDER, AFTER_YOU, merge="clean"),
        "a clean merge, and a feature lost": lost(ORDER, AFTER_YOU),
    },
    symptoms.contract_not_kept: {
        "it is there": conflict(LINE, patches=both(CALL, CALL)),
        "not written by who asks": conflict(LINE),
        "not asked for": conflict("a: It has `return tide(hour)` in it.", patches=both(CALL)),
        "not a line of code": conflict(
            "a: Please keep the words `the tide comes` in it.",
            patches=both(patch("tides.py", 5, "# the tide comes")),
        ),
        "a clean merge": conflict(LINE, patches=both(CALL), merge="clean"),
    },
    symptoms.no_clash_assumed: {
        "a purpose": conflict("a: I keep to tides.py so that our edits do not conflict."),
        "the patches do not meet": conflict(SAFE, patches=both(two=OTHER_FILE)),
        "a clean merge": conflict(SAFE, merge="clean"),
        "the merge is not known": conflict(SAFE, merge=None),
    },
    symptoms.question_left_open: {
        "answered": conflict(UNIT, "b: It stores metres."),
        "a clean merge": conflict("b: I add the moon.", UNIT, merge="clean"),
        "the merge is not known": conflict("b: I add the moon.", UNIT, merge=None),
    },
    symptoms.signature_left_open: {
        "the same change": conflict(SECOND, patches=heads("unit", "unit")),
        "no message": conflict(patches=heads("unit", "moon")),
        "not named": conflict("a: I add a unit.", patches=heads("unit", "moon")),
        "one only": conflict(SECOND, patches=both(heads("unit", "moon")["a"], OTHER_FILE)),
        "a clean merge": conflict(SECOND, patches=heads("unit", "moon"), merge="clean"),
        "the same parameter": conflict(SECOND, patches=listed("unit", "unit")),
        "parameters, no message": conflict(patches=listed("unit", "moon")),
        "parameters, not named": conflict("a: I add a unit.", patches=listed("unit", "moon")),
        "parameters, a clean merge": conflict(
            SECOND, patches=listed("unit", "moon"), merge="clean"
        ),
    },
    symptoms.old_contract_used: {
        "a default breaks no call": lost(SECOND, one=HEAD.replace("unit)", "unit=1)"), two=CALLING),
        "not named": lost("a: I add a unit.", one=HEAD, two=CALLING),
        "no new call": lost(SECOND, one=HEAD, two=CALLING.replace("+print", " print")),
        "called by the one who changes it": lost(SECOND, one=HEAD + CALLING, two=ELSEWHERE),
        "another name": lost(SECOND, one=HEAD, two=CALLING.replace("tide", "neap_tide")),
        "a definition is no call": lost(
            SECOND, one=HEAD, two=change("+def tide(moon):\n+    pass", "moons.py")
        ),
        "a method of another object": lost(
            SECOND, one=HEAD.replace(" class Tide:", ""), two=change("+x = sea.tide(3)", "moons.py")
        ),
        "a conflict": lost(SECOND, one=HEAD, two=CALLING, merge="conflicts"),
        "the merge is not known": lost(SECOND, one=HEAD, two=CALLING, merge=None),
        "all fails alone": lost(SECOND, one=HEAD, two=CALLING, works=(False, False)),
        "alone it is not known": lost(SECOND, one=HEAD, two=CALLING, works=(None, None)),
        "the run passed": lost(SECOND, one=HEAD, two=CALLING, passed=True),
        "the outcome is not known": lost(SECOND, one=HEAD, two=CALLING, passed=None),
    },
    symptoms.imports_tangled: {
        "another error": tangled(output=TESTS),
        "no import added": tangled(patches=both(patch("tides.py", 5, "unit = hour"), ELSEWHERE)),
        "another import": tangled(patches=both(two=ELSEWHERE)),
        "a message warns of it": tangled("a: Beware of a circular import of moons and tides."),
        "a conflict": tangled(merge="conflicts"),
        "the merge is not known": tangled(merge=None),
        "all fails alone": tangled(works=(False, False)),
        "the outcome is not known": tangled(passed=None),
    },
    symptoms.written_twice: {
        "the same text": lost(two=OURS),
        "another name": lost(two=THEIRS.replace("tide", "neap_tide")),
        "no function or class": lost(
            one=patch("tides.py", 5, "unit = hour"), two=patch("tides.py", 5, "unit = moon")
        ),
        "a conflict": lost(two=THEIRS, merge="conflicts"),
        "the merge is not known": lost(two=THEIRS, merge=None),
        "all fails alone": lost(two=THEIRS, works=(False, False)),
        "the outcome is not known": lost(two=THEIRS, passed=None),
    },
    symptoms.two_designs: {
        "one speaks of it": conflict(METRES, "b: I look at the moon.", patches=bodies()),
        "one speaks of it twice": conflict(METRES, f"a{MOON[1:]}", patches=bodies()),
        "another definition": conflict(
            METRES.replace("tide", "ebb"), MOON.replace("tide", "ebb"), patches=bodies()
        ),
        "no message": conflict(patches=bodies()),
        "the patches do not meet": conflict(
            METRES, MOON, patches=both(bodies()["a"], OTHER_FILE)
        ),
        "a clean merge": conflict(METRES, MOON, patches=bodies(), merge="clean"),
    },
    symptoms.same_place: {
        "another place": conflict(*CHAT, patches=both(two=ELSEWHERE)),
        "another file": conflict(*CHAT, patches=both(two=OTHER_FILE)),
        "a clean merge": conflict(*CHAT, merge="clean"),
        "identical": conflict(*CHAT, merge="identical"),
    },
    symptoms.repetition: {
        "prescribed": clean(f"a: type: AGREE\n{FACT}", f"a: type: AGREE\n{FACT}"),
        "a reminder": clean(UNIT, "b: I take the map.", UNIT),
    },
    symptoms.unexplained: {
        "the run passed": conflict(passed=True),
        "the outcome is not known": conflict(passed=None),
        "what works alone fails together": clean(features=alone(False, True)),
        "the same, identical": clean(features=alone(False, True), merge="identical"),
        "nothing to show it": run(passed=False),
    },
    emergent.plan_negotiated: {
        "no counter-proposal": good(PROPOSED, "b: Agreed, metres it is."),
        "another proposal": good(PROPOSED, "b: I propose that the moon has a page.", ACCEPTED),
        "nothing proposed before": good("a: I store tides.", COUNTERED, ACCEPTED),
        "its own proposal before": good(f"b{PROPOSED[1:]}", COUNTERED, ACCEPTED),
        "not accepted": good(PROPOSED, COUNTERED),
        "accepted by itself": good(PROPOSED, COUNTERED, f"b{ACCEPTED[1:]}"),
        "accepted too late": good(PROPOSED, COUNTERED, *PAGE, ACCEPTED),
        "done before": good("b: I added feet to tide().", PROPOSED, COUNTERED, ACCEPTED),
    },
    emergent.bounds_kept: {
        "one only": good(MINE, "b: I edit the moon."),
        "one agent twice": good(MINE, f"a{YOURS[1:]}"),
        "hedged": good(MINE, "b: I think I will only edit moons.py."),
        "a report": good(MINE, "b: I have only edited moons.py."),
        "no name": good(MINE, "b: I will only edit my own part."),
        "the patches overlap": good(MINE, YOURS, patches=both()),
        "the patches adjoin": good(
            MINE, YOURS, patches=both(two=patch("tides.py", 4, "a new line", removed=1))
        ),
        "another file than its own": good(
            MINE, YOURS, patches=both(OURS + patch("moons.py", 15, "x = 1"), OTHER_FILE)
        ),
        "a file not left alone": good(
            MINE, YOURS, "a: I will not touch moons.py.",
            patches=both(OURS + patch("moons.py", 15, "x = 1"), OTHER_FILE),
        ),
    },
    emergent.part_taken_over: {
        "not accepted": good(TAKEN, "b: The moon has a page."),
        "accepted by itself": good(TAKEN, f"a{GO_AHEAD[1:]}"),
        "accepted before": good("a: Hello to you.", GO_AHEAD, TAKEN),
        "accepted too late": good(TAKEN, *PAGE, GO_AHEAD),
        "hedged": good("a: I might implement both features, mine and yours.", GO_AHEAD),
        "done already": good(DID, GO_AHEAD),
        "taken back": good(TAKEN, GO_AHEAD, BACK),
        "both patches hold it": good(TAKEN, GO_AHEAD, patches=both(OURS, OURS)),
    },
}  # fmt: skip

# Two rules find something; the first of them stands earlier in RULES, and decides.
ORDERS = {
    "C3 before C3": (
        comm_errors.no_clash_asserted, comm_errors.file_not_left_alone,
        conflict("a: I did not touch tides.py.", SAFE),
    ),
    "C3 before C1": (
        comm_errors.no_clash_asserted, comm_errors.question_without_reply,
        conflict("b: I take the map.", SAFE, UNIT),
    ),
    "C3 before C4": (
        comm_errors.not_as_agreed, comm_errors.repetition,
        agreed(WRITTEN, f"a: {FACT}", f"a: {FACT}"),
    ),
    "a file before a name": (
        comm_errors.file_not_left_alone, comm_errors.name_not_in_place,
        told(NOW, "a: I did not touch tides.py.", one=RENAMED),
    ),
    "owners before a question": (
        comm_errors.owners_crossed, comm_errors.question_without_reply,
        conflict("b: You own tides.py.", "a: No, you own tides.py from now on.", UNIT),
    ),
    "no reply before no answer": (
        comm_errors.question_without_reply, comm_errors.question_ignored,
        run(FINES, CARDS, UNIT),
    ),
    "C1 before C4": (
        comm_errors.question_ignored, comm_errors.repetition,
        run(FINES, CARDS, f"a: {FACT}", f"a: {FACT}"),
    ),
    "a claim before the bare failure": (
        symptoms.claimed_but_not_delivered, symptoms.nothing_delivered, dead(DONE),
    ),
    "nothing there before failing alone": (
        symptoms.nothing_delivered, symptoms.fails_alone, dead(features=alone(False, False)),
    ),
    "failing alone before repetition": (
        symptoms.fails_alone, symptoms.repetition,
        clean(f"a: {FACT}", f"a: {FACT}", features=alone(False, False)),
    ),
    "a text before a promise": (
        symptoms.agreed_text_not_written, symptoms.promise_taken_back, agreed(ALONE),
    ),
    "a promise before work done twice": (
        symptoms.promise_taken_back, symptoms.work_done_twice, conflict(DID, BACK),
    ),
    "a promise before an order": (
        symptoms.promise_taken_back, symptoms.order_not_kept, conflict(ORDER, AFTER_YOU, ALONE),
    ),
    "work done twice before an order": (
        symptoms.work_done_twice, symptoms.order_not_kept, conflict(ORDER, AFTER_YOU, DID),
    ),
    "an order before a line": (
        symptoms.order_not_kept, symptoms.contract_not_kept,
        conflict(ORDER, AFTER_YOU, LINE, patches=both(CALL)),
    ),
    "a line before an assurance": (
        symptoms.contract_not_kept, symptoms.no_clash_assumed,
        conflict(LINE, SAFE, patches=both(CALL)),
    ),
    "an assurance before a question": (
        symptoms.no_clash_assumed, symptoms.question_left_open,
        conflict("b: I add the moon.", SAFE, UNIT),
    ),
    "a question before a signature": (
        symptoms.question_left_open, symptoms.signature_left_open,
        conflict("b: I add the moon.", SECOND, UNIT, patches=heads("unit", "moon")),
    ),
    "a signature before two designs": (
        symptoms.signature_left_open, symptoms.two_designs,
        conflict(SECOND, "a: It stays in the Tide class.", "b: I change the Tide class.",
                 patches=heads("unit", "moon")),
    ),
    "two designs before the place alone": (
        symptoms.two_designs, symptoms.same_place, conflict(METRES, MOON, patches=bodies()),
    ),
    "an old contract before imports": (
        symptoms.old_contract_used, symptoms.imports_tangled,
        tangled(SECOND, patches=both(HEAD + IMPORTING[0], CALLING)),
    ),
    "imports before a name": (
        symptoms.imports_tangled, symptoms.written_twice,
        tangled(patches=both(IMPORTING[0] + OURS, THEIRS)),
    ),
    "a name before repetition": (
        symptoms.written_twice, symptoms.repetition,
        lost(f"a: {FACT}", f"a: {FACT}", two=THEIRS),
    ),
    "the place before repetition": (
        symptoms.same_place, symptoms.repetition, conflict(f"a: {FACT}", f"a: {FACT}"),
    ),
    "repetition before nothing else": (
        symptoms.repetition, symptoms.unexplained,
        conflict(f"a: {FACT}", f"a: {FACT}", patches=both(two=ELSEWHERE)),
    ),
}  # fmt: skip
