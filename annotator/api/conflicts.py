"""Conflicts of representation between the patches of agents."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING

from annotator.base.errors import AnnotatorError
from annotator.base.files import explain_unreadable, read_bounded
from annotator.base.remote import localize, name_place
from annotator.base.text import decode, list_names, sanitize_line
from annotator.rubrics.annotations import get_attribute
from annotator.runs.run import Run
from annotator.traces import Ignored, TraceSource, Unreadable, load_traces
from annotator.traces.clusters import DEFAULT_CLUSTER, find_cluster

if TYPE_CHECKING:  # numpy is slow to import
    from annotator.cooperbench.patches.diff import Patch
    from annotator.reports.conflicts import PairCounts, PatchPair
    from annotator.reports.table import Table


@dataclass(frozen=True, slots=True)
class ConflictSummary:
    """The pairs of patches that were compared, and the tables of ``annotate conflicts``."""

    counts: "PairCounts"

    @property
    def pairs(self) -> "tuple[PatchPair, ...]":
        """Every pair of patches with its conflicts."""
        return self.counts.pairs

    @property
    def tables(self) -> "list[Table]":
        """The tables of shares; empty for two patches without a trace."""
        from annotator.reports import conflicts

        return conflicts.tabulate(self.counts) if self.counts.traces else []

    @property
    def listing(self) -> "Table":
        """A table of every conflict with its lines."""
        from annotator.reports import conflicts

        return conflicts.list_conflicts(self.counts.pairs)


def find_conflicts(
    *sources: TraceSource | Run,
    format: str = "auto",
    cluster: str | Sequence[str] = DEFAULT_CLUSTER,
    by: str | None = None,
    on_unreadable: Callable[[Unreadable], None] | None = None,
) -> ConflictSummary:
    """Find patches that represent one class or function in incompatible ways.

        find_conflicts("ours.patch", "theirs.patch").listing
        find_conflicts("traces/", by="level").tables

    Args:
        sources: two files that end in ``.patch`` or ``.diff``; or one run; or traces, where every
            two patches of a trace are compared.
        format: the format of the traces.
        cluster: the attributes that make a task, ``()`` for none.
        by: adds shares for each value of this attribute.
        on_unreadable: called with each trace that cannot be read.

    Raises:
        AnnotatorError: a patch is not a unified diff, no trace was found, or no trace has the
            attribute.
    """
    from annotator.cooperbench.patches.diff import parse_patch
    from annotator.reports.conflicts import PairCounts, compare_patches

    paths = [fspath(source) for source in sources if isinstance(source, str | PathLike)]
    if any(path.endswith((".patch", ".diff")) for path in paths):
        if len(paths) != 2 or len(sources) != 2:
            raise AnnotatorError(f"expected two patches, found {len(sources)} files")
        if by:
            raise AnnotatorError("two patches have no attributes: leave the attribute out")
        return ConflictSummary(
            PairCounts(tuple(compare_patches([(path, _read_patch(path)) for path in paths])))
        )

    runs = [source for source in sources if isinstance(source, Run)]
    if runs and len(sources) > 1:
        raise AnnotatorError(f"{runs[0]}: give one run alone, or traces")
    if runs:
        manifest = runs[0].manifest
        redact = manifest.redaction is not None
        traces = load_traces(*manifest.sources, format=manifest.format, redact=redact)
        missing = {annotation.trace_id for annotation in runs[0].annotations()}
    else:
        paths_or_traces = [source for source in sources if not isinstance(source, Run)]
        traces, missing = load_traces(*paths_or_traces, format=format), set()
    tasks = list_names(cluster)
    pairs: list[PatchPair] = []
    attributes, counts = set[str](), Counter[str]()
    for item in traces.find():
        if isinstance(item, Ignored) or (runs and item.id not in missing):
            continue
        missing.discard(item.id)
        if isinstance(item, Unreadable):
            counts["unreadable"] += 1
            if on_unreadable:
                on_unreadable(item)
            continue
        counts["traces"] += 1
        counts["alone"] += len(item.patches) < 2
        attributes.update(item.attributes)
        pairs += compare_patches(
            [(agent, parse_patch(text)) for agent, text in item.patches.items()],
            item.id,
            find_cluster(item.attributes, tasks),
            get_attribute(item.attributes, by) if by else None,
        )
    if not counts["traces"]:
        raise AnnotatorError(f"no traces in {', '.join(traces.places) or 'what was given'}")
    if by and by not in attributes:
        names = ", ".join(sorted(attributes)) or "none at all"
        raise AnnotatorError(f"by {by}: no trace has this attribute, only {names}")
    return ConflictSummary(
        PairCounts(tuple(pairs), missing=len(missing), by=by, cluster=tasks, **counts)
    )


def _read_patch(path: str) -> "Patch":
    """Return the patch in a file. Raises :class:`AnnotatorError` if it is not a unified diff."""
    from annotator.cooperbench.patches.diff import parse_patch

    with explain_unreadable(path):
        patch = parse_patch(decode(read_bounded(localize(path))))
    names = (re.escape(file.path) for file in patch.files if not file.hunks)
    matches = (re.search(rf"^\+\+\+ (?:b/)?{name}\s*$", patch.text, re.MULTILINE) for name in names)
    no_hunk = [match.start() for match in matches if match]
    if not (patch.unread or no_hunk):
        return patch
    read = {hunk.start for file in patch.files for hunk in file.hunks}
    headers = re.finditer(r"^@@", patch.text, re.MULTILINE)
    start = next((match.start() for match in headers if match.start() not in read), None)
    problem = "a hunk that cannot be read" if patch.files else "not a unified diff"
    if start is None and no_hunk:
        start, problem = no_hunk[0], "a file without a hunk"
    elif start is None:  # no diff at all, or one that is too long
        start = len(patch.text) - patch.unread
        start += len(patch.text[start:]) - len(patch.text[start:].lstrip())
    number = patch.text.count("\n", 0, start) + 1
    line = sanitize_line(patch.text[start : start + 200].split("\n")[0], 80)
    raise AnnotatorError(f"{sanitize_line(name_place(path))}:{number}: {problem}: {line!r}")
