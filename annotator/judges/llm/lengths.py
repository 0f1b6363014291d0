"""How much of a trace a model can read, and what it is shown of one that is longer."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from annotator.judges.llm.failures import CallFailed
from annotator.judges.llm.reply import Reply
from annotator.judges.llm.schema import answer_schema
from annotator.judges.llm.settings import Options
from annotator.judges.llm.tokens import Tokens, at_most
from annotator.prompts import NO_OBSERVATIONS, Observations, Prompt, render, render_windows
from annotator.rubrics import Rubric
from annotator.traces import Trace

LONGEST_ANSWER = 4_000  # tokens for an answer whose length nothing else limits
SHRINKS = 6  # how often a prompt that was too long is made shorter
LEAST = 2_000  # characters of a trace below which there is nothing to judge
_FIXED_MARGIN = 1.1  # rubrics are plain prose: 4.6 bytes a token, counted as 4
_MOST_PER_TOKEN = 8  # characters: of 88 real prompts the sparsest had 4.9


class TooLong(Exception):
    """A prompt that the model cannot read in full; ``most``: characters of a trace that it can."""

    def __init__(self, words: str, most: int) -> None:
        super().__init__(words)
        self.most = most


class Reader:
    """What one model can read: ``context`` tokens of input, None if that is not known."""

    def __init__(self, options: Options, context: int | None) -> None:
        self.context = context
        self.tokens = Tokens(options.model)
        self._windows = options.windows
        self._facts = options.facts
        self._observed: tuple[Trace, Observations] | None = None  # the last: it is asked for again
        self._longest_answer = options.max_output_tokens
        self._fixed = lru_cache(maxsize=16)(self._counted)

    def prompts(self, trace: Trace, rubric: Rubric, most: int | None = None) -> list[Prompt]:
        """Return what is asked about a trace: one prompt, or one for each window.

        ``most``: characters of a trace that are known to fit. The facts give way to the trace: they
        are shown as far as there is room when all of it is.

        Raises:
            UnreadableTrace: the rubric needs the agents' steps and they cannot be read.
            CallFailed: there is no room for anything worth judging.
        """
        facts = self._observations(trace)
        if facts.lines and (whole := self._whole(trace, rubric, facts, most)):
            return [whole]
        return [_without(one, facts.lines) for one in self._bare(trace, rubric, most)]

    def _observations(self, trace: Trace) -> Observations:
        """Return the facts that are shown beside a trace, where they are wanted."""
        if not self._facts:
            return NO_OBSERVATIONS
        if self._observed is None or self._observed[0] is not trace:
            from annotator.judges.llm.observations import observe

            self._observed = (trace, observe(trace))
        return self._observed[1]

    def _whole(
        self, trace: Trace, rubric: Rubric, facts: Observations, most: int | None
    ) -> Prompt | None:
        """Return the prompt with all of the trace and the facts that fit, or None if it does not
        fit even without them.
        """
        prompt = render(trace, rubric, observations=facts)
        room = self._room(prompt, rubric)

        def too_long(one: Prompt) -> bool:
            longer = most is not None and len(one.user) > most
            return longer or (room is not None and not self.tokens.fits(one.user, room))

        def with_first(lines: int) -> Prompt:
            return render(trace, rubric, observations=facts.first(lines))

        if not too_long(prompt):
            return prompt
        fewer = range(len(facts.lines))
        shown = bisect_left(fewer, True, key=lambda lines: too_long(with_first(lines))) - 1
        return _without(with_first(shown), facts.lines[shown:]) if shown >= 0 else None

    def _bare(self, trace: Trace, rubric: Rubric, most: int | None) -> list[Prompt]:
        """Return the prompts without facts: the whole trace, as much as fits, or windows."""
        prompt = render(trace, rubric)
        room = self._room(prompt, rubric)
        if most is None:
            if room is None or self.tokens.fits(prompt.user, room):
                return [prompt]
            most = self._shorter(prompt, room)
        for _ in range(SHRINKS):
            if most < LEAST:
                break
            prompts = (
                render_windows(trace, rubric, most)
                if self._windows
                else [render(trace, rubric, most)]
            )
            long = [one for one in prompts if room and not self.tokens.fits(one.user, room)]
            if not long or room is None:
                return prompts
            most = min(self._shorter(one, room) for one in long)
        context = f" of {self.context} tokens" if self.context else ""
        raise CallFailed(f"the model's context{context} leaves no room for the trace")

    def refused(self, reply: Reply, prompt: Prompt) -> TooLong:
        """Return how much shorter a prompt must be that the server refused as too long."""
        size, aside = len(prompt.user), len(prompt.aside)
        most, aside_is_enough = int(size * 0.7), True
        if reply.limit and reply.asked > reply.limit:
            over = reply.asked - reply.limit + self._answer_room(reply.limit)
            over_characters = over * (len(prompt.system) + size) / reply.asked
            most = min(int((size - over_characters) * 0.97), size - 1)
            aside_is_enough = over_characters < aside
        if aside and aside_is_enough:
            most = max(most, size - aside)
        return TooLong(reply.text, most)

    def _room(self, prompt: Prompt, rubric: Rubric) -> int | None:
        """Return the tokens that are left for a trace, or None if the context is not known."""
        if self.context is None:
            return None
        fixed = self._fixed(prompt.system, answer_schema(rubric))
        return max(self.context - fixed - self._answer_room(self.context), 1)

    def _counted(self, system: str, schema: str) -> int:
        """Return the tokens of what every prompt of a rubric has."""
        margin = 1.0 if self.tokens.exact else _FIXED_MARGIN
        return int(self.tokens.count(system + schema) * margin)

    def _shorter(self, prompt: Prompt, room: int) -> int:
        """Return about how many characters of a prompt fit into so many tokens."""
        user = prompt.user
        tokens = self.tokens.count(user) * 1.05 if self.tokens.exact else at_most(user)
        return min(int(len(user) * room / tokens), len(user) - 1)

    def _answer_room(self, context: int) -> int:
        """Return the tokens of a context that are left to the answer and to asking again."""
        return (self._longest_answer or min(LONGEST_ANSWER, context // 8)) + 200


def _without(prompt: Prompt, facts: Sequence[str]) -> Prompt:
    """Return the prompt with a note of the facts that it does not show for want of room."""
    if not facts:
        return prompt
    left_out = {"observations": sum(len(one) for one in facts)}
    return replace(prompt, truncated={**prompt.truncated, **left_out})


def read_in_full(prompt: Prompt, reply: Reply, tokens: int) -> None:
    """Raise :class:`CallFailed` if the server cut the prompt off without a word, as some do."""
    most = max(20_000, _MOST_PER_TOKEN * tokens)
    if reply.too_long or not tokens or prompt.at_most <= most:
        return
    if (size := len(prompt.user)) > most:
        raise CallFailed(
            f"the server read {tokens} tokens of a trace of {size} characters:"
            " its context is too small for it"
        )
