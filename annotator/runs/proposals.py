"""Ask a model for proposals, such as changes of rubrics, and keep its answers beside the runs."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from annotator.base.errors import Pending
from annotator.base.files import read_bounded, write_file
from annotator.judges.build import ModelSettings, build_proposer
from annotator.judges.llm.judge import gather_all
from annotator.judges.llm.proposal import KeptProposal, Proposer
from annotator.prompts.proposal import AnyProposalPrompt

T = TypeVar("T")


async def ask_proposals(
    prompts: Mapping[str, AnyProposalPrompt],
    settings: ModelSettings,
    folder: Path,
    concurrency: int,
    notice: Callable[[str], None],
    kind: type[T],
    read: Callable[[str, Any], T],
) -> dict[str, KeptProposal[T]]:
    """Return the proposal for each prompt, by its name; without those that wait for answers in
    files. They are kept in ``folder``, by name: the same question is asked once.

    Args:
        prompts: the questions.
        settings: those of the model, with what is left of the budget.
        folder: the directory of the answers.
        concurrency: the most calls in flight.
        notice: prints a message for the user.
        kind: the type of a proposal.
        read: returns the proposal in an answer; raises InvalidAnswer.

    Raises:
        BudgetReached: the next call may bring the cost above ``max_cost`` of the settings.
        AnnotatorError: no model can be asked.
    """
    adapter = TypeAdapter(KeptProposal[kind])  # type: ignore[valid-type]
    built = build_proposer(settings, concurrency, read)
    proposer = built.judge
    assert isinstance(proposer, Proposer)  # noqa: S101 - it was built as one
    requests = {
        name: hashlib.sha256(f"{prompt.tag} {json.dumps(proposer.settings)}".encode()).hexdigest()
        for name, prompt in prompts.items()
    }
    before = {name: item for name in prompts if (item := _read(folder / name, adapter))}
    kept = {
        name: item
        for name, item in before.items()
        if item.request == requests[name] and not item.error
    }

    async def ask(name: str) -> None:
        try:
            answer = await proposer.propose(name, prompts[name], requests[name])
        except Pending:
            return
        if earlier := before.get(name):  # which has cost something, too
            answer = replace(answer, usage=earlier.usage + answer.usage)
        kept[name] = answer
        text = json.dumps(asdict(answer), ensure_ascii=False, indent=1)
        (folder / name).mkdir(parents=True, exist_ok=True)
        write_file(folder / name / _FILE, f"{text}\n", private=True)

    if left := [name for name in prompts if name not in kept]:
        (settings.batch_file or folder / _FILE).parent.mkdir(parents=True, exist_ok=True)
        # In the place of a run: it has spent nothing yet, and answers keep their usage themselves.
        run: Any = SimpleNamespace(
            folder=folder,
            id=hashlib.sha256(str(folder.resolve()).encode()).hexdigest(),
            **{"dearest": 0.0, "spent_dollars": 0.0, "in_shards": False, "spent": lambda *_: None},
        )
        built.begin(run, notice)
        try:
            await proposer.open([prompts[name].rubric for name in left])
            while True:
                for step in built.settle:
                    await step()
                await gather_all([ask(name) for name in left])
                left = [name for name in left if name not in kept]
                if not (left and built.settle):
                    break
            if built.outbox:
                built.outbox.keep()
        finally:
            await proposer.close()
            built.end(notice)
    return kept


PROPOSALS, _FILE = "proposals", "proposal.json"
"""The directory of the requests, and the file of an answer."""


def _read(folder: Path, adapter: TypeAdapter[KeptProposal[T]]) -> KeptProposal[T] | None:
    """Return the answer that is kept there, or None."""
    try:
        return adapter.validate_json(read_bounded(folder / _FILE))
    except (OSError, ValidationError):
        return None
