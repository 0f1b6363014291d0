"""What states what: sentences, and the statements that are found in them."""

import json

import pytest

from annotator.evidence import spans_in
from annotator.facts import assurances, conversation
from annotator.facts.prose import MOST_TEXT, read
from annotator.facts.registry import know
from annotator.facts.stated import agreed, assured, promises, retracted
from annotator.facts.statements import MOST_STATEMENTS, PROMISES, statements
from annotator.traces import Message, Trace
from tests.facts.diffs import change
from tests.growth import LIMIT, cuts, growth, parts

STATED = (*promises.KINDS, *retracted.KINDS, *assured.KINDS, *agreed.KINDS)


def talk(*lines, kind=None):
    """Return a trace of messages from lines "sender: text"."""
    pairs = [line.split(": ", 1) for line in lines]
    messages = tuple(
        Message(n, sender, (), text, kind=kind) for n, (sender, text) in enumerate(pairs, 1)
    )
    return Trace("run", "test", "", messages)


def short(fact):
    """Return a statement in a word or two; "?" behind it for a hedged one."""
    about = fact.about
    name = {
        "commitment": lambda: f"will {about['action']}",
        "completion_claim": lambda: (
            "tests pass" if about["form"] == "tests" else "did " + about["action"]
        ),
        "retraction": lambda: "back",
        "assurance": lambda: about["claim"],
        "clash_stated": lambda: "clash",
        "placement_agreement": lambda: f"put {about['relation']}",
        "order_agreement": lambda: f"{about['first']} first",
    }[fact.kind]()
    return name + "?" * about["hedged"]


def said_in(text, position=1):
    """Return what agent1 states in a later message, or in its first, in a word or two each."""
    before = ["agent1: Hello there."] * position
    trace = talk("agent2: Hello to you.", *before, f"agent1: {text}")
    source = trace.source(f"message:{position + 2}")
    found = []
    for fact in know(trace).of(*STATED):
        assert fact.about["message"] == position + 2
        assert fact.agents == ("agent1",)
        assert (fact.about["hedge"] is not None) == fact.about["hedged"]
        json.dumps(dict(fact.about))
        [span] = fact.spans
        assert spans_in(source.text[span.start : span.end], source)
        found.append(short(fact))
    return found


SENTENCES = {
    # what is left alone, and what is all that changes
    "I will not touch tides.py.": ["untouched"],
    "I won't modify the harbour module.": ["untouched"],
    "I'm not going to edit pier_row.": ["untouched"],
    "We do not change the level table.": ["untouched"],
    "I have not touched library/loans.py.": ["untouched"],
    "I never edit clock.py.": ["untouched"],
    "The table is built without changing tides.py.": ["untouched"],
    "I should not touch tides.py.": ["untouched?"],
    "If you keep tide_row, I won't touch it.": ["untouched?"],
    "My patch only adds chess_clock.py.": ["only"],
    "My changes are only in tides.py.": ["only"],
    "I've only edited loans.py and its test.": ["did change", "only"],
    "I'll only touch harbour/piers.py.": ["will touch", "only"],
    "You won't touch tides.py, right.": [],
    "I can not change the tide table.": [],
    "Please do not touch tides.py.": [],
    # no clash
    "There is no conflict between our patches.": ["no_conflict"],
    "No overlap at all.": ["no_conflict"],
    "Zero collisions.": ["no_conflict"],
    "No real merge conflicts with your rows.": ["no_conflict"],
    "Our patches cannot conflict.": ["no_conflict"],
    "Our edits will never collide.": ["no_conflict"],
    "Nothing in your patch clashes with mine.": ["no_conflict"],
    "None of our edits collide.": ["no_conflict"],
    "Neither of our patches overlaps with the other.": ["no_conflict"],
    "There won't be any merge conflicts.": ["no_conflict"],
    "That won't affect your patch.": ["no_conflict"],
    "My change does not break your branch.": ["no_conflict"],
    "Our two patches share no common lines.": ["no_conflict"],
    "No shared hunks between us.": ["no_conflict"],
    "A conflict is impossible between our patches.": ["no_conflict"],
    "It will be an easy merge for us.": ["no_conflict"],
    "The merge will be trivial.": ["no_conflict"],
    "The risk of overlap is low for both patches.": ["no_conflict?"],
    "Our edits are non-overlapping.": ["no_conflict"],
    "Our patches are conflict-free.": ["no_conflict"],
    "Our edits merge cleanly.": ["no_conflict"],
    "Both patches apply together without conflicts.": ["no_conflict"],
    "Your patch and mine combine automatically.": ["no_conflict"],
    "Our changes are fully compatible.": ["no_conflict"],
    "The patches can coexist.": ["no_conflict"],
    "It is safe to merge both branches.": ["no_conflict"],
    "There is no risk of a collision with your edits.": ["no_conflict"],
    "So there's no conflict between our patches.": ["no_conflict"],
    "I looked at your hunk list: nothing in it intersects with mine.": ["no_conflict"],
    "There is no contention over `validate.ts` between us.": ["no_conflict"],
    'fyi the changelog entries don\'t collide: yours goes under "Added", mine under "Fixed".': [
        "no_conflict"
    ],
    "Nothing in my diff clashes with the lazy decoder you are adding to TiffImagePlugin.": [
        "no_conflict"
    ],
    "My change to `crates/layout/src/grid.rs` is purely additive and does not collide with your"
    " footnote work.": ["no_conflict"],
    "no overlap between us: you are in router/tree.go, I am in middleware/timeout.go": [
        "no_conflict"
    ],
    "Probably no conflict between our patches.": ["no_conflict?"],
    "Our patches should not conflict.": ["no_conflict?"],
    "I think our edits don't collide.": ["no_conflict?"],
    "I believe there is no conflict between our patches.": ["no_conflict?"],
    "There might be no overlap between our edits.": ["no_conflict?"],
    "Our patches would merge cleanly.": ["no_conflict?"],
    "No conflicts between our patches yet.": ["no_conflict?"],
    "Looks like no conflict between our branches.": ["no_conflict?"],
    "Assuming you stay above line 9, our edits don't overlap.": ["no_conflict?"],
    "Once you rename it, there is no clash between our patches.": ["no_conflict?"],
    "It is unlikely that our patches don't conflict.": ["no_conflict?"],
    "likely safe to merge, additive only, tell me otherwise": ["no_conflict?"],
    "As long as you leave the signature of `load_dataset_builder` alone, our two patches don't"
    " clash.": ["no_conflict?"],
    "My edits to `thumbnail()` should merge fine with your EXIF rotation code.": ["no_conflict?"],
    "Let us keep the rows apart so that our edits do not conflict.": [],
    "Make sure that our edits do not overlap.": [],
    "I want no overlap between our edits.": [],
    "Please confirm that our edits do not overlap.": [],
    "Can you confirm there is no overlap between our edits?": [],
    "Is there no conflict between our patches?": [],
    "Our edits do not merge cleanly.": [],
    "I propose separate files so our edits do not collide.": [],
    "Two loans never overlap in the library table that the clerk keeps by hand.": [],
    "The tide rises and no conflict arises in the lock schedule of the canal today.": [],
    "Please keep your edits out of `createFormControl.ts` to avoid merge conflicts.": [],
    "I merged your branch and there were no conflicts.": ["did merge"],
    # apart in the code
    "Our edits are in disjoint parts of tides.py.": ["disjoint"],
    "We work in different files.": ["disjoint"],
    "Our two changes are orthogonal.": ["disjoint"],
    "Our two features are mutually exclusive.": ["disjoint"],
    "Your edit and mine are in separate functions.": ["disjoint"],
    "Your work is independent of mine.": ["disjoint"],
    "I think we are in separate files.": ["disjoint?"],
    "Our regions are not disjoint.": [],
    "A disjoint split isn't possible here.": [],
    "Let's work in separate files.": [],
    "Use separate functions.": [],
    # no need to combine
    "No merge is needed between us.": ["independent"],
    "There is no need to merge our branches.": ["independent"],
    "There is nothing to merge.": ["independent"],
    "We don't need to reconcile anything.": ["independent"],
    "Our patches are graded separately.": ["independent"],
    "Your patch is evaluated in isolation.": ["independent"],
    "Only my patch is scored here.": ["independent"],
    "The grader only reads my patch.": ["independent"],
    "Our features stay independent.": ["independent"],
    "Perhaps our patches are graded separately.": ["independent?"],
    "Are our patches graded separately?": [],
    # a clash
    "Our edits do overlap in tide_row.": ["clash"],
    "There will be a conflict in loans.py.": ["clash"],
    "They will definitely clash in tide_row.": ["clash"],
    "There are merge conflicts in tides.py.": ["clash"],
    "There's an overlap in clock.py.": ["clash"],
    "It does conflict with your row.": ["clash"],
    "If you rename it, there will be a conflict.": ["clash?"],
    "They will not overlap.": ["no_conflict"],
    "Do our edits overlap, or is there a conflict?": [],
    "The edits may conflict in tides.py.": [],
    # where something goes
    "Put pier_row right after tide_row.": ["put after"],
    "I append loan_days at the end of loans.py.": ["put at the end of"],
    "Insert the new branch before `return level`.": ["put before"],
    "Add it between `low_tide` and `high_tide`.": ["put between"],
    "Keep your import after `import harbour`.": ["put after"],
    "My method goes immediately before `def close(self)`.": ["put before"],
    "Insert your rows above the `# LOANS` marker.": ["put above"],
    "I placed clock_face() directly below clock_hand().": ["did place", "put below"],
    "Shall I put pier_row after tide_row?": [],
    "After lunch the ferry goes.": [],
    "The tide comes after the ebb.": [],
    # who goes first
    "You go first.": ["agent2 first"],
    "I commit my rows first, then you rebase.": ["agent1 first"],
    "agent2 merges first.": ["agent2 first"],
    "agent1 goes first and you follow.": ["agent1 first"],
    "You can layer your patch on top.": ["agent1 first"],
    "Go ahead and build on top of my branch.": ["agent1 first"],
    "I can then stack mine on top.": ["agent2 first"],
    "I will not start before you push.": ["agent2 first"],
    "I'll hold off until you finish.": ["will wait", "agent2 first"],
    "Mine comes after yours.": ["agent2 first"],
    "Going second on `mux.go` is fine with me.": ["agent2 first"],
    "It's your turn.": ["agent1 first"],
    "Go after me.": ["agent1 first"],
    "Do not start on the rows yet.": ["agent1 first"],
    "Once you have pushed, I add my row.": ["agent2 first"],
    "You start after I finish.": ["agent1 first"],
    "Before you start, I push tide_row.": ["agent1 first"],
    "Wait for my patch.": ["agent1 first"],
    "You land the `RouterGroup` rename first and I build my param matcher on that.": [
        "agent2 first"
    ],
    "Holding off on `useForm.ts` until you send DONE.": ["agent2 first"],
    "I could go first if you like.": ["agent1 first?"],
    "If you prefer, you go first.": [],
    "Who goes first?": [],
    "The pawn moves first on this board.": [],
    "First I looked at `tree.go`, then I found that the wildcard check is in `path.go`.": [],
    "The `timeout` parameter comes after `retries` in the signature of `newClient`.": [],
    "My first attempt used a regex, after that I switched to `strings.Cut`.": [],
    "Let me know once you push.": [],
    "Ping me before you merge.": [],
    # what will be done
    "I'm going to add tide_table.": ["will add"],
    "We will rename loans.py to lending.py.": ["will rename"],
    "I plan to move tide_row into harbour.py.": ["will move"],
    "I intend to remove old_clock.": ["will remove"],
    "Will add clock_face to clock.py.": ["will add"],
    "I'll go ahead and update the loan table.": ["will change"],
    "I'll add tide_row and remove ebb_row.": ["will add", "will remove"],
    "I own tides.py.": ["will own"],
    "If you agree, I'll add tide_table.": ["will add?"],
    "I'll add tide_table so that you can use it.": ["will add"],
    "I may add tide_table.": [],
    "I would add tide_table.": [],
    "I won't add tide_table.": [],
    "You will add tide_table.": [],
    "Will you add tide_table?": [],
    "I'm adding tide_table now.": [],
    # what is done
    "I have added tide_table to tides.py.": ["did add"],
    "I've renamed clock_face.": ["did rename"],
    "The tide table has been added.": ["did add"],
    "Both rows are implemented.": ["did add"],
    "Removed old_clock and fixed clock_face.": ["did remove", "did change"],
    "Done with clock.py.": ["did finish"],
    "I think I added tide_row.": ["did add?"],
    "All 12 tests pass.": ["tests pass"],
    "12 passed in 3 s.": ["tests pass"],
    "My tests are green.": ["tests pass"],
    "The tests do not pass.": [],
    "If all tests pass, I push.": [],
    "I haven't added tide_row.": [],
    "You added tide_row.": [],
    "tide_row must be added to tides.py.": [],
    "I will have added it by noon.": [],
    "Has tide_row been added?": [],
    # what is taken back
    "I reverted my edits to tides.py.": ["back"],
    "I've taken loan_days out of my patch again.": ["back"],
    "I backed out my changes to loans.py.": ["back"],
    "I have withdrawn the loan table from my patch.": ["back"],
    "The loan table is no longer in my patch.": ["back"],
    "Scratch what I said of the clock, I undid it for you.": ["back"],
    "I took your `lossless` code back out of my patch, only my own part is left.": ["back"],
    "After your objection I removed the column statistics that I'd put into `arrow_writer.py` for"
    " you.": ["back"],
    "I removed your tide_row from my patch.": ["did remove", "back"],
    "I removed old_clock as my task says.": ["did remove"],
    "I will remove your row from my patch.": ["will remove"],
    "I saw that you reverted your change to `ServeHTTP`, thanks.": [],
    "Please remove my row from your patch.": [],
    "Should I remove my row from the patch?": [],
    "I did not revert anything of yours, your lines in `environment.py` are all still there.": [],
    "`useForm().reset()` now reverts dirty fields to the values that were passed last.": [],
}


@pytest.mark.parametrize("text", SENTENCES)
def test_what_a_sentence_states(text):
    assert said_in(text) == SENTENCES[text]


@pytest.mark.parametrize("text", [text for text in SENTENCES if "'" in text])
def test_a_curly_apostrophe_says_the_same(text):
    assert said_in(text.replace("'", "’")) == SENTENCES[text]


@pytest.mark.parametrize("text", [text for text, says in SENTENCES.items() if says])
def test_quoted_code_and_questions_state_nothing(text):
    assert said_in(f"> {text}") == []
    assert said_in(f"```\n{text}\n```") == []
    assert said_in(f"type: DRAFT\nfiles: a.py\ncode: {text}") == []


@pytest.mark.parametrize("text", [text for text, says in SENTENCES.items() if says])
def test_a_sentence_states_the_same_among_others(text):
    assert said_in(f"The tide is high. {text}\nThe ebb is low.") == SENTENCES[text]


TENSES = {
    "I will not touch tides.py.": "future",
    "I'm not going to edit tides.py.": "future",
    "I did not touch tides.py.": "past",
    "I haven't edited tides.py.": "past",
    "I don't touch tides.py.": "present",
    "I've only changed tides.py.": "past",
    "Our patches will merge cleanly.": "future",
    "Our edits do not overlap.": "present",
}


@pytest.mark.parametrize("text", TENSES)
def test_tenses(text):
    [fact] = know(talk("a: Hello there.", f"a: {text}")).of("assurance")
    assert fact.about["tense"] == TENSES[text]


# text -> the kind, the files and the symbols that it is about
ABOUT = {
    "I won't touch tides.py or piers.py, but loans.py.": (
        "assurance",
        ["tides.py", "piers.py"],
        [],
    ),
    "I'll only touch clock.py and clock_face.": ("assurance", ["clock.py"], ["clock_face"]),
    "Our edits in tides.py do not collide with loan_days.": (
        "assurance",
        ["tides.py"],
        ["loan_days"],
    ),
    "I'll add tide_row to tides.py before ebb_row.": ("commitment", ["tides.py"], ["tide_row"]),
    "I took tide_row out of my tides.py again.": ("retraction", ["tides.py"], ["tide_row"]),
    "There will be a conflict in clock.py at clock_face.": (
        "clash_stated",
        ["clock.py"],
        ["clock_face"],
    ),
}


@pytest.mark.parametrize("text", ABOUT)
def test_what_a_statement_is_about(text):
    kind, files, symbols = ABOUT[text]
    [fact] = know(talk("a: Hello there.", f"a: {text}")).of(kind)
    assert (fact.about["files"], fact.about["symbols"]) == (files, symbols)


@pytest.mark.parametrize(
    ("text", "details"),
    [
        (
            "Put pier_row right after `tide_row`.",
            {"place": "`tide_row`.", "tight": True, "marker": False},
        ),
        (
            "Insert your rows above the `# LOANS` marker",
            {"place": "the `# LOANS` marker", "tight": False, "marker": True},
        ),
    ],
)
def test_places(text, details):
    [fact] = know(talk(f"a: {text}")).of("placement_agreement")
    assert {name: fact.about[name] for name in details} == details


def test_who_is_meant():
    """ "You" is nobody in particular among three, unless the message has one recipient."""
    three = (Message(1, "a", (), "You go first."), Message(2, "b", (), "Hi."))
    third = Message(3, "c", (), "Hello.")
    to_b = Message(1, "a", ("b",), "You go first.")
    firsts = [
        know(Trace("run", "test", "", talked)).of("order_agreement")[0].about["first"]
        for talked in (three, (*three, third), (to_b, three[1], third))
    ]
    assert firsts == ["b", None, "b"]


def test_a_doubt_counts_in_its_own_clause_and_a_condition_everywhere():
    for text, hedged in {
        "The row should be short; our edits do not overlap.": False,
        "I think the row is short, and our edits do not overlap.": False,
        "Our edits do not overlap, since I might only add a row.": False,
        "Our edits do not overlap; tell me if you see it in another way.": True,
        "Our edits should not overlap, since I add a row.": True,
    }.items():
        [fact] = know(talk("a: Hello there.", f"a: {text}")).of("assurance")
        assert fact.about["hedged"] is hedged, text


def test_only_the_first_hundred_statements_of_a_message_are_looked_at():
    said = read(Message(1, "a", (), "I'll add a_row. " * 500))
    assert len(list(statements(said, PROMISES))) == MOST_STATEMENTS


# --- proposals and acceptances ------------------------------------------------------------------

# text -> None, or whether it is put against another
PROPOSALS = {
    "I propose that you take tides.py.": False,
    "Proposal: one file each.": False,
    "I'd suggest a new table for it.": False,
    "Let's split it by file.": False,
    "How about a table of its own?": False,
    "What if I take the loans?": False,
    "I propose to use a list instead.": True,
    "Alternatively, the clock goes into its own file.": True,
    "Either you take the clock or I do.": True,
    "I suggest the table rather than the clock.": True,
    "I take the tide table.": None,
    "The clock is fast.": None,
    "You may propose something yourself tomorrow.": False,
}


@pytest.mark.parametrize("text", PROPOSALS)
def test_proposals(text):
    expected = PROPOSALS[text]
    found = know(talk(f"a: {text}")).of("proposal")
    assert [fact.about["counter"] for fact in found] == ([] if expected is None else [expected])


def test_a_revision_is_a_counterproposal_by_its_type_and_a_message_makes_one_proposal():
    [fact] = know(talk("a: I propose a list. Let's take a table instead.", kind="REVISE")).of(
        "proposal"
    )
    assert fact.about == {"message": 1, "counter": True, "own_type": "revise"}
    [span] = fact.spans
    assert (span.start, span.end) == (0, len("I propose a list."))


ACCEPTANCES = {
    "Agreed, that is fine.": True,
    "OK, I do it so.": True,
    "Yes, the table is mine.": True,
    "Sounds good to me.": True,
    "Works for me, thank you.": True,
    "agent1: accepted, as you say.": True,
    "Thank you for the note. Agreed on the table.": True,
    "Understood, the clock is yours.": True,
    "No, the table is mine.": False,
    "The tide is high. The ebb is low. Agreed.": False,
    "I do not agree with it.": False,
    "The yes comes later.": False,
}


@pytest.mark.parametrize("text", ACCEPTANCES)
def test_acceptances(text):
    found = know(talk("a: I propose a table.", f"b: {text}")).of("acceptance")
    assert [fact.agents for fact in found] == ([("b",)] if ACCEPTANCES[text] else [])


def test_a_first_message_accepts_nothing_and_a_type_accepts_by_itself():
    assert know(talk("a: Agreed, that is fine.")).of("acceptance") == []
    accepted = know(talk("a: Hello there.", "b: The tide is high.", kind="ACCEPT"))
    assert [fact.about["message"] for fact in accepted.of("acceptance")] == [2]


ORDER = "a: You go first."
ACCEPTED_IN = {
    "at once": ([ORDER, "b: Agreed on that."], 2),
    "after a remark": ([ORDER, "b: The tide is high.", "b: Ok with me."], 3),
    "past its own words": ([ORDER, *["a: The tide is high."] * 9, "b: Ok with me."], 11),
    "by oneself": ([ORDER, "a: Agreed on that."], None),
    "never": ([ORDER, "b: The tide is high."], None),
    "too late": ([ORDER, *["b: The tide is high."] * 5, "b: Agreed on that."], None),
}


@pytest.mark.parametrize("case", ACCEPTED_IN)
def test_an_agreement_is_accepted_among_the_next_five_messages_of_partners(case):
    lines, accepted = ACCEPTED_IN[case]
    fact = know(talk(*lines)).of("order_agreement")[0]
    assert fact.about["agreed_in"] == accepted


# --- odd text -----------------------------------------------------------------------------------

ODD = "x\u202e\x1b[31m\x00\ud800\n\u2066y"


def test_odd_names_do_not_reach_a_sentence_raw():
    """Names of agents, files and symbols are strangers' text; ``says`` is one line to show."""
    path = "ti\u202edes\x1b.py"
    body = "-level = 2\n+ti\u202ede = 1\n+ebb = level(3)"
    patches = {ODD: change(body, path), "b": change(body.replace("1", "4"), path)}
    said = (
        f"I won't touch {path}. Our edits merge cleanly. You go first. You own {path}."
        " level is now = 3. I will implement both mine and yours."
        " Please add `ebb = level(3)\u202e` to it."
    )
    messages = tuple(
        Message(n, sender, (), text)
        for n, (sender, text) in enumerate(
            [(ODD, said), ("b", f"Agreed. {said}"), (ODD, f"\ud800\u202e {said}")], 1
        )
    )
    trace = Trace("run", "test", "", messages, patches)
    everything = list(know(trace))
    assert {"assurance_refuted", "order_lost", "partner_work"} <= {fact.kind for fact in everything}
    for fact in everything:
        assert fact.says.isprintable(), fact.kind


LONG = 100_000
REPEATED = [
    "no ", "not ", "nothing ", "never ", "implement ", "both ", "'a(b)' ", "`a.b` ", "please add ",
    "so that we ", "i'll layer ", "your ", "you ", "if ", "now = ", "first ", "on top ", "not be ",
    "wait ", "before you ", "i'll not touch a.py, ", "you own ", "merge ", "either ", "add my ",
    "patch graded ", "no conflict, our ", "i removed ", "is now ", "(yours) ", "disjoint ", "i i ",
    "n't be any ", "only my ", "separate big ", "do not edit ", "put it over ", "isn't ", "to ",
    "no merge conflict line ", "nothing left to ", "for you ", "added a_b, ", "you push x first ",
]  # fmt: skip


@pytest.mark.parametrize("part", parts(4))
@pytest.mark.parametrize("piece", REPEATED)
def test_hostile_messages_take_bounded_time(piece, part):
    patches = {"a": change("+a b c", "a.py"), "b": change("+d e f", "a.py")}

    def facts(text):
        said = Message(1, "a", (), text), Message(2, "b", (), text)
        return list(know(Trace("run", "test", "", said, patches)))

    assert growth(facts, *cuts(piece * (LONG // len(piece)), part, MOST_TEXT)) < LIMIT


def test_the_words_looked_for_are_lower_case_words():
    """A sentence is tried for a claim only if one of these is among its words of letters."""
    for words in assurances.WORDS.values():
        assert all(word.isalpha() and word == word.lower() for word in words)
    assert set(conversation.KINDS).isdisjoint(STATED)
