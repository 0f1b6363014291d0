"""Failed runs of two agents, written by hand: one for each coordination symptom, and one near miss.

A near miss looks like a symptom (``code_it_resembles``) and has another label by the rubric. All
were written from the descriptions of the symptoms, before anybody held them against the rules.

In a text, ``1: `` and ``2: `` begin a message of agent1 and agent2, ``| `` begins a line of its
own, and every other line goes on with the one above. From the first ``+++`` on it shows both
patches, as in ``tests.patches.pairs``: ours are agent1's, theirs are agent2's.
"""

import re
from typing import NamedTuple

from annotator.traces import AgentEnd, Feature, Message, Outcome, Trace
from tests.patches.pairs import Pair


class Example(NamedTuple):
    """A run, the primary code it deserves, and the code it only seems to deserve."""

    name: str
    trace: Trace
    truth: str
    code_it_resembles: str | None = None


class End(NamedTuple):
    """How a feature ended: what its tests printed after the merge, and whether it works alone."""

    output: str = ""
    passed: bool = False
    alone: bool = True
    reason: str | None = None


UNTESTED = (End(), End())  # the merge has conflicts: nothing could be tested together


def ok(tests: int) -> End:
    return End(f"{'=' * 30} {tests} passed in 0.0{tests}s {'=' * 30}", passed=True)


def _messages(talk: str) -> tuple[Message, ...]:
    said: list[tuple[str, list[str]]] = []
    for line in talk.strip("\n").split("\n"):
        if line[:3] in ("1: ", "2: "):
            said.append((f"agent{line[0]}", [line[3:]]))
        elif line[:1] == "|":
            said[-1][1].append(line[2:])
        else:
            said[-1][1][-1] += " " + line
    other = {"agent1": ("agent2",), "agent2": ("agent1",)}
    return tuple(
        Message(n, sender, other[sender], "\n".join(lines))
        for n, (sender, lines) in enumerate(said, 1)
    )


def _patch(text: str) -> str:
    """Return a diff with the lines that git writes above each file."""

    def headed(found: re.Match[str]) -> str:
        new = "new file mode 100644\n" if found[1] == "/dev/null" else ""
        return f"diff --git a/{found[2]} b/{found[2]}\n{new}{found[0]}"

    return re.sub(r"^--- (\S+)\n\+\+\+ b/(\S+)$", headed, text, flags=re.MULTILINE)


def _run(
    name: str,
    truth: str,
    text: str,
    *,
    ends: tuple[End, End] = UNTESTED,
    statuses: tuple[str, str] = ("Submitted", "Submitted"),
    resembles: str | None = None,
) -> Example:
    agents = ("agent1", "agent2")
    talk, file, code = text.partition("+++ ")
    pair = Pair(name, file + code)
    outcome = Outcome(
        passed=False,
        merge="clean" if any(end.output for end in ends) else "conflicts",
        strategy="naive",
        features=tuple(
            Feature(agent[-1], agent, end.passed, end.alone, end.reason, end.output)
            for agent, end in zip(agents, ends, strict=True)
        ),
        agents=tuple(
            AgentEnd(agent, agent[-1], status)
            for agent, status in zip(agents, statuses, strict=True)
        ),
    )
    patches = dict(zip(agents, map(_patch, (pair.ours, pair.theirs)), strict=True))
    trace = Trace(name, "cooperbench", "", _messages(talk), patches, outcome)
    return Example(name, trace, truth, resembles)


SYMPTOMS = (
    _run(
        "bus_timetable",
        "work_overlap",
        """
1: Feature 1 here, the night buses. Times past midnight are stored as 1470 and have to come out as
00:30. That goes into a new function clock_text(), in timetable/times.py above parse_stop().
2: Hi! I do the printable sheet (timetable/sheet.py, a new file). It prints times too, so it needs
the same wrap at midnight.
1: That's exactly what clock_text(minutes) is for. It's part of my feature, so please import mine.
2: Sheet is finished. My tests can't see your branch, so I wrote clock_text() in times.py here too.
1: Okay. Night buses are finished here.
+++ timetable/times.py
 MINUTES = "minutes after midnight of the day on which the bus sets out"


<def clock_text(minutes):
<    hours, rest = divmod(minutes, 60)
<    return f"{hours % 24:02}:{rest:02}"
<
<
>def clock_text(minutes):
>    if minutes >= 24 * 60:
>        minutes -= 24 * 60
>    return "%02d:%02d" % (minutes // 60, minutes % 60)
>
>
 def parse_stop(line):
     name, minutes = line.rsplit(" ", 1)
     return name, int(minutes)
+++ timetable/night.py
<from timetable.times import clock_text
<
<
<def night_row(line, stops):
<    return [line] + [clock_text(minutes) for _, minutes in stops]
+++ timetable/sheet.py
>from timetable.times import clock_text
>
>
>def sheet(stops):
>    return "\\n".join(f"{name:<20}{clock_text(minutes)}" for name, minutes in stops)
""",
    ),
    _run(
        "score_sheet",
        "divergent_architecture",
        """
1: I'm on undo. The design: a sheet remembers events and nothing else, one (player, points) for each
move. Totals are not stored any more, they get added up from the events whenever somebody looks.
2: Mine is the bonus at the end of a round, in board/bonus.py. For me the totals are the thing to
change: end_round() adds the bonus to the leader's total in place. A bonus is no move, so it leaves
no event behind.
1: ok, bonus.py is yours and sheet.py is mine. undo() drops the last event.
2: Bonus works, three tests.
1: Undo works as well, also several times in a row.
+++ board/sheet.py
 class Sheet:
     def __init__(self, players):
         self.players = players
(        self.totals = dict.fromkeys(players, 0)
<        self.events = []

     def add(self, player, points):
(        self.totals[player] += points
<        self.events.append((player, points))
<
<    def undo(self):
<        self.events.pop()
<
<    @property
<    def totals(self):
<        totals = dict.fromkeys(self.players, 0)
<        for player, points in self.events:
<            totals[player] += points
<        return totals
+++ board/bonus.py
>def end_round(sheet, bonus):
>    leader = max(sheet.totals, key=sheet.totals.get)
>    sheet.totals[leader] += bonus
""",
        ends=(
            ok(4),
            End("""
    def test_leader_gets_the_bonus():
        sheet = played({"ann": 12, "bo": 9})
        end_round(sheet, 5)
>       assert sheet.totals["ann"] == 17
E       assert 12 == 17
FAILED tests/test_bonus.py::test_leader_gets_the_bonus - assert 12 == 17
========================= 1 failed, 2 passed in 0.03s ========================="""),
        ),
    ),
    _run(
        "marathon",
        "repetition",
        """
1: **Status (age groups)**
| - results/groups.py: written
| - build_report() in results/report.py prints the group of each runner
| - tests: 6 of 6
2: Splits are in. results/splits.py exists, build_report() shows the 5 km time, 4 tests green.
1: **Status update (age groups)**
| - results/groups.py: complete
| - results/report.py: build_report() prints each runner's group
| - tests: all 6 pass
2: Quick update from the splits: results/splits.py exists, the 5 km time is shown by build_report(),
and the 4 tests are green.
1: **Final status (age groups)**
| - results/groups.py: complete, group printed by build_report() in results/report.py
| - tests: 6 of 6 pass
2: To sum up, splits are in: results/splits.py, 5 km time in build_report(), 4 green tests.
1: Summing up as well: groups.py complete, build_report() prints the group, 6 of 6 tests pass.
+++ results/report.py
 from results.text import heading
<from results.groups import age_group
>from results.splits import five_km


 def build_report(runners):
     lines = [heading("Results")]
     for place, runner in enumerate(sorted(runners, key=lambda one: one.seconds), 1):
         lines.append(f"{place}. {runner.name}")
<        lines.append(f"   {age_group(runner)}")
>        if runner.splits:
>            lines.append(f"   5 km in {five_km(runner)}")
     return lines
+++ results/groups.py
<def age_group(runner):
<    return f"M{runner.age // 5 * 5}" if runner.male else f"W{runner.age // 5 * 5}"
+++ results/splits.py
>def five_km(runner):
>    minutes, seconds = divmod(runner.splits[0], 60)
>    return f"{minutes}:{seconds:02}"
""",
    ),
    _run(
        "cinema",
        "unresponsiveness",
        """
1: Hello, I add the language to every line of the programme (feature 1), say "OV" or "sub".
2: Hello, feature 2: sold-out shows are to vanish from the programme. We'd both be in the loop of
listing(). Either (A) you own the loop, and it calls my has_seats(show), or (B) I own the loop, and
you hang your language onto show.line(). Which one do you want?
1: The short forms are in a table now: OV, sub, dub.
2: I still need A or B before I can touch listing().
1: There's a fallback for languages that nobody knows, it prints a question mark. 5 tests pass.
2: I'll go by B then. has_seats() is written and used in the loop.
+++ cinema/listing.py
 from cinema.texts import title
<
<SHORT = {"original": "OV", "subtitles": "sub", "dubbed": "dub"}


 def listing(shows):
     rows = [title("This week")]
     for show in shows:
-        rows.append(show.line())
<        rows.append(f"{show.line()} ({SHORT.get(show.language, '?')})")
>        if has_seats(show):
>            rows.append(show.line())
     return rows


 def total_seats(shows):
     return sum(show.seats for show in shows)
>
>
>def has_seats(show):
>    return show.sold < show.seats
""",
    ),
    _run(
        "telescope",
        "unverifiable_claims",
        """
1: The filter wheel is my feature. plan_night() picks the filter for each target from now on.
2: I loop over what plan_night() returns in moon.py and only want start and end of each slot. If you
paste the line that builds a slot, I can adapt my loop to it.
1: No need. For callers nothing changes, it is fully backwards compatible.
2: Great, so I write the loop against the slots as I have them here.
1: Filter wheel complete.
2: Moon complete.
+++ telescope/plan.py
 def plan_night(targets, sunset):
     slots = []
     for target in targets:
         end = sunset + target.minutes
(        slots.append((sunset, end))
<        slots.append((sunset, end, target.band or "clear"))
         sunset = end
     return slots
+++ telescope/moon.py
>from telescope.plan import plan_night
>
>
>def moonless(targets, sunset, moonrise):
>    dark = []
>    for start, end in plan_night(targets, sunset):
>        if end <= moonrise:
>            dark.append((start, end))
>    return dark
""",
        ends=(
            ok(5),
            End("""
telescope/moon.py:6: in moonless
    for start, end in plan_night(targets, sunset):
E   ValueError: too many values to unpack (expected 2)
FAILED tests/test_moon.py::test_before_moonrise - ValueError: too many values to unpack
FAILED tests/test_moon.py::test_full_moon - ValueError: too many values to unpack
========================= 2 failed, 1 passed in 0.04s ========================="""),
        ),
    ),
    _run(
        "bakery",
        "broken_commitment",
        """
1: Heads-up: allergen_text() is moving out of bakery/label.py into bakery/allergens.py, where my
feature 1 adds a short form of it.
2: My menu board does `from bakery.label import allergen_text`. Do I have to change that?
1: No, you can leave it. label.py gets the line `from bakery.allergens import allergen_text`.
2: Thank you, then it stays.
1: All done:
| - [x] bakery/allergens.py with allergen_text() and allergen_codes()
| - [x] label.py imports allergen_text from there, so your old import works
2: Menu board done.
+++ bakery/label.py
(def allergen_text(recipe):
(    return "Contains: " + ", ".join(sorted(recipe["allergens"]))
<from bakery import allergens


 def label(recipe):
(    return f"{recipe['name']}. {allergen_text(recipe)}"
<    return f"{recipe['name']}. {allergens.allergen_text(recipe)}"
+++ bakery/allergens.py
<def allergen_text(recipe):
<    return "Contains: " + ", ".join(sorted(recipe["allergens"]))
<
<
<def allergen_codes(recipe):
<    return "".join(sorted(name[0].upper() for name in recipe["allergens"]))
+++ bakery/menu.py
>from bakery.label import allergen_text
>
>
>def board(recipes):
>    return [f"{one['name']:<24}{allergen_text(one)}" for one in recipes]
""",
        ends=(
            ok(6),
            End("""
tests/test_menu.py:1: in <module>
    from bakery.menu import board
bakery/menu.py:1: in <module>
    from bakery.label import allergen_text
E   ImportError: cannot import name 'allergen_text' from 'bakery.label'
ERROR tests/test_menu.py
=============================== 1 error in 0.05s ==============================="""),
        ),
    ),
    _run(
        "orchard",
        "dependency_access",
        """
1: Feature 1: a tree can say what it bears in a year. All of it is in tree/tree.go.
2: Feature 2: the fruit side, the price of a harvest. That one lives in fruit/fruit.go.
1: Trees under four years bear nothing, older ones bear what the kind bears.
2: Makes sense. Prices are in cents per kilo. Done, go test ./fruit is green.
1: Done too, go test ./tree is green.
+++ tree/tree.go
 package tree
<
<import "orchard/fruit"

 type Tree struct {
     Kind    string
     Planted int
 }
<
<func (t Tree) Harvest(year int) int {
<    if year-t.Planted < 4 {
<        return 0
<    }
<    return fruit.Kilos(t.Kind)
<}
+++ fruit/fruit.go
 package fruit
>
>import "orchard/tree"

 var kilos = map[string]int{"apple": 40, "plum": 25}
>var cents = map[string]int{"apple": 180, "plum": 310}

 func Kilos(kind string) int {
     return kilos[kind]
 }
>
>func Worth(trees []tree.Tree) int {
>    sum := 0
>    for _, t := range trees {
>        sum += kilos[t.Kind] * cents[t.Kind]
>    }
>    return sum
>}
""",
        ends=(
            End("""
package orchard/tree
    imports orchard/fruit from tree.go
    imports orchard/tree from fruit.go: import cycle not allowed
FAIL    orchard/tree [setup failed]"""),
            End("""
package orchard/fruit
    imports orchard/tree from fruit.go
    imports orchard/fruit from tree.go: import cycle not allowed
FAIL    orchard/fruit [setup failed]"""),
        ),
    ),
    _run(
        "model_railway",
        "placeholder_misuse",
        """
1: Points (left, right) are my feature. In railway/console.py there's the comment `# extensions`
some lines below COMMANDS. How about this: what I add goes into the dict, behind "stop", and what
you add goes below `# extensions` as COMMANDS["..."] = ...; that way we stay out of each other's
lines.
2: Agreed. The dict is for you, and mine go below `# extensions`.
1: Points work: "left" and "right", both behind "stop".
2: And signals work, "red" and "green", 7 tests.
+++ railway/console.py
 from railway import track
<from railway.points import left, right

 COMMANDS = {
     "go": track.go,
     "stop": track.stop,
<    "left": left,
<    "right": right,
>    "red": lambda place: track.signal(place, "red"),
>    "green": lambda place: track.signal(place, "green"),
 }


 def run(line):
     word, place = line.split()
     return COMMANDS[word](place)


 # extensions
+++ railway/points.py
<from railway import track
<
<
<def left(place):
<    track.POINTS[place] = "left"
<
<
<def right(place):
<    track.POINTS[place] = "right"
""",
    ),
    _run(
        "tennis_court",
        "parameter_flow",
        """
1: Hey, half-hour slots here. What book() in src/booking.ts takes for the time is going to change,
I can't say yet how far I'll go with it.
2: Weekly bookings, in src/weekly.ts. They call book() once a week. I write that for the book() I
have in front of me, a court and a string such as "Mon 18:00".
1: Sure. There's a Slot type in booking.ts now, the rest of book() may follow.
2: Weekly bookings are through, 4 tests.
1: Slots are through as well.
+++ src/booking.ts
 const taken = new Set<string>();

(export function book(court: number, start: string): string {
(  const key = `${court}@${start}`;
<export type Slot = { start: string; halfHours: number };
<
<export function book(court: number, slot: Slot): string {
<  const key = `${court}@${slot.start}+${slot.halfHours}`;
   if (taken.has(key)) throw new Error(`${key} is taken`);
   taken.add(key);
   return key;
 }
+++ src/weekly.ts
>import { book } from "./booking";
>
>export function bookWeekly(court: number, days: string[], time: string): string[] {
>  return days.map((day) => book(court, `${day} ${time}`));
>}
""",
        ends=(
            ok(5),
            End("""
 FAIL  test/weekly.test.ts > books every week
Error: 3@undefined+undefined is taken
 > book src/booking.ts:7:29
 > src/weekly.ts:4:28
 Tests  2 failed | 2 passed (4)"""),
        ),
    ),
    _run(
        "kiln_log",
        "timing_dependency",
        """
2: I smooth the curve of a firing in load(). One thing matters to me: a spike that gets smoothed is
smeared over its neighbours, so spikes have to be gone by then.
1: And I am the one who removes the spikes. So the order in load() is: drop the spikes, then smooth.
2: Yes, spikes first and smoothing second.
1: drop_spikes() is called in load(), 3 tests.
2: smooth() is called in load() now, 2 tests.
+++ kiln/log.py
 from kiln.sensor import read, to_celsius


>def smooth(rows):
>    windows = (rows[max(n - 1, 0) : n + 2] for n in range(len(rows)))
>    return [sum(window) / len(window) for window in windows]
>
>
 def load(path):
     rows = [to_celsius(row) for row in read(path)]
>    rows = smooth(rows)
     if not rows:
         raise ValueError(f"{path} is empty")
<    rows = drop_spikes(rows)
     return rows


 def hottest(rows):
     return max(rows)
<
<
<def drop_spikes(rows):
<    return [row for row in rows if row < 1400]
""",
        ends=(
            End("""
    def test_spike_is_gone(tmp_path):
        rows = load(firing(tmp_path, 1000, 1000, 1900, 1000, 1000))
>       assert hottest(rows) == 1000
E       assert 1300.0 == 1000
FAILED tests/test_spikes.py::test_spike_is_gone - assert 1300.0 == 1000
========================= 1 failed, 2 passed in 0.03s ========================="""),
            ok(2),
        ),
    ),
)

NEAR_MISSES = (
    # The helper that both wrote was agreed word for word and merges; the count of days is wrong.
    _run(
        "almanac",
        "implementation_failure",
        """
1: Day of the year for me (almanac/ordinal.py), month lengths for you, and both of us need leap
years. Shall each put the very same text at the end of almanac/days.py? I suggest
| def is_leap(year):
|     return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
2: Fine, I've copied it over as it stands, two empty lines above. The same change on both sides is
one change for git.
1: Mine is in, too.
2: month_length() handles February now. 4 tests.
1: ordinal.py is ready for review.
+++ almanac/days.py
 LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


)def month_length(month):
)    return LENGTHS[month - 1]
>def month_length(month, year):
>    return LENGTHS[month - 1] + (month == 2 and is_leap(year))


 def weekday(day, first):
     return (first + day - 1) % 7
=
=
=def is_leap(year):
=    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
+++ almanac/ordinal.py
<from almanac.days import LENGTHS, is_leap
<
<
<def day_of_year(year, month, day):
<    return sum(LENGTHS[: month - 1]) + day + is_leap(year)
""",
        resembles="work_overlap",
        ends=(
            End(
                """
    def test_january_of_a_leap_year():
>       assert day_of_year(2024, 1, 31) == 31
E       assert 32 == 31
FAILED tests/test_ordinal.py::test_january_of_a_leap_year - assert 32 == 31
========================= 1 failed, 3 passed in 0.02s =========================""",
                alone=False,
            ),
            ok(4),
        ),
    ),
    # One design was given up in time; what is left collides as text only, and both knew it would.
    _run(
        "crossword",
        "implementation_failure",
        """
1: For the hint command I'd turn MENU into a class of its own with an add() method.
2: Please don't, my timer reads MENU as the list it is: key, text, function.
1: Fair enough, it stays a list of those three. My entry is ("h", "Hint", hint), behind "q".
2: Mine is ("t", "Time", show_time), behind "q" too. There's no better place for either. So our two
entries meet in one hunk, and whoever joins the branches has to keep both.
1: Yes, both lines, in whatever order.
2: Timer finished.
1: Hints finished.
+++ crossword/menu.py
 from crossword.grid import check, stop
<from crossword.hint import hint
>from crossword.timer import show_time

 MENU = [
     ("c", "Check", check),
     ("q", "Quit", stop),
<    ("h", "Hint", hint),
>    ("t", "Time", show_time),
 ]
+++ crossword/hint.py
<def hint(word, shown):
<    for position, letter in enumerate(word):
<        if letter not in shown:
<            return word[position + 1]
<    return None
+++ crossword/timer.py
>import time
>
>START = time.monotonic()
>
>
>def show_time():
>    return f"{(time.monotonic() - START) / 60:.0f} min"
""",
        resembles="divergent_architecture",
        ends=(End(alone=False), End()),
    ),
    # The echo is what their protocol prescribes; the block that it fixes is missing on one side.
    _run(
        "zoo_feeding",
        "placeholder_misuse",
        """
1: type: PROPOSE
| In feed() of zoo/plan.py, directly below the line that sets ration, both patches have:
|     for rule in RULES:
|         ration = rule(ration, animal)
| and nothing else in feed() changes. RULES comes from zoo/rules.py, where it is an empty list.
2: type: ECHO
| In feed() of zoo/plan.py, directly below the line that sets ration, both patches have:
|     for rule in RULES:
|         ration = rule(ration, animal)
| and nothing else in feed() changes. RULES comes from zoo/rules.py, where it is an empty list.
1: type: CONFIRM
| Echo is correct. It holds.
2: type: STATUS
| Diets for old animals ready, 5 tests pass.
1: type: STATUS
| Winter rations ready, 4 tests pass.
+++ zoo/plan.py
<from zoo.rules import RULES
 from zoo.stock import RATIONS


 def feed(animal):
     ration = RATIONS[animal.kind]
<    for rule in RULES:
<        ration = rule(ration, animal)
>    if animal.age > 15:
>        ration *= 0.8
     return f"{animal.name}: {ration} kg"
+++ zoo/rules.py
 RULES = []
+++ zoo/winter.py
<from zoo.rules import RULES
<
<
<def more_in_winter(ration, animal):
<    return ration * 1.25 if animal.outdoors else ration
<
<
<RULES.append(more_in_winter)
""",
        resembles="repetition",
    ),
    # What is asked for is done without a word; the two models of a song exclude each other.
    _run(
        "choir",
        "divergent_architecture",
        """
1: I've got the songbook, feature 1. A Song never changes once it is there: frozen, its notes a
tuple, so that songs can stand in a set. Also, choir/book.py is taken by me, please call your file
something else.
2: Feature 2, transposing. Songs are changed where they are: transpose(song, steps) writes the new
notes into song.notes and returns nothing, so that every list that holds the song sees them.
1: The songbook sorts by title and drops doubles.
2: Transposing is ready, it copes with sharps and with going over the octave.
1: The songbook is ready.
+++ choir/song.py
 from dataclasses import dataclass


(@dataclass
<@dataclass(frozen=True)
 class Song:
     title: str
(    notes: list
<    notes: tuple
<
<    def __post_init__(self):
<        object.__setattr__(self, "notes", tuple(self.notes))
+++ choir/book.py
<def songbook(songs):
<    return sorted(set(songs), key=lambda song: song.title)
+++ choir/keys.py
>NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
>
>
>def transpose(song, steps):
>    for n, note in enumerate(song.notes):
>        song.notes[n] = NAMES[(NAMES.index(note) + steps) % 12]
""",
        resembles="unresponsiveness",
        ends=(
            ok(3),
            End("""
choir/keys.py:6: in transpose
    song.notes[n] = NAMES[(NAMES.index(note) + steps) % 12]
E   TypeError: 'tuple' object does not support item assignment
FAILED tests/test_keys.py::test_up - TypeError: 'tuple' object does not support item assignment
========================= 3 failed, 1 passed in 0.04s ========================="""),
        ),
    ),
    # A hedged forecast, put right with the code at hand; the second feature is wrong by itself.
    _run(
        "lost_property",
        "implementation_failure",
        """
1: I store where a thing was found. That's in the upper part of office/items.py and should merge
with yours, I think, but I can't see your files. Are you up there as well?
2: Colours take me a moment. One thing first: is a thing without a number still allowed?
1: It is, number stays None until somebody sticks a label on it.
2: Thanks. And to your question: yes, I meant to change new_item() for the colour.
1: Then look at what I have, it is the whole function:
| def new_item(text, place="unknown"):
|     return {"text": text, "number": None, "place": place}
2: Perfect, so I keep off new_item() and write the colour from outside, paint(item, colour) in
office/colours.py.
1: Places finished.
+++ office/items.py
(def new_item(text):
(    return {"text": text, "number": None}
<def new_item(text, place="unknown"):
<    return {"text": text, "number": None, "place": place}


 def label(item, number):
     item["number"] = number
+++ office/colours.py
>def paint(item, colour):
>    item["colour"] = colour.lower()
>
>
>def of_colour(items, colour):
>    return [item for item in items if item["colour"] == colour.lower()]
""",
        resembles="unverifiable_claims",
        ends=(
            ok(3),
            End(
                """
office/colours.py:6: in <listcomp>
    return [item for item in items if item["colour"] == colour.lower()]
E   KeyError: 'colour'
FAILED tests/test_colours.py::test_not_all_are_painted - KeyError: 'colour'
========================= 1 failed, 2 passed in 0.03s =========================""",
                alone=False,
            ),
        ),
    ),
    # A plan and a look at a working copy that is in pieces; nothing was ever called done.
    _run(
        "kite_club",
        "implementation_failure",
        """
1: Plan for the wind limits: first Kite.limits, then a check in launch(), then the text of the
warning. I begin with the model.
2: Good luck! Logbook of flights on my side, club/logbook.py. It calls nothing of yours.
1: In my working copy launch() is taken apart at the moment, half of the tests are red. The warning
is what I want to get to next.
2: The logbook is ready, 5 tests pass.
1: Still on launch(), the wind comes in knots from one station and in km/h from the other.
+++ club/logbook.py
>def entry(kite, pilot, minutes):
>    return f"{kite.name}, flown by {pilot} for {minutes} min"
>
>
>def logbook(flights):
>    return [entry(*flight) for flight in flights]
""",
        resembles="broken_commitment",
        ends=(
            End(
                """
E   AttributeError: 'Kite' object has no attribute 'limits'
FAILED tests/test_limits.py::test_too_much_wind - AttributeError: 'Kite' object has no attribute
========================= 4 failed in 0.03s =========================""",
                alone=False,
                reason="no_patch",
            ),
            ok(5),
        ),
        statuses=("Error", "Submitted"),
    ),
    # The circle was seen and talked about; what was promised against it is not in the patch.
    _run(
        "theatre",
        "broken_commitment",
        """
1: My feature: which actors are busy in a scene. For that theatre/cast.py imports SCENES from
theatre/scenes.py at its top.
2: Careful, my feature needs it the other way round. The list of a scene prints actors, so scenes.py
needs actor() from cast.py, and there's your circular import.
1: Can one of us import later? Mine is hard to move, SCENES is used at module level.
2: Yes, I'll do it: in scenes.py the import goes inside playbill(), not to the top of the file.
1: Wonderful, then mine stays where it is. busy() is done.
2: playbill() is done as well.
+++ theatre/cast.py
<from theatre.scenes import SCENES
<
 ACTORS = {"Puck": "Ines", "Oberon": "Karl", "Titania": "Ruth"}
<BUSY = {ACTORS[role]: name for name, roles in SCENES.items() for role in roles}


 def actor(role):
     return ACTORS[role]
<
<
<def busy(person):
<    return person in BUSY
+++ theatre/scenes.py
>from theatre.cast import actor
>
 SCENES = {"wood": ["Puck", "Oberon"], "bower": ["Titania"]}


 def roles(name):
     return SCENES[name]
>
>
>def playbill(name):
>    return [f"{role}: {actor(role)}" for role in roles(name)]
""",
        resembles="dependency_access",
        ends=(
            End("""
theatre/cast.py:1: in <module>
    from theatre.scenes import SCENES
theatre/scenes.py:1: in <module>
    from theatre.cast import actor
E   ImportError: cannot import name 'actor' from partially initialized module 'theatre.cast' \
(most likely due to a circular import)
ERROR tests/test_busy.py"""),
            End("""
theatre/scenes.py:1: in <module>
    from theatre.cast import actor
theatre/cast.py:1: in <module>
    from theatre.scenes import SCENES
E   ImportError: cannot import name 'SCENES' from partially initialized module 'theatre.scenes' \
(most likely due to a circular import)
ERROR tests/test_playbill.py"""),
        ),
    ),
    # A marker was proposed and never accepted: the partner was asked, and says nothing any more.
    _run(
        "snack_machine",
        "unresponsiveness",
        """
2: Vouchers (feature 2). I've read dispense() in machine/sale.py, that's where I have to pay with
them.
1: Same function here, I log every sale. How about a comment `# -- paid --` right above the return,
and I write below it and you above it? Does that suit a voucher, or do you have to come earlier?
1: Any word on dispense()? Without one I don't know where you will be.
1: I heard nothing, so my log line is now directly above the return, with no comment. Submitting.
+++ machine/sale.py
 from machine.coins import change
>from machine.vouchers import VOUCHERS

 LOG = []


 def dispense(snack, paid):
     if paid < snack.price:
         raise ValueError("not enough money")
<    LOG.append(f"sold {snack.name} at {snack.price}")
)    return snack.name, change(paid - snack.price)
>    rest = paid - snack.price + VOUCHERS.pop(snack.name, 0)
>    return snack.name, change(rest)
+++ machine/vouchers.py
>VOUCHERS = {}
>
>
>def hand_in(name, cents):
>    VOUCHERS[name] = VOUCHERS.get(name, 0) + cents
""",
        resembles="placeholder_misuse",
    ),
    # They talk about a function and its new name, and not about the signature that both change.
    _run(
        "picture_frames",
        "work_overlap",
        """
1: So you know, load() in frames/hooks.py is called carries() from now on. Same argument, same
result: `def carries(hook):`.
2: I use neither name, passe-partouts only know cardboard. My new module is frames/mats.py.
1: Right. The one call of it, in frames/shop.py, is changed already.
2: Mats in three colours, all priced.
1: Oak and walnut are in.
+++ frames/price.py
 from frames.rates import PER_METRE
<from frames.woods import FACTORS
>from frames.mats import mat_price


-def frame_price(width, height):
-    return 2 * (width + height) * PER_METRE
<def frame_price(width, height, wood="pine"):
<    return 2 * (width + height) * PER_METRE * FACTORS[wood]
>def frame_price(width, height, mat=None):
>    return 2 * (width + height) * PER_METRE + mat_price(mat, width, height)
+++ frames/woods.py
<FACTORS = {"pine": 1, "oak": 1.8, "walnut": 2.3}
+++ frames/hooks.py
(def load(hook):
<def carries(hook):
     return hook.screws * 4.5
+++ frames/shop.py
(from frames.hooks import load
<from frames.hooks import carries


 def strong_enough(hook, weight):
(    return load(hook) >= weight
<    return carries(hook) >= weight
+++ frames/mats.py
>PRICES = {None: 0, "white": 11, "cream": 12, "black": 14}
>
>
>def mat_price(mat, width, height):
>    return PRICES[mat] * width * height
""",
        resembles="parameter_flow",
    ),
    # The order is one of parameters; what breaks is what was said of the area.
    _run(
        "quilt",
        "unverifiable_claims",
        """
1: Borders for the squares of a quilt. The order in square() will be: first width, then height, then
border, which may be left out.
2: That order is fine, I only ever pass the first two. I sum up areas to know how much fabric a
quilt takes. Does a border change the area that square() returns?
1: The area isn't affected, you can count on that.
2: Then I take it as it is and leave out the test that I had for it.
1: Borders finished.
2: Fabric finished.
+++ quilt/square.py
(def square(width, height):
(    return {"width": width, "height": height, "area": width * height}
<def square(width, height, border=1):
<    width, height = width + 2 * border, height + 2 * border
<    return {"width": width, "height": height, "area": width * height, "border": border}
+++ quilt/fabric.py
>from quilt.square import square
>
>
>def fabric(sizes):
>    return sum(square(width, height)["area"] for width, height in sizes)
""",
        resembles="timing_dependency",
        ends=(
            ok(4),
            End("""
    def test_two_squares():
>       assert fabric([(2, 3), (1, 4)]) == 10
E       assert 38 == 10
FAILED tests/test_fabric.py::test_two_squares - assert 38 == 10
========================= 1 failed, 1 passed in 0.02s ========================="""),
        ),
    ),
)
