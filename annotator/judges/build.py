"""Build judges from names, files, settings or objects."""

import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, get_args

from annotator.base.errors import AnnotatorError, SettingsError
from annotator.base.plugins import find_origin, is_plugin, load_plugin
from annotator.judges.base import MEMBERS, Judge, RunJudge
from annotator.rubrics.annotations import Require, Usage

if TYPE_CHECKING:  # clients are slow to import
    from annotator.judges.llm.batch import FileOutbox
    from annotator.judges.llm.cache import AnswerCache
    from annotator.judges.llm.judge import LLMJudge
    from annotator.judges.llm.model import Session
    from annotator.judges.llm.proposal import ReadProposal
    from annotator.judges.llm.settings import Options

Settings = Mapping[str, Any]
MAX_SAMPLES = 99
BATCH_WAIT = 26.0  # hours; batches end within a day


class RunSoFar(Protocol):
    """The parts of a run that judges of models use."""

    folder: Path
    dearest: float

    @property
    def in_shards(self) -> bool:
        """Whether other processes judge other shards of the run."""

    @property
    def id(self) -> str:
        """The id of the run; a resumed run keeps it."""

    @property
    def spent_dollars(self) -> float:
        """The cost of the run so far."""

    def spent(self, overhead: Usage, endpoint_state: Mapping[str, Any]) -> None:
        """Save the usage outside any trace, and the judge's ``learned``."""


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """A judge of one model or of several that vote, and what its run may use.

    ``samples``: how often each is asked about a trace; ``require``: how many of the votes a code
    needs (``majority``, ``unanimous``, ``any``). ``critic``: the model that checks each finding;
    ``finder``: a judge without a model (``rules``, a plug-in) that finds them, in the place of
    ``models``. ``rpm``, ``tpm``: most calls and tokens a minute; ``prices``: files that win over
    the listed prices; ``max_cost``: in dollars, for the whole run. ``cached``: answers that are
    known are used, and new ones kept. ``batch``: ask by the Batch API, and wait for ``batch_wait``
    hours at most; ``batch_file``, ``batch_results``: only write the requests, only read the
    answers. ``first_sample``: the number of the first sample; one that is asked again has other
    numbers. ``share``: of each trace that is read, cut as for a model with less context.
    ``source``: where the settings stand, for messages.

    Raises:
        SettingsError: settings that do not go together.
        AnnotatorError: ``samples`` is no number from 1 to 99, or ``require`` none of its words.
    """

    models: "tuple[Options, ...]"
    samples: int = 1
    require: Require = "majority"
    critic: "Options | None" = None
    finder: str = ""
    rpm: float | None = None
    tpm: float | None = None
    prices: tuple[Path, ...] = ()
    max_cost: float | None = None
    cached: bool = True
    batch: bool = False
    batch_wait: float = BATCH_WAIT
    batch_file: Path | None = None
    batch_results: tuple[Path, ...] = ()
    first_sample: int = 1
    share: float = 1.0
    source: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.samples, int) or not 1 <= self.samples <= MAX_SAMPLES:
            raise AnnotatorError(
                f"{self.source}samples: expected a number from 1 to {MAX_SAMPLES},"
                f" found {self.samples!r}"
            )
        if self.require not in get_args(Require):
            options = ", ".join(get_args(Require))
            raise AnnotatorError(
                f"{self.source}require: expected one of {options}, found {self.require!r}"
            )
        if self.require != "majority" and self.samples * len(self.models) == 1:
            raise SettingsError(
                f"require: {self.require} is about votes, and there is one: give --samples, or"
                " several --model"
            )
        if not isinstance(self.batch_wait, int | float) or not self.batch_wait > 0:
            raise AnnotatorError(
                f"{self.source}batch_wait: expected hours above 0, found {self.batch_wait!r}"
            )
        if self.batch and self.by_file:
            raise SettingsError(
                "--batch does it all; --batch-file and --batch-results do the parts"
            )
        if self.finder and not self.critic:
            raise SettingsError(f"the judge {self.finder} calls no model: a model is its critic")
        models = (*self.models, *([self.critic] if self.critic else []))
        if self.by_file and len({(model.model, model.address, model.api) for model in models}) > 1:
            raise SettingsError(
                "--batch-file and --batch-results take one model at a time, also as the critic"
            )
        for model in models:
            if (self.batch or self.by_file) and model.own_api:
                raise SettingsError(
                    f"--batch, --batch-file and --batch-results are OpenAI's Batch API, which --api"
                    f" {model.api} does not have: leave them out, or ask by another --api"
                )
            if self.samples > 1 and model.temperature == 0 and model.seed is None:
                raise SettingsError(
                    f"--samples {self.samples} of {model.model} at --temperature 0 would be one"
                    " answer several times"
                )
        out = self.batch_file
        if out and any(file.resolve() == out.resolve() for file in self.batch_results):
            raise SettingsError("--batch-file would write over the --batch-results; name another")

    @property
    def by_file(self) -> bool:
        """Whether the user exchanges requests and results as files."""
        return bool(self.batch_file or self.batch_results)


@dataclass
class BuiltJudge:
    """A judge with its cache, budget and outboxes; without a model it has none of them.

    ``source``: its settings, for another process to build it again. ``settle``: for each model in
    batches, the function that sends requests and waits for answers. ``outbox``: the files of
    requests and results. Both are set by :meth:`begin`.
    """

    judge: RunJudge
    source: Any = None
    settings: ModelSettings | None = None
    members: "Sequence[LLMJudge]" = ()
    session: "Session | None" = None
    settle: list[Callable[[], Coroutine[Any, Any, None]]] = field(default_factory=list)
    outbox: "FileOutbox | None" = None
    _reported_problem: str | None = field(default=None, init=False)  # of the cache

    def begin(self, run: RunSoFar, notice: Callable[[str], None]) -> None:
        """Open the cache, set the budget, and prepare batches for a run.

        Args:
            run: the run that is about to start.
            notice: prints a message for the user.

        Raises:
            AnnotatorError: a file of requests or of results cannot be used.
        """
        if not self.session or not self.settings:
            return
        from annotator.judges.llm.cost import Budget

        self.session.notice = notice
        cache = self.session.cache = self._open_cache(run, notice)
        if self.settings.max_cost is not None:
            spent = run.spent_dollars + (self.count_unbilled().cost_usd or 0.0)
            self.session.budget = Budget(self.settings.max_cost, spent, run.dearest)
        if cache and self.settings.batch:
            self._send_batches(run, cache, notice)
        elif cache and self.settings.by_file:
            self._exchange_files(cache, notice)

    def _open_cache(self, run: RunSoFar, notice: Callable[[str], None]) -> "AnswerCache | None":
        from annotator.judges.llm.cache import ANSWERS, AnswerCache, get_cache_file

        if self.session and self.session.in_batches:
            return AnswerCache(run.folder / ANSWERS, run.id, vital=True)
        if not (self.settings and self.settings.cached):
            return None
        if run.in_shards:  # their machines may share nothing but the folder
            cache = AnswerCache(run.folder / ANSWERS, behind=get_cache_file())
        else:
            cache = AnswerCache(get_cache_file())
        if cache.problem:
            self._reported_problem = cache.problem
            notice(f"{cache.problem}; going on without it")
        return cache

    def _send_batches(
        self, run: RunSoFar, cache: "AnswerCache", notice: Callable[[str], None]
    ) -> None:
        from annotator.judges.llm.batch import BatchOutbox

        budget = self.session.budget if self.session else None
        hours = self.settings.batch_wait if self.settings else BATCH_WAIT

        def note() -> None:
            run.spent(self.judge.overhead, self.judge.learned)

        self.settle = []
        for n, member in enumerate(self.members, 1):
            folder = run.folder / "batch" / str(n)
            outbox = BatchOutbox(
                folder, run.id, member.options, cache, member.price, budget, notice, note, hours
            )
            member.outbox = outbox
            self.settle.append(outbox.settle)

    def _exchange_files(self, cache: "AnswerCache", notice: Callable[[str], None]) -> None:
        from annotator.judges.llm.batch import BatchImport, FileOutbox
        from annotator.judges.llm.redact import Secrets

        assert self.settings  # noqa: S101 - only then is it called
        member = self.members[0]  # a critic is the same model
        options = member.options
        outbox = self.outbox = FileOutbox(self.settings.batch_file, options)
        for each in self.members:
            each.outbox = outbox
        secrets = Secrets.of(options, os.environ.get(options.api_key_env, ""))
        batch_import = BatchImport(cache, options, member.price, secrets)
        for file in self.settings.batch_results:
            before = len(batch_import.errors)
            batch_import.take_file(file)
            if new := list(batch_import.errors.values())[before:]:
                notice(f"{file}: {len(new)} requests have no answer; the first: {new[0].message}")
        if batch_import.problem:  # after the import, so that answers are kept
            raise AnnotatorError(batch_import.problem)
        outbox.missed = {key: (1, error) for key, error in batch_import.errors.items()}

    def count_unbilled(self) -> Usage:
        """Return the cost of batch answers that no annotation has yet."""
        cache = self.session and self.session.cache
        return cache.unbilled() if cache and self.settings and self.settings.batch else Usage()

    def preview(self, keys: set[str] | None = None) -> None:
        """Open the shared cache for a forecast. ``keys``: of requests that count already."""
        if self.session and self.settings and self.settings.cached and not self.session.in_batches:
            from annotator.judges.llm.cache import AnswerCache, get_cache_file

            self.session.forecast_keys = keys
            if get_cache_file().exists():
                self.session.cache = AnswerCache(get_cache_file())

    def end(self, notice: Callable[[str], None]) -> None:
        """Close files, and print notices about the cache and the model."""
        cache = self.session and self.session.cache
        if cache:
            if cache.problem and cache.problem != self._reported_problem:
                notice(f"{cache.problem}; answers since then are not kept")
            cache.close()
        for member in self.members:
            if member.other_names:
                notice(member.other_names)
            if member.outbox:
                member.outbox.close()


def build_judge(
    judge: "str | Path | Settings | ModelSettings | Judge | BuiltJudge" = "rules",
    *,
    concurrency: int = 8,
    offline: bool = False,
) -> BuiltJudge:
    """Return a judge that a run can ask.

    Args:
        judge: ``rules``; a plug-in (the name of its entry point, or ``module:name``); a judge file
            (a ``Path``, or a name that ends in ``.yaml`` or ``.yml``); any other name is a model's.
            Or settings, as a mapping with the names of a judge file (also for a model whose name
            looks like ``module:name``) or as :class:`ModelSettings`; or an object with the members
            of :class:`~annotator.judges.base.Judge`.
        concurrency: the most calls in flight.
        offline: nothing is to be called, and no key is needed.

    Raises:
        AnnotatorError: a setting, a file or the object is wrong, a plug-in cannot be used, or there
            is no key.
    """
    if isinstance(judge, BuiltJudge):
        return judge
    if isinstance(judge, ModelSettings):
        return _build_models(judge, concurrency, offline)
    if isinstance(judge, Mapping):
        return _build_models(parse_settings(judge), concurrency, offline)
    if isinstance(judge, Path):
        return _build_models(read_settings(judge), concurrency, offline)
    if not isinstance(judge, str):
        return BuiltJudge(_wrap_judge(judge, find_origin(type(judge).__module__)), judge)
    if judge == "rules":
        from annotator.judges.rules import RulesJudge

        return BuiltJudge(RulesJudge(), judge)
    if is_plugin("judges", judge):
        plugin = load_plugin("judges", judge)
        from annotator.judges.hosted import HostedJudge

        return BuiltJudge(HostedJudge(plugin.make(*MEMBERS), plugin.origin), judge)
    if judge == "llm" or not judge.strip():
        raise SettingsError("the llm judge needs a model: give the model's name, such as gpt-5")
    if is_judge_file(judge):
        return _build_models(read_settings(Path(judge)), concurrency, offline)
    return _build_models(parse_settings({"model": judge}), concurrency, offline)


def is_judge_file(name: str) -> bool:
    """Whether a name is that of a judge file."""
    return name.endswith((".yaml", ".yml"))


def parse_settings(
    settings: Settings,
    *,
    over: Settings = MappingProxyType({}),
    under: Settings = MappingProxyType({}),
    source: str = "",
    **limits: Any,
) -> ModelSettings:
    """Return the settings of a judge of models.

    Args:
        settings: names as in a judge file, and those of :class:`ModelSettings`.
        over: of the same names, what wins over all of them, also over a model's own.
        under: what counts where ``settings`` say nothing. ``models`` in these two are names.
        source: where the settings stand, for messages.
        limits: fields of :class:`ModelSettings`.

    Raises:
        SettingsError: settings that do not go together.
        AnnotatorError: a setting is unknown or wrong, or no model is named.
    """
    from annotator.judges.llm.settings import NATIVE, build_options

    common = dict(settings)
    limits = {name: common.pop(name) for name in _LIMITS if name in common} | limits
    models = common.pop("models", [])
    if not isinstance(models, list) or not all(isinstance(model, Mapping) for model in models):
        raise AnnotatorError(f"{source}models: expected a list of settings, each with a model")
    shared, forced = ({**values} for values in (under, over))
    votes: dict[str, Any] = {"samples": 1, "require": "majority", "critic": None}
    for values in (shared, common, forced):
        votes |= {name: values.pop(name) for name in (*votes,) if name in values}
    names, default_names = forced.pop("models", ()), shared.pop("models", ())
    if not (names or models or "model" in common):
        names = default_names
    if names:
        by_name = {str(model.get("model")): model for model in models}
        models = [{**by_name.get(name, {}), "model": name} for name in names]
        common.pop("model", None)
    each = [{**common, **model, **forced} for model in models or [{}]]
    for model in each:
        # OPENAI_BASE_URL is no address of another API, whose key must not go there.
        not_shared = {"base_url"} if str(model.get("api")) in NATIVE else set()
        model |= {name: shared[name] for name in shared.keys() - model.keys() - not_shared}
    votes["critic"] = _parse_critic(votes["critic"], each[0], source)
    return ModelSettings(
        models=tuple(build_options(each, source)),
        **votes,
        source=source,
        **limits,
    )


def _parse_critic(critic: Any, judge: Settings, source: str) -> "Options | None":
    """Return the options of a critic: the judge's, with another model or other settings."""
    from annotator.judges.llm.settings import build_options

    if critic is None:
        return None
    changes = {"model": critic} if isinstance(critic, str) and critic != SAME else critic
    changes = {} if changes == SAME else changes
    if not isinstance(changes, Mapping):
        raise AnnotatorError(
            f"{source}critic: expected {SAME}, a model, or settings, found {critic!r}"
        )
    # The price and the context of the judge are not those of another model.
    of_model = () if changes.get("model", judge.get("model")) == judge.get("model") else _OF_MODEL
    kept = {name: value for name, value in judge.items() if name not in of_model}
    [options] = build_options([{**kept, **changes}], f"{source}critic: ")
    return options


def read_settings(file: Path, **more: Any) -> ModelSettings:
    """Return the settings in a judge file; ``more`` and errors as in :func:`parse_settings`."""
    from annotator.judges.llm.settings import read_judge_file

    return parse_settings(read_judge_file(file), source=f"{file}: ", **more)


def dump_settings(settings: ModelSettings) -> str:
    """Return the settings of models as the text of a judge file: those that are no default."""
    import yaml

    models = [_list_changes(options) for options in settings.models]
    votes = {"samples": settings.samples, "require": settings.require}
    usual_votes = {"samples": 1, "require": "majority"}
    changed = {name: value for name, value in votes.items() if value != usual_votes[name]}
    content = {**(models[0] if len(models) == 1 else {"models": models}), **changed}
    content |= {"critic": _list_changes(settings.critic)} if settings.critic else {}
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def _list_changes(options: "Options") -> dict[str, Any]:
    """Return the settings of a model that are no default."""
    usual = type(options)(options.model, api=options.api)
    values = {item.name: getattr(options, item.name) for item in fields(options)}
    return {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if name == "model" or value != getattr(usual, name)
    }


SAME = "same"
"""The critic that is the judge's own model."""
_OF_MODEL = ("price_in", "price_cached", "price_out", "context", "max_output_tokens")
_NO_LIMITS = {"models", "samples", "require", "critic", "source"}
_LIMITS = {item.name for item in fields(ModelSettings)} - _NO_LIMITS


def _build_models(settings: ModelSettings, concurrency: int, offline: bool) -> BuiltJudge:
    from annotator.judges.llm.judge import LLMJudge
    from annotator.judges.llm.model import Session
    from annotator.judges.llm.rate_limit import RateLimiter

    session = Session(
        RateLimiter(concurrency, settings.rpm, settings.tpm),
        prices=settings.prices,
        in_batches=settings.batch or settings.by_file,
        offline=offline or settings.by_file,
        first_sample=settings.first_sample,
        share=settings.share,
    )
    members = [
        LLMJudge(_set_default_temperature(options) if settings.samples == 1 else options, session)
        for options in (() if settings.finder else settings.models)
    ]
    judge: RunJudge = build_judge(settings.finder).judge if settings.finder else members[0]
    if len(members) > 1 or (members and settings.samples > 1):
        from annotator.judges.panel import Panel

        judge = Panel(members, settings.samples, settings.require)
    if settings.critic:
        from annotator.judges.llm.critic import Critic

        judge = Critic(judge, _set_default_temperature(settings.critic), session)
        members.append(judge)
    is_limited = settings.max_cost is not None and not settings.by_file  # files send nothing
    for member in members if is_limited else ():
        has_costs = member.options.provider.costs  # in each answer
        if member.price is None and not has_costs:
            raise AnnotatorError(
                f"--max-cost: the price of {member.options.model} is not known; give --price-in and"
                " --price-out, or --prices FILE"
            )
    return BuiltJudge(judge, settings, settings, members, session)


def build_proposer(
    settings: ModelSettings, concurrency: int, read: "ReadProposal", *, offline: bool = False
) -> BuiltJudge:
    """Return the first model of the settings, as a
    :class:`~annotator.judges.llm.proposal.Proposer` of what ``read`` reads. Raises as
    :func:`build_judge`.
    """
    from annotator.judges.llm.proposal import Proposer

    models = settings.models[:1]
    single = replace(settings, models=models, samples=1, require="majority", critic=None, finder="")
    built = _build_models(single, concurrency, offline)
    proposer = Proposer(built.members[0].options, built.session, read)
    return replace(built, judge=proposer, members=(proposer,))


def _set_default_temperature(options: "Options") -> "Options":
    """Return the options with the default temperature of a local server."""
    from annotator.judges.llm.settings import is_local

    if options.temperature is not None:
        return options
    here = is_local(options.base_url)
    return replace(options, temperature=options.provider.temperature(options.model, here))


def _wrap_judge(judge: Any, origin: str) -> RunJudge:
    """Return a plug-in judge with all members that a run uses."""
    if type(judge).__module__.partition(".")[0] == __name__.partition(".")[0]:
        ours: RunJudge = judge
        return ours
    from annotator.judges.hosted import HostedJudge

    return HostedJudge(judge, origin)
