"""How well the rules judge agrees with labels, beside the baselines that it has to beat.

    python -m bench.labels NAME TRACES LABELS... [--gold ANNOTATOR] [--note TEXT]

Beside every kappa stand that of a judge of four lines that reads no message, of always giving the
commonest label, and of each annotator; once on all runs, once on those whose merge conflicts. What
the rules leave undecided is counted and not in their kappa: so the baseline stands there once more
on the same runs, and the rules once more with "undecided" taken as none. The result is printed and
appended to ``bench/ledger.md``: labels that were scored once are no fresh ones any more.
"""

import argparse
import datetime
import json
import subprocess
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from annotator.cooperbench.rules import REVISION, decide
from annotator.rubrics import NONE, load_rubric
from annotator.traces import Trace, read_traces
from validation import compute_cohen_kappa, compute_wilson_interval, count_pairs

LEDGER = Path(__file__).parent / "ledger.md"
FEWEST = 5  # times a code is given, or labelled, before its precision, or recall, is printed

Answers = Mapping[str, str | None]


def by_structure(trace: Trace, rubric: str) -> str:
    """Return the answer of four lines: what the merge and the patches alone suggest."""
    alone = [one.passed_alone for one in trace.outcome.features if one.passed is False]
    delivered = all(patch.strip() for patch in trace.patches.values())
    if trace.outcome.merge == "conflicts" and delivered:
        return "work_overlap" if rubric == "symptoms" else "C3a" if trace.spoken else NONE
    return "implementation_failure" if rubric == "symptoms" and alone else NONE


def row(name: str, gold: Answers, judged: Answers, keys: Sequence[str]) -> str:
    """Return a line of the table: agreements, kappa with its interval, and what is undecided."""
    pairs = [(gold[key] or NONE, answer) for key in keys if (answer := judged.get(key, NONE))]
    undecided = sum(judged.get(key, NONE) is None for key in keys)
    kappa = compute_cohen_kappa(count_pairs([one for one, _ in pairs], [two for _, two in pairs]))
    value = "-" if kappa.value is None else f"{kappa.value:.2f} [{kappa.low:.2f}, {kappa.high:.2f}]"
    same = sum(one == two for one, two in pairs)
    return f"| {name} | {same} of {len(pairs)} | {value} | {undecided} |"


def main() -> None:
    """Score the labels, print the tables and append them to the ledger."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("name")
    parser.add_argument("traces")
    parser.add_argument("labels", nargs="+")
    parser.add_argument("--gold", default="gold")
    parser.add_argument("--note", default="")
    options = parser.parse_args()
    traces = {one.id: one for one in read_traces([options.traces]) if isinstance(one, Trace)}
    given: dict[str, dict[str, dict[str, str | None]]] = defaultdict(lambda: defaultdict(dict))
    texts = [Path(one).read_text(encoding="utf-8") for one in options.labels]
    for label in map(json.loads, (line for text in texts for line in text.splitlines())):
        answers = given[label["rubric"]][label["annotator"]]
        answers[label["trace_id"]] = label["primary"] or NONE
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    today = datetime.datetime.now(datetime.UTC).date()
    lines = [f"## {options.name}: {today}, commit {commit}, rules {REVISION}", "", options.note]
    for rubric, annotators in sorted(given.items()):
        lines += score(rubric, annotators.pop(options.gold), annotators, traces)
    print("\n".join(lines))
    with LEDGER.open("a", encoding="utf-8") as file:
        file.write("\n" + "\n".join(lines) + "\n")


def score(
    name: str, gold: Answers, annotators: Mapping[str, Answers], traces: Mapping[str, Trace]
) -> list[str]:
    """Return the tables of one rubric, by lines."""
    rubric = load_rubric(name)
    keys = [key for key in gold if not rubric.excludes(traces[key])]
    rules: dict[str, str | None] = {}
    found: Counter[tuple[str, bool]] = Counter()
    there: Counter[str] = Counter()
    for key in keys:
        verdict = decide(traces[key], rubric)
        rules[key] = verdict.primary or (None if verdict.undecided else NONE)
        found[rules[key] or "", rules[key] == gold[key]] += 1
        there[gold[key] or ""] += 1
    commonest, _ = Counter(gold[key] for key in keys).most_common(1)[0]
    structure = {key: by_structure(traces[key], name) for key in keys}
    decided = {key: structure[key] if answer else None for key, answer in rules.items()}
    judges: dict[str, Answers] = {
        "rules": rules,
        "structure alone, on what the rules decide": decided,
        "rules, undecided as none": {key: answer or NONE for key, answer in rules.items()},
        "structure alone": structure,
        f"always {commonest}": dict.fromkeys(keys, commonest),
        **{f"annotator {one}": answers for one, answers in sorted(annotators.items())},
    }
    lines = []
    conflicting = [key for key in keys if traces[key].outcome.merge == "conflicts"]
    for which, chosen in (("all", keys), ("conflicting merges", conflicting)):
        lines += ["", f"`{name}`, {which}: {len(chosen)} runs", ""]
        lines += ["| judge | agrees | kappa [95 %] | undecided |", "| --- | --- | --- | --- |"]
        lines += [row(judge_name, gold, answers, chosen) for judge_name, answers in judges.items()]
    given: Counter[str] = Counter()
    for (code, _), n in found.items():
        given[code] += n
    for what, of in (("Precision", given), ("Recall", there)):
        told = [shared(code, found[code, True], of[code]) for code in often(of)]
        lines += ["", f"{what}: {', '.join(told) or 'no code often enough'}"]
    return lines


def often(of: Mapping[str, int]) -> list[str]:
    """Return the codes that were given, or labelled, at least five times."""
    return sorted(code for code, n in of.items() if n >= FEWEST and code not in ("", NONE))


def shared(code: str, right: int, n: int) -> str:
    """Return a code with a share and its Wilson interval."""
    share = compute_wilson_interval(right, n)
    return f"{code} {right} of {n} [{100 * share.low:.0f}, {100 * share.high:.0f}] %"


if __name__ == "__main__":
    main()
