"""Codes looked into by their findings: the ways in which one happens, and which match others."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotator.base.errors import AnnotatorError
from annotator.base.text import list_names
from annotator.induction.codebook import Codebook, has_codebook, open_codebook
from annotator.judges.build import ModelSettings, build_judge
from annotator.rubrics import read_definitions
from annotator.runs.execute import ignore, refuse_running_loop
from annotator.runs.manifest import is_induction
from annotator.runs.run import Run, is_run, open_run
from annotator.traces.clusters import DEFAULT_CLUSTER

if TYPE_CHECKING:  # statistics are slow to import
    from annotator.reports.matches import CodedTraces, RubricMatch
    from annotator.reports.mechanisms import Mechanisms

CodeSource = Run | Codebook | str | Path
"""A run, an induction, or the folder of one."""


def has_findings(path: str | Path) -> bool:
    """Whether a path is a run or an induction, also an unfinished one."""
    return has_codebook(Path(path)) or is_induction(Path(path)) or is_run(path)


def match_codes(
    first: CodeSource, second: CodeSource, *, cluster: str | Sequence[str] = DEFAULT_CLUSTER
) -> "RubricMatch":
    """Match the codes of two runs or inductions by their findings on the same traces.

        print(match_codes("runs/first", "induced/").table())

    Args:
        first: a run, an induction, or the folder of one.
        second: another one.
        cluster: the attributes that make a task, ``()`` for none.

    Raises:
        AnnotatorError: a folder has neither, or no trace was judged by both.
    """
    from annotator.reports.matches import match_codes as match

    tasks = list_names(cluster)
    return match(_read(first, tasks), _read(second, tasks))


def _read(source: CodeSource, cluster: tuple[str, ...]) -> "CodedTraces":
    from annotator.reports.matches import read_codebook, read_run

    name = source.title if isinstance(source, Codebook) else str(source)
    if isinstance(source, str | Path):
        if not has_findings(source):
            raise AnnotatorError(
                f"{name}: neither a run nor an induction: codes match by findings, so both sides"
                " need them. Judge traces by the rubric: annotate TRACES --rubric FILE"
            )
        source = open_codebook(Path(source)) if has_codebook(Path(source)) else open_run(source)
    if isinstance(source, Codebook):
        return read_codebook(source, name, cluster)
    return read_run(source, cluster)


_CENTRAL, _LONGEST = 6, 400  # findings that a model reads of each group; characters of each text


def find_mechanisms(
    run: Run,
    code: str,
    *,
    rubric: str | None = None,
    model: str | Path | Mapping[str, Any] | ModelSettings | None = None,
    cluster: str | Sequence[str] = DEFAULT_CLUSTER,
    on_notice: Callable[[str], None] = ignore,
) -> "Mechanisms":
    """Group the findings of one code into the three to eight commonest ways in which it happens.

        print(find_mechanisms(run, "C3a").table())

    Args:
        run: its findings of the code, primary or secondary.
        code: the code.
        rubric: the code's rubric, if several of the run have it.
        model: names the groups in one call: a model's name, a judge file, or settings
            (:func:`llm`). Without it nothing is called, and a group's name is its most central
            quote.
        cluster: the attributes that make a task, ``()`` for none.
        on_notice: called with the cost.

    Raises:
        AnnotatorError: the run has no such code, or fewer than 20 findings of it; the model cannot
            be asked.
    """
    from annotator.reports.mechanisms import find_mechanisms as find

    mechanisms = find(run, code, rubric, list_names(cluster))
    if model is None:
        return mechanisms
    refuse_running_loop("call annotator.find_mechanisms in a thread of its own")
    return _name_groups(mechanisms, run, model, on_notice)


def _name_groups(
    mechanisms: "Mechanisms",
    run: Run,
    model: str | Path | Mapping[str, Any] | ModelSettings,
    notice: Callable[[str], None],
) -> "Mechanisms":
    from annotator.judges.llm.cost import Budget
    from annotator.judges.llm.naming import GroupNamer

    built = build_judge(model)
    if not built.settings or not built.members:
        raise AnnotatorError(f"{model}: only a model can name groups")
    if built.session and built.settings.max_cost is not None:
        built.session.budget = Budget(built.settings.max_cost)
    namer = GroupNamer(built.members[0].options, built.session)
    scheme, code = run.scheme(mechanisms.rubric), mechanisms.code
    definition = read_definitions(scheme.id, scheme.sha256).get(code, mechanisms.code_name)
    groups = [
        [
            {"reason": x.rationale[:_LONGEST], "quotes": [q.quote[:_LONGEST] for q in x.evidence]}
            for x in group.findings[:_CENTRAL]
        ]
        for group in mechanisms.groups
    ]
    names = asyncio.run(namer.name(f"{code}: {definition}", groups))
    usage = namer.overhead
    cost = "an unknown price" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    notice(f"names by {namer.options.model}: calls {usage.calls}, {cost}")
    return mechanisms.rename(names, f"llm:{namer.options.model}")
