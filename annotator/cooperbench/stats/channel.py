"""Groups of runs that spoke or could have spoken, and their results.

Whether agents *could* write is a condition of an experiment (CooperBench, arXiv 2601.13295, figure
4: "with comm" and "no comm"). An attribute of the runs tells it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from annotator.base.errors import AnnotatorError
from annotator.base.text import format_count, list_names
from annotator.cooperbench.facts import draw_facts
from annotator.cooperbench.stats.model import Channel, TalkDifference, TalkGroup
from annotator.cooperbench.stats.outcomes import COOP, get_setting
from annotator.cooperbench.stats.tally import Key, Tally, compare_shares, make_undefined
from annotator.rubrics.annotations import get_attribute
from annotator.traces import Trace
from annotator.traces.model import CLEAN, CONFLICT, NOTHING

SPOKE, QUIET, COULD, COULD_NOT = "spoke", "could but did not", "all that could", "could not"
SILENT = "did not speak"

CONFLICTS, PASSED = "merge conflicts", "passed"
OVERLAP, DIFFERENT = "edits overlap", "edits differ"
MEASURES = (CONFLICTS, PASSED, OVERLAP, DIFFERENT)

NO_VALUE, SPOKE_WITHOUT_VALUE = ("no channel value",), ("spoke, no channel value",)
SPOKE_ANYWAY = ("spoke without a channel",)


def parse_channel(names: str | Iterable[str] | None) -> Channel | None:
    """Return the channel that ``run_name=night_*`` names, or several values; None for no names.

    Raises:
        AnnotatorError: a text is not ATTRIBUTE=VALUE, or they name several attributes.
    """
    parts = [name.partition("=") for name in list_names(names or ())]
    for attribute, sign, value in parts:
        if not (attribute and sign and value):
            text = f"{attribute}{sign}{value}"
            raise AnnotatorError(f"--channel {text}: expected ATTRIBUTE=VALUE, such as comm=true")
    attributes = list(dict.fromkeys(attribute for attribute, _, _ in parts))
    if len(attributes) > 1:
        raise AnnotatorError(f"--channel: expected one attribute, found {', '.join(attributes)}")
    return Channel(attributes[0], tuple(value for *_, value in parts)) if parts else None


def has_channel(attributes: Mapping[str, object], channel: Channel) -> bool | None:
    """Return whether a run had the channel; None if it lacks the attribute."""
    if attributes.get(channel.attribute) in (None, ""):
        return None
    text = get_attribute(attributes, channel.attribute)
    return any(has_value(text, value) for value in channel.values)


def has_value(text: str, value: str) -> bool:
    """Whether an attribute's text is a value of the channel, which may hold ``*`` as in a shell."""
    return text == value or fnmatchcase(text, value)


def list_comparisons(channel: Channel | None) -> tuple[tuple[str, str], ...]:
    """Return which groups are compared, the main comparison first."""
    return ((COULD, COULD_NOT), (SPOKE, COULD_NOT)) if channel else ((SPOKE, SILENT),)


def find_groups(trace: Trace, channel: Channel | None) -> tuple[str, ...]:
    """Return the groups of a run of several agents, first the one that says whether it spoke."""
    if channel is None:
        return (SPOKE,) if trace.spoken else (SILENT,)
    could = has_channel(trace.attributes, channel)
    if trace.spoken:  # in "all that could", one that is not known to would be selected by speaking
        return (SPOKE, COULD) if could else (SPOKE,)
    return {True: (QUIET, COULD), False: (COULD_NOT,), None: ()}[could]


def speaks_anyway(trace: Trace, channel: Channel | None) -> bool:
    """Whether a run spoke although its attribute says that it could not."""
    return bool(trace.spoken and channel and has_channel(trace.attributes, channel) is False)


def count_trace(trace: Trace, channel: Channel | None) -> Counter[Key]:
    """Return what one run of several agents adds to the totals."""
    results = list(_list_results(trace))
    counts: Counter[Key] = Counter()
    for group in find_groups(trace, channel):
        for measure, result in results:
            counts["talk group", group, measure, "n"] = 1
            counts["talk group", group, measure, "k"] = int(result)
    if channel:
        could = has_channel(trace.attributes, channel)
        counts[NO_VALUE] = int(could is None)
        counts[SPOKE_WITHOUT_VALUE] = int(could is None and bool(trace.spoken))
        counts[SPOKE_ANYWAY] = int(could is False and bool(trace.spoken))
    return counts


def _list_results(trace: Trace) -> Iterator[tuple[str, bool]]:
    """Yield the measures that a run has: no merge or overlap if there was nothing to merge."""
    state = trace.merge_state
    if state in (CLEAN, CONFLICT):
        yield CONFLICTS, state == CONFLICT
    if trace.outcome.passed is not None and get_setting(trace) == COOP:
        yield PASSED, trace.outcome.passed
    if len(trace.patches) > 1 and state != NOTHING:
        overlaps = draw_facts(trace).of("hunks_overlap")
        yield OVERLAP, bool(overlaps)
        yield DIFFERENT, any(not fact.about["same"] for fact in overlaps)


def count_groups(tally: Tally, channel: Channel | None) -> tuple[TalkGroup, ...]:
    """Return the share of runs with each result, in each group, in the order of the tables."""
    groups = []
    for group in (SPOKE, QUIET, COULD, COULD_NOT) if channel else (SPOKE, SILENT):
        keys = {measure: ("talk group", group, measure) for measure in MEASURES}
        shares = {measure: tally.share((*key, "k"), (*key, "n")) for measure, key in keys.items()}
        groups.append(TalkGroup(group, shares))
    return tuple(groups)


def compare_groups(
    groups: Iterable[TalkGroup], channel: Channel | None, spoke_anyway: int
) -> tuple[TalkDifference, ...]:
    """Return Newcombe's differences of these shares, the main one first.

    None if runs spoke although they could not: the rest of "could not" is selected by its silence.
    """
    shares = {group.of: group.shares for group in groups}
    differences = []
    for pair in list_comparisons(channel):
        gaps = {name: compare_shares({of: shares[of][name] for of in pair}) for name in MEASURES}
        if why := explain_contradiction(spoke_anyway):
            gaps = {name: make_undefined(gap, why) for name, gap in gaps.items()}
        differences.append(TalkDifference(pair, gaps))
    return tuple(differences)


def explain_contradiction(spoke_anyway: int) -> str:
    """Return why nothing is compared with the runs that could not speak, "" if it can be."""
    return (
        f"{format_count(spoke_anyway, 'run')} spoke although they could not" if spoke_anyway else ""
    )
