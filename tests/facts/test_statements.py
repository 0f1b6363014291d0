"""What agents state, sentence by sentence, and what of it the patches refute."""

import re

import pytest

from annotator.facts.registry import draw_facts
from annotator.traces import Message, Trace
from tests.facts.diffs import change, checked, quotes, run, talk

STATED = (
    *("assurance", "clash_stated", "bound", "completion_claim", "partner_work", "retraction"),
    *("order_agreed", "question"),
)
SHORT = {
    "assurance": lambda about: about["claim"],
    "clash_stated": lambda about: "clash",
    "completion_claim": lambda about: "done",
    "partner_work": lambda about: "did both" if about["done"] else "does both",
    "retraction": lambda about: "back",
    "order_agreed": lambda about: f"{about['first']} first",
    "question": lambda about: "asks",
}


def said_in(text, kind=None):
    """What agent1 states in a message that agent2 agrees to, in a word or two each."""
    lines = "agent2: Hello to you.", "agent1: Hello there.", f"agent1: {text}", "agent2: Agreed."
    trace = run(lines, kind=kind)
    found = []
    for fact in checked(trace, *STATED):
        assert fact.about["message"] == 3
        assert fact.agents[0] == "agent1"
        found.append(SHORT.get(fact.kind, lambda about, kind=fact.kind: kind)(fact.about))
    return found


# What each says flatly: nothing, one thing, or several.
ASSURANCES = {
    "There is no conflict between our patches.": ["no_conflict"],
    "No overlap at all.": ["no_conflict"],
    "No real merge conflicts with your rows.": ["no_conflict"],
    "Our patches cannot conflict.": ["no_conflict"],
    "Our edits will never collide.": ["no_conflict"],
    "Nothing in your patch clashes with mine.": ["no_conflict"],
    "There won't be any merge conflicts.": ["no_conflict"],
    "Our two patches share no common lines.": ["no_conflict"],
    "A conflict is impossible between our patches.": ["no_conflict"],
    "The merge will be trivial.": ["no_conflict"],
    "Our edits merge cleanly.": ["no_conflict"],
    "It is safe to merge both branches.": ["no_conflict"],
    "I looked at your hunk list: nothing in it intersects with mine.": ["no_conflict"],
    "My change to `crates/layout/src/grid.rs` does not collide with your footnote work.": [
        "no_conflict"
    ],
    "The row may be short, but our edits do not overlap.": ["no_conflict"],
    "Our edits are in disjoint parts of tides.py.": ["disjoint"],
    "We work in different functions.": ["disjoint"],
    "Our two changes are orthogonal.": ["disjoint"],
    "Your edit and mine are in separate methods.": ["disjoint"],
    "No merge is needed between us.": ["independent"],
    "There is no need to merge our branches.": ["independent"],
    "Our patches are graded separately.": ["independent"],
    "Your patch is evaluated in isolation.": ["independent"],
    "Only my patch is inspected here.": ["independent"],
    "Our patches stay independent.": ["independent"],
    # forecasts with a hedge
    "Our patches should not conflict.": [],
    "Probably no conflict between our patches.": [],
    "I think our edits don't collide.": [],
    "Looks like no conflict between our branches.": [],
    "It is unlikely that our patches don't conflict.": [],
    "I doubt that our edits do not conflict.": [],
    "As far as I can tell, our edits do not overlap.": [],
    "The risk of overlap is low for both patches.": [],
    "My edits to `thumbnail()` should merge fine with your EXIF rotation code.": [],
    # conditions
    "As long as you leave `load_builder()` alone, our two patches don't clash.": [],
    "If you keep to moons.py, our edits do not conflict.": [],
    "Our edits do not overlap unless you change `load()`.": [],
    "Assuming you stay above line 9, our edits don't overlap.": [],
    "Once you rename it, there is no clash between our patches.": [],
    "Our edits merge cleanly, provided that you keep the blank line.": [],
    "Our edits do not overlap when you insert below line 40.": [],
    "Our edits do not overlap; tell me if you see it in another way.": [],
    "safe to merge on my side, additive only, tell me otherwise": [],
    # plans, proposals and purposes
    "I put it below so that we don't collide.": [],
    "I propose separate files so our edits do not collide.": [],
    "I keep to tides.py to ensure that our edits do not conflict.": [],
    "I plan to stay in tides.py, with no overlap between our edits.": [],
    "Please keep your edits out of `form.ts` to avoid merge conflicts.": [],
    "Let's work in separate functions.": [],
    "Use separate functions for our edits.": [],
    # wishes and requests
    "I hope that our edits do not conflict.": [],
    "Our edits must not conflict.": [],
    # what the sender sees, or its own copy
    "No conflicts between our patches so far.": [],
    "Our patches do not currently conflict.": [],
    "There is no conflict with your edits in my copy.": [],
    "Our edits don't conflict on disk, each has its own checkout.": [],
    # to be looked at again
    "Our edits do not overlap, but re-check after you pull.": [],
    "We work in different functions, but the imports must be reconciled.": [],
    "Our edits do not overlap, except in the import block.": [],
    # hedges in another clause, wishes, plans, a view of one's own, what is still to be done
    "At present our changes do not overlap.": [],
    "As of now there is no overlap between our changes.": [],
    "I'd like our changes to be in separate functions.": [],
    "I will edit different lines than you.": [],
    "We will edit different functions so that our patches do not conflict.": [],
    "I'll put mine below so there is no overlap between our patches.": [],
    "On my branch your changes and mine merge cleanly.": [],
    "Our patches merge cleanly in my tree.": [],
    "Our edits are disjoint but the import line needs reconciling.": [],
    "Our hunks are disjoint, but we must reconcile the signature.": [],
    "No overlap with your changes, though somebody has to verify the signature again.": [],
    "I suppose our edits do not overlap.": [],
    "From what I see, our edits do not overlap.": [],
    "Our edits do not overlap, as I understand it.": [],
    "Our edits are mostly disjoint.": [],
    "Our edits barely overlap, almost no conflicts.": [],
    "Should merge cleanly since we're adding to different regions mostly.": [],
    # denials, and what another has said
    "Our regions are not disjoint.": [],
    "It is not true that our edits do not conflict.": [],
    "You said that our edits do not conflict.": [],
    "A disjoint split of our work isn't possible here.": [],
    # reports of an own merge
    "I merged your branch and there were no conflicts.": ["done"],
    "Rebased onto your branch, no conflicts in our hunks.": [],
    # of something else than the work
    "Two loans never overlap in the library table that the clerk keeps by hand.": [],
    "My new flag does not conflict with the old flag.": [],
    "The intervals in `merge_rows()` cannot overlap.": [],
    "Each loan has separate lines in the table.": [],
    # the opposite
    "Our edits do overlap in tide_row.": ["clash"],
    "I was wrong, there is a conflict in loans.py.": ["clash"],
    "They will definitely clash in tide_row.": ["clash"],
    "Our patches conflict in tides.py.": ["clash"],
    "Our edits do not merge cleanly.": ["clash"],
    "If you rename it, there will be a conflict.": [],
    "The edits may conflict in tides.py.": [],
    "There is a conflict check in loans.py.": [],
    "We rename it to avoid that our edits overlap.": [],
    # questions
    "Is there no conflict between our patches?": ["asks"],
    "Can you confirm there is no overlap between our edits?": ["asks"],
    "Please confirm that our edits do not overlap.": ["asks"],
    "Are our patches graded separately?": ["asks"],
    "Do our edits overlap, or is there a conflict?": ["asks"],
    # what an agent alone changes, or leaves alone
    "I will not touch tides.py.": ["bound"],
    "I won't modify `tide_row()`.": ["bound"],
    "I only touch tides.py.": ["bound"],
    "I'll only edit harbour/piers.py.": ["bound"],
    "I won't touch tides.py unless you ask for it.": [],
    "I won't touch tides.py until you are done.": ["agent2 first"],
    "If you keep tide_row, I won't touch tides.py.": [],
    "I think I will only edit moons.py.": [],
    "I have only edited moons.py.": ["done"],
    "I did not touch tides.py.": [],
    "Please do not touch tides.py.": [],
    "You won't touch tides.py, right.": [],
}

CLAIMS = {
    # the sender's work is done
    "I have added tide_table to tides.py.": ["done"],
    "The tide table has been added.": ["done"],
    "Removed old_clock and fixed clock_face.": ["done"],
    "Done with clock.py.": ["done"],
    "The tide unit is done and tested.": ["done"],
    "The tide table is now in place.": ["done"],
    "I think I added tide_row.": [],
    "You added tide_row.": [],
    "I haven't added tide_row.": [],
    "tide_row must be added to tides.py.": [],
    "I will have added it by noon.": [],
    "Once I have added tide_table, I push.": [],
    "I will ping when the unit is done.": [],
    "The file is all yours.": [],
    "Has tide_row been added?": ["asks"],
    # the partner's part too
    "I will implement both mine and yours.": ["does both"],
    "I'll do your half too.": ["does both"],
    "I'll add the tide row (mine) and the loan row (yours).": ["does both"],
    "I added both features.": ["done", "did both"],
    "I have implemented your tide_row feature as well.": ["done", "did both"],
    "Done with everything, yours included.": ["done", "did both"],
    "I could implement your part.": [],
    "If you like, I'll implement your part.": [],
    "I might add both features, mine and yours.": [],
    "I'll add both files.": [],
    "I'll implement the row using your table.": [],
    "I will implement it for your review.": [],
    "I added the tide row against your table.": ["done"],
    "I won't implement your part.": [],
    "You implemented both features.": [],
    "My resolver is finished; yours I have not looked at.": ["done"],
    "Implemented both branches of the conversion that my issue lists.": ["done"],
    "I have read your spec and I have no objection to it.": [],
    # work taken back
    "I reverted my edits to tides.py.": ["back"],
    "I've taken loan_days out of my patch again.": ["back"],
    "I have withdrawn the loan table from my patch.": ["back"],
    "The loan table is no longer in my patch.": ["back"],
    "I took your `lossless` code back out of my patch, only my own part is left.": ["back"],
    "I removed your tide_row from my patch.": ["back"],
    "I removed old_clock as my task says.": ["done"],
    "I will remove your row from my patch.": [],
    "Please remove my row from your patch.": [],
    "Should I remove my row from the patch?": ["asks"],
    "I saw that you reverted your change to `ServeHTTP`, thanks.": [],
    "I did not revert anything of yours, your lines in `env.py` are all still there.": [],
    "`reset()` now reverts dirty fields to the values that were passed last.": [],
}

ORDERS = {
    "You go first.": ["agent2 first"],
    "I commit my rows first, then you rebase.": ["agent1 first"],
    "agent1 goes first and you follow.": ["agent1 first"],
    "You can layer your patch on top.": ["agent1 first"],
    "I will not start before you push.": ["agent2 first"],
    "I'll hold off until you finish.": ["agent2 first"],
    "It's your turn.": ["agent1 first"],
    "Go after me.": ["agent1 first"],
    "Once you have pushed, I add my row.": ["agent2 first"],
    "You start after I finish.": ["agent1 first"],
    "You land the rename first and I build my matcher on that.": ["agent2 first"],
    # an order of parameters, lines or thoughts
    "The `timeout` parameter comes after `retries` in the signature of `newClient`.": [],
    "I pass `unit` first, `moon` second in the call.": [],
    "You start with the first function and I with the last.": [],
    "You apply the filter first in the list.": [],
    "You merge the first two rows of the table.": [],
    "The pawn moves first on this board.": [],
    "First I looked at `tree.go`, then I found that the check is in `path.go`.": [],
    "My first attempt used a regex, after that I switched to `strings.Cut`.": [],
    "In the signature, mine goes after yours.": [],
    "In the parameter list mine goes second.": [],
    "Your argument comes first, mine goes second.": [],
    "I write the header first, then the rows.": [],
    "I start the server first.": [],
    "I'll layer the filter on top.": [],
    # messages first
    "Let me know once you push.": [],
    "I'll ping you before you push.": [],
    "I'll tell you once I have pushed.": [],
    # offers under a condition, questions
    "If you prefer, you go first.": [],
    "I'll hold off until tomorrow if you like.": [],
    "I could go first, or you.": [],
    "Which of us should go first here?": ["asks"],
}

QUESTIONS = {
    "Which unit does your tide table store?": ["asks"],
    "Fine, so which unit does your tide table store?": ["asks"],
    "May I wrap the overdue counter in a helper?": ["asks"],
    "Should overdue fines round towards zero?": ["asks"],
    "Please send the column names of your tide table.": ["asks"],
    "Hi, can you tell me the unit you store?": ["asks"],
    "I need to know the unit of your table.": ["asks"],
    # for an action
    "Can you rebase the tide table on mine?": [],
    "Could you please append your row below mine?": [],
    "Please rebase the tide table on mine.": [],
    "Please choose one of the two names.": ["asks"],
    "Please list the files that you touch.": ["asks"],
    "Please provide a wrapper around load().": [],
    "Please choose a different name.": [],
    "Please list the names in sorted order.": [],
    "Please show the banner only once.": [],
    "Please post your final patch when you're done.": [],
    "Confirm that your tests pass before pushing.": [],
    "Why don't you just rebase on top of mine?": [],
    "Can you double-check that your row was saved?": [],
    "Please double check your row.": [],
    # under a condition, courtesies, closings
    "If it breaks, please send me the table.": [],
    "I keep to my rows; if you need tides.py, please tell me which lines.": [],
    "Once you have pushed, can you tell me the unit?": [],
    "Let me know your final signature if it changes.": [],
    "Please send the names in case you rename any.": [],
    "Does your row still work if I rename the table?": ["asks"],
    "If I rename the table, does your row still work?": ["asks"],
    "Please confirm if your table stores metres.": ["asks"],
    "If all is clear I am done - please send your column names.": ["asks"],
    "Please confirm the unit, and adjust it if needed.": ["asks"],
    "Please tell me what load() returns if the key is missing.": ["asks"],
    "Please tell me if the tide table breaks.": [],
    "Let me know if you have any questions.": [],
    "Let me know what you think.": [],
    "Please confirm receipt of the table.": [],
    "Sound good?": [],
    "I take the tide table, is that fine?": [],
    # no sentence
    "It is now, what(?:ever) comes before the (a|b)?": [],
}
SENTENCES = {**ASSURANCES, **CLAIMS, **ORDERS, **QUESTIONS}


@pytest.mark.parametrize("text", SENTENCES)
def test_what_a_sentence_states(text):
    assert said_in(text) == SENTENCES[text]
    assert said_in(text.replace("'", "’")) == SENTENCES[text]


# What a reader does not see, and typography: what the check of quotes lets pass.
DRESSED = {
    "zero-width": lambda text: re.sub(r"(?<=\w)(?=\w)", "\u200b", text),
    "soft hyphens": lambda text: re.sub(r"(?<=\w)(?=\w)", "\u00ad", text),
    "controls": lambda text: text.replace(" ", "\x00 \x1b[1m"),
    "a mark of the order of bytes": lambda text: f"\ufeff{text}",
    "no-break space": lambda text: text.replace(" ", "\u00a0"),
    "two spaces": lambda text: text.replace(" ", "  "),
    "tabs": lambda text: text.replace(" ", "\t"),
    "no-break hyphens": lambda text: text.replace("-", "\u2011"),
    "full-width": lambda text: text.translate({n: n + 0xFEE0 for n in range(33, 127)}),
    "Cyrillic letters": lambda text: re.sub(
        "(?<=[b-z])[aeo]+|[aeo]+(?=[b-z])",
        lambda match: match[0].translate(str.maketrans("aeo", "\u0430\u0435\u043e")),
        text,
    ),
    "bold": lambda text: re.sub(r"(?<![\w`'./()-])([a-z]+)(?![\w`'./()-])", r"**\1**", text),
    "italics": lambda text: re.sub(r"(?<![\w`'./()-])([a-z]+)(?![\w`'./()-])", r"_\1_", text),
    "a fence that is not closed": lambda text: f"```\n{text}",
    "code in a line": lambda text: f"```tide```\n{text}",
    "NEL": lambda text: f"The tide is high.\x85{text}\x85The ebb is low.",
    "line ends as escapes": lambda text: f"The tide is high.\\n{text}\\nThe ebb is low.",
}


@pytest.mark.parametrize("dress", DRESSED.values(), ids=DRESSED)
def test_what_is_not_seen_and_typography_change_no_statement(dress):
    for text, says in SENTENCES.items():
        assert said_in(dress(text)) == says, text


@pytest.mark.parametrize("text", [text for text, says in SENTENCES.items() if says])
def test_quotes_code_and_lists_state_nothing_and_other_sentences_change_nothing(text):
    assert said_in(f"> {text}") == []
    assert said_in(f"```\n{text}\n```") == []
    assert said_in(f"type: CLAIM\nfiles: a.py {text}\ncode: {text}") == []
    assert said_in(f"The tide is high. {text}\nThe ebb is low.") == SENTENCES[text]


def test_what_a_plan_says_is_done_is_still_to_do():
    assert said_in("I added both features.", kind="PROPOSE") == ["does both"]
    assert said_in("type: DRAFT\nnote: Added the row.") == []
    assert said_in("type: DONE\nnote: Added the row.") == ["done"]


def test_text_of_tools_is_nobodys_statement():
    message = Message(1, "tool", (), "I added tide_table. Which unit is it here?", author="tool")
    assert checked(Trace("run", "test", "", (message,))) == []


def test_you_is_nobody_in_particular_among_three_unless_the_message_has_one_recipient():
    hi = talk("b: Hi.", "c: Hello.")
    for to, expected in (((), []), (("b",), ["b"])):
        said = (Message(3, "a", to, "You go first."), Message(4, "b", (), "Agreed to it."))
        known = draw_facts(run((*hi, *said)))
        assert [fact.about["first"] for fact in known.of("order_agreed")] == expected


# --- held against the patches -------------------------------------------------------------------

OURS = change(" harbour\n-tide = 1\n+tide = 2", "tides.py", section="def tide_row():")
THEIRS = change(" harbour\n-tide = 1\n+tide = 3", "tides.py")
BELOW = change(" harbour\n tide = 1\n-pier\n+quay", "tides.py")
APART = change("+lamp = 1", "tides.py", at=50)
MEET, SAME = {"a": OURS, "b": THEIRS}, {"a": OURS, "b": OURS}
AT_BOTH = ["+tide = 2", "+tide = 3"]
FINE = "Our edits merge cleanly."

# what "a" writes, the patches, the reported merge -> whether the patches refute it
REFUTED = {
    "no conflict": (FINE, MEET, None, True),
    "disjoint": ("We work in disjoint parts of tides.py.", MEET, None, True),
    "of this file": ("No overlap of our edits in harbour/tides.py.", MEET, None, True),
    "of this code": ("No overlap of our edits in `tide_row()`.", MEET, None, True),
    "of the file that is handed in": ("patch.txt will not conflict with yours.", MEET, None, True),
    "beside each other": (FINE, {"a": OURS, "b": BELOW}, None, True),
    "no need to combine": ("Our patches are graded separately.", MEET, "conflicts", True),
    "no need to combine, clean": ("Our patches are graded separately.", MEET, "clean", False),
    "of a file with a long name": (
        "No overlap of our edits in tide_rows.py.",
        {"a": change("+tide = 2", "tide_rows.py"), "b": change("+tide = 3", "tide_rows.py")},
        None,
        True,
    ),
    "of another file": ("No overlap of our edits in piers.py.", MEET, None, False),
    "of other code": ("No overlap of our edits in `ebb_row()`.", MEET, None, False),
    "they do not meet": (FINE, {"a": OURS, "b": APART}, None, False),
    "another file": (FINE, {"a": OURS, "b": change("+tide = 3", "piers.py")}, None, False),
    "one patch": (FINE, {"a": OURS}, "conflicts", False),
    "one of them empty": (FINE, {"a": OURS, "b": ""}, "conflicts", False),
    "the same edit": (FINE, SAME, "clean", False),
    "others meet": (FINE, {"a": APART, "b": OURS, "c": THEIRS}, "conflicts", False),
    "hedged": ("Our edits should merge cleanly.", MEET, "conflicts", False),
}


@pytest.mark.parametrize("case", REFUTED)
def test_an_assurance_is_refuted_where_the_patches_meet(case):
    text, patches, merge, refuted = REFUTED[case]
    trace = run([f"a: {text}", "b: The tide is high."], patches, merge=merge)
    found = checked(trace, "assurance_refuted")
    assert len(found) == refuted
    for fact in found:
        assert fact.agents == ("a", "b")
        assert quotes(trace, fact)[0] == text
        if patches is MEET:
            assert quotes(trace, fact)[1:] == AT_BOTH
            assert fact.about["path"] == "tides.py"


# the messages -> who goes first by the fact, whose quotes begin with these; None: no order
LOST = {
    "accepted": (["a: You go first.", "b: Agreed."], "b", ["You go first."]),
    "accepted late": (["a: I push first.", "b: It is low.", "b: Works for me."], "a", [
        "I push first."
    ]),
    "stated alike": (["a: You go first.", "b: I'll go first."], "b", [
        "I'll go first.", "You go first."
    ]),
    "said twice": (["a: You go first.", "a: You push first.", "b: Ok."], "b", ["You push first."]),
    "nobody accepts": (["a: You go first.", "b: The tide is high."], None, None),
    "but": (["a: You go first.", "b: Ok, but I would rather follow you."], None, None),
    "both yield": (["a: You go first.", "b: You go first."], None, None),
    "accepted before": (["b: Agreed.", "a: You go first."], None, None),
    "accepted by oneself": (["a: You go first.", "a: Agreed."], None, None),
    "too late": (["a: You go first.", *["b: It is high."] * 5, "b: Agreed."], None, None),
}  # fmt: skip


@pytest.mark.parametrize("case", LOST)
def test_an_agreed_order_is_lost_where_the_patches_meet(case):
    lines, first, spoken = LOST[case]
    trace = run(lines, MEET, merge="conflicts")
    found = checked(trace, "order_lost")
    assert [fact.about["first"] for fact in found] == ([first] if first else [])
    for fact in found:
        assert quotes(trace, fact) == [*spoken, *AT_BOTH]


@pytest.mark.parametrize(
    ("patches", "merge", "lost"),
    [
        ({"a": OURS, "b": APART}, "conflicts", False),
        ({"a": OURS}, "conflicts", False),
        (SAME, "clean", False),
        (SAME, "conflicts", True),  # the rest of the place may
    ],
)
def test_an_order_is_only_lost_where_they_meet(patches, merge, lost):
    trace = run(LOST["accepted"][0], patches, merge=merge)
    assert len(checked(trace, "order_lost")) == lost


# --- questions that stay open -------------------------------------------------------------------

ASK = "a: Do overdue fines round up or down?"
CARDS = "b: I take the card layout. It is half drawn."
# the messages -> None, or the second passage that shows that no reply came ("": there is none)
OPEN = {
    "the partner's last word": ([CARDS, ASK], "It is half drawn."),
    "remarked by who asks": ([CARDS, ASK, "a: Half built. No answer so far, so I round up."],
                             "No answer so far, so I round up."),
    "nothing shows it": ([ASK], ""),
    "answered": ([ASK, "b: Fines round up."], None),
    "answered late": ([ASK, CARDS, "b: As to fines, they round up."], None),
    "written past": ([ASK, CARDS], None),
    "taken back": ([CARDS, ASK, "a: Never mind, the readme says it."], None),
    "an action": ([CARDS, "a: Please rebase the table on mine."], None),
}  # fmt: skip


@pytest.mark.parametrize("case", OPEN)
def test_a_question_after_which_no_partner_sends_anything(case):
    lines, second = OPEN[case]
    trace = run(lines, {"b": ""})
    found = checked(trace, "no_reply")
    assert len(found) == (second is not None)
    for fact in found:
        assert fact.agents == ("a", "b")
        assert quotes(trace, fact) == [ASK[3:], *([second] if second else [])]


def test_only_those_who_were_asked_can_reply_and_only_if_all_was_read():
    others = talk("b: I take the map.", "c: I take the table.")
    late = Message(9, "c", (), "The lighthouse page uses metres in its tide table.")
    for to, found in ((("b",), 1), ((), 0)):
        asked = Message(5, "a", to, "Which unit does your tide table store?")
        assert len(checked(run((*others, asked, late)), "no_reply")) == found
    many = [*["b: I take the map."] * 1_999, ASK, CARDS]
    assert len(checked(run(many), "question")) == 1
    assert checked(run(many), "no_reply") == []
