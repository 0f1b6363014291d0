"""A critic: a model that checks each finding of a judge, one by one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from annotator.base.errors import Pending
from annotator.judges.base import RunJudge
from annotator.judges.llm.answer import InvalidAnswer, build_answer_schema, read_form
from annotator.judges.llm.judge import JudgeCall, LLMJudge, gather_all
from annotator.judges.llm.model import SHORT_ANSWER, Session
from annotator.judges.llm.request import estimate_tokens, hash_format
from annotator.judges.llm.settings import Options
from annotator.prompts.critic import CriticPrompt, hash_critic_prompts, render_critic
from annotator.prompts.render import Prompt
from annotator.rubrics import NONE, Code, Rubric
from annotator.rubrics.annotations import (
    Critique,
    Evidence,
    Finding,
    Usage,
    UsageRange,
    Verdict,
)
from annotator.traces import Trace


def _ask_judge(name: str) -> Any:
    """Return a property with a member of the judge that finds."""
    return property(lambda critic: getattr(critic._judge, name))


class Critic(LLMJudge):
    """Judges with another judge, and asks a model whether each of its findings is right.

    The model sees one code and the quotes of the finding in their context. A finding that it does
    not uphold does not count.
    """

    id = _ask_judge("id")
    codes = _ask_judge("codes")
    screens = _ask_judge("screens")
    judge = _ask_judge("judge")

    def __init__(self, judge: RunJudge, options: Options, session: Session) -> None:
        super().__init__(options, session)
        self._judge = judge

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the judge, and its own as ``critic``."""
        hashes = {"form_sha256": hash_format("critique"), "prompt_sha256": hash_critic_prompts()}
        return {**self._judge.settings, "critic": {**super().settings, **hashes}}

    @property
    def overhead(self) -> Usage:
        """See :attr:`annotator.judges.base.RunJudge.overhead`."""
        return self._judge.overhead + super().overhead

    @property
    def learned(self) -> Mapping[str, Any]:
        """``learned`` of the judge, and its own as ``critic``."""
        return {**self._judge.learned, "critic": dict(super().learned)}

    def recall(self, endpoint_state: Mapping[str, Any]) -> None:
        """See :meth:`annotator.judges.base.RunJudge.recall`."""
        self._judge.recall(endpoint_state)
        state = endpoint_state.get("critic")
        super().recall(state if isinstance(state, Mapping) else {})

    async def open(self, rubrics: Sequence[Rubric]) -> None:
        """See :meth:`annotator.judges.base.RunJudge.open`."""
        await self._judge.open(rubrics)
        await super().open(rubrics)

    async def close(self) -> None:
        """See :meth:`annotator.judges.base.RunJudge.close`."""
        try:
            await self._judge.close()
        finally:
            await super().close()

    async def review(
        self, verdict: Verdict, findings: Sequence[Finding], trace: Trace, rubric: Rubric
    ) -> Verdict:
        """See :meth:`annotator.judges.base.RunJudge.review`. If the model cannot decide about one
        finding, the trace could not be judged.
        """
        try:
            sample = self.session.first_sample
            checked = await self.decide(JudgeCall(trace, rubric, sample, findings=tuple(findings)))
        except Pending:
            raise
        except BaseException:
            self._judge.drop(trace, rubric)
            raise
        usage = verdict.usage + checked.usage
        if checked.error:
            error = f"critic: {checked.error}"
            return Verdict(usage=usage, error=error, failure=checked.failure)
        return replace(verdict, usage=usage, critiques=checked.critiques)

    def record(self, trace: Trace, rubric: Rubric) -> None:
        """See :meth:`annotator.judges.base.RunJudge.record`."""
        self._judge.record(trace, rubric)
        super().record(trace, rubric)

    def drop(self, trace: Trace, rubric: Rubric) -> None:
        """See :meth:`annotator.judges.base.RunJudge.drop`."""
        self._judge.drop(trace, rubric)
        super().drop(trace, rubric)

    async def _judge_trace(self, judge_call: JudgeCall) -> Verdict:
        """Ask about each finding."""
        trace, rubric = judge_call.trace, judge_call.rubric
        renders = [partial(render_critic, trace, rubric, each) for each in judge_call.findings]
        builds = map(self._fit_one, renders)
        answers = await gather_all([self._ask_shrinking(judge_call, build) for build in builds])
        critiques: dict[str, Critique] = {}
        for [answer], *_ in answers:
            if answer.error:
                return answer
            critiques |= answer.critiques
        return Verdict(critiques=critiques)

    def _read(self, answer: str, judge_call: JudgeCall, prompt: Prompt) -> Verdict:
        assert isinstance(prompt, CriticPrompt)  # noqa: S101 - it is asked nothing else
        fields, code = read_form(answer, prompt), prompt.finding.code
        other = fields["code"] if fields["decision"] == "another code" else None
        if other in (NONE, code):
            reason = f'decision is "another code", and code is "{other}": name the other code'
            raise InvalidAnswer([reason])
        return Verdict(critiques={code: Critique(fields["decision"], fields["reason"], other)})

    def expects(self, trace: Trace, rubric: Rubric) -> UsageRange:
        """See :meth:`annotator.judges.base.RunJudge.expects`: the critic is asked nothing, or once
        about each code that an answer may give.
        """
        possible = [code for code in rubric.codes if code.id in self.codes(rubric)]
        calls = [self._forecast_call(trace, rubric, code) for code in possible]
        if rubric.choice == "one":
            calls = [max(calls, key=lambda usage: usage.input_tokens)]
        high = sum(calls, start=Usage())
        return self._judge.expects(trace, rubric) + UsageRange(high=high)

    def _forecast_call(self, trace: Trace, rubric: Rubric, code: Code) -> Usage:
        """Return the usage of a call about a finding that quotes texts all over the trace."""
        sources = [source for source in trace.sources(rubric.quote_from) if source.text]
        step = max(len(sources) // rubric.quotes_needed(code.id), 1)
        places = [Evidence("", source.id, 0, 1, "exact") for source in sources[::step]]
        finding = Finding(code.id, "", tuple(places[: rubric.quotes_needed(code.id)]))
        prompt = render_critic(trace, rubric, finding, None, self.options.layout)
        schema = build_answer_schema(rubric, "critique")
        tokens = estimate_tokens(prompt.user) + estimate_tokens(prompt.system + schema)
        return self.expect_call(tokens, SHORT_ANSWER)

    @property
    def assumption(self) -> str:
        """See :attr:`annotator.judges.base.RunJudge.assumption`."""
        calls = (
            f"critic {self.options.model}: from no call (no finding) to a call for each code of"
            f" the rubric (all found), with answers of {self._cap(SHORT_ANSWER):,} tokens"
        )
        return f"{self._judge.assumption}; {calls}"
