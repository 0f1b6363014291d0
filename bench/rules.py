"""How fast the rules judge is: reading and deciding against reading alone, on real runs.

    python -m bench.rules [TRACES]

Times are CPU seconds of one process, the best of five rounds each, in one run.
"""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

from annotator.cooperbench import rules
from annotator.rubrics import Rubric, load_rubric
from annotator.traces import Trace, read_traces

ROUNDS = 5


def best(work: Callable[[], object]) -> float:
    """Return the CPU seconds of the fastest round."""
    times = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


def main(source: str) -> None:
    """Print for each rubric the runs a second, and how many times the reading that is."""

    def read() -> Iterator[Trace]:
        for one in read_traces([source]):
            if isinstance(one, Trace) and len(one.agents) > 1:
                yield one

    def count() -> int:
        return sum(1 for _ in read())

    def decide(rubric: Rubric) -> None:
        for one in read():
            if not rubric.excludes(one):
                rules.decide(one, rubric)

    runs, reading = count(), best(count)
    print(f"{runs} runs of several agents; reading alone {runs / reading:.0f} a second")
    for name in ("comm_errors", "symptoms", "emergent"):
        rubric = load_rubric(name)
        seconds = best(partial(decide, rubric))
        print(f"{name:12} {runs / seconds:4.0f} a second, {seconds / reading:4.1f} times reading")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "examples/traces")
