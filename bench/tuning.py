"""How often the printed gain of a tuning covers 0 if no change of the rubric has an effect, and how
often it does not if one mends a share of the judge's errors.

    python bench/tuning.py [STUDIES]

A study: people's labels and a judge whose errors are random, with an effect of the task (ICC .15).
Each candidate leaves most answers as they are and draws the others anew by the same law, so that it
helps or harms by chance only; but the first one mends a share of the errors. The tuning itself is
that of annotate tune; only models are replaced.
"""

import sys

import numpy as np

from annotator.calibration.tuning import (
    Gain,
    JudgeTask,
    LabelledSet,
    Procedure,
    TuningPlan,
    tune_and_check,
)
from annotator.rubrics import Rubric
from annotator.rubrics.changes import ClauseChange, Proposal, ProposedChange

CODES = ("a", "b", "c", "none")
SHARES = (0.4, 0.2, 0.1, 0.3)
RIGHT, ICC = 0.7, 0.15
RUBRIC = Rubric.model_validate(
    {
        **{"id": "bench", "version": 1, "title": "x", "source": "x", "choice": "primary"},
        **{"instructions": "x", "precedence": list(CODES[:-1]), "sha256": "0" * 64},
        "codes": [{"id": x, "name": x, "definition": x, "evidence": "x"} for x in CODES[:-1]],
    }
)


class Study:
    """Labels of ``tasks`` tasks, and a judge that redraws a share of its answers for a rubric."""

    def __init__(self, seed: int, tasks: int, per_task: int, redrawn: float, mended: float) -> None:
        self.random = np.random.default_rng(seed)
        self.redrawn, self.mended = redrawn, mended
        ids = [f"{task}/{n}" for task in range(tasks) for n in range(per_task)]
        groups = {name: name.partition("/")[0] for name in ids}
        spread = (1 - ICC) / ICC
        rates = {
            task: self.random.beta(RIGHT * spread, (1 - RIGHT) * spread) for task in groups.values()
        }
        human = dict(zip(ids, self.random.choice(CODES, len(ids), p=SHARES).tolist(), strict=True))
        self.rates = {name: rates[groups[name]] for name in ids}
        self.labels = LabelledSet(human, groups)
        self.base = {name: self.draw(name) for name in ids}

    def draw(self, name: str) -> str:
        """Return a new answer on a trace."""
        truth = self.labels.human[name]
        if self.random.random() < self.rates[name]:
            return truth
        return str(self.random.choice([code for code in CODES if code != truth]))

    def judge_again(self, name: str, rubric: Rubric) -> str:
        """Return the answer by another rubric."""
        if "the first" in rubric.instructions and self.random.random() < self.mended:
            return self.labels.human[name]
        return self.draw(name) if self.random.random() < self.redrawn else self.base[name]

    def tune(self, plan: TuningPlan) -> tuple[Procedure, Gain]:
        """Tune, with answers in the place of models."""
        steps = tune_and_check(self.labels, self.base, RUBRIC, plan)
        reply = None
        judged: dict[tuple[str, str], str] = {}  # a judge answers the same question the same way
        while True:
            try:
                tasks = next(steps) if reply is None else steps.send(reply)
            except StopIteration as stop:
                product, _, answers = stop.value
                return product, self.labels.compare(answers, self.base)
            reply = []
            for task in tasks:
                if isinstance(task, JudgeTask):
                    answers: dict[str, str] = {}
                    for name in task.trace_ids:
                        answer = self.judge_again(name, task.rubric)
                        answers[name] = judged.setdefault((task.rubric.sha256, name), answer)
                    reply.append(answers)
                else:
                    texts = [f"{task.name} {n or 'the first'}" for n in range(plan.candidates)]
                    changes = [ClauseChange("", "instructions", text) for text in texts]
                    reply.append(
                        Proposal((), tuple(ProposedChange(x, "a rule", ()) for x in changes))
                    )


def main(studies: int) -> None:
    """Print a line for each setting."""
    print("tasks  traces  redrawn  mended  covers 0  mean gain  kept")
    for tasks, per_task, redrawn, mended in (
        *((20, 4, 1.0, 0.0), (20, 4, 0.2, 0.0), (8, 5, 0.2, 0.0), (40, 3, 0.1, 0.0)),
        *((20, 4, 0.1, 0.3), (20, 4, 0.1, 0.6), (40, 5, 0.1, 0.3)),
    ):
        covered, gains, kept = 0, [], 0
        for seed in range(studies):
            study = Study(seed, tasks, per_task, redrawn, mended)
            product, gain = study.tune(TuningPlan(seed=seed))
            low, high = gain.kappa.low, gain.kappa.high
            covered += low is None or high is None or low <= 0 <= high
            gains.append(gain.kappa.value or 0.0)
            kept += bool(product.changes)
        mean = float(np.mean(gains))
        print(
            f"{tasks:5} {tasks * per_task:7} {redrawn:8} {mended:7} {covered / studies:9.3f}"
            f" {mean:10.4f} {kept / studies:5.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
