"""What a verb of work does: "appended" adds, "rewriting" changes."""

from collections.abc import Mapping

_VERBS: Mapping[str, str] = {
    "add": "add create implement introduce append insert prepend define register write export wire",
    "remove": "remove delete drop strip",
    "rename": "rename",
    "move": "move relocate",
    "change": "change modify update edit extend refactor replace wrap fix convert rewrite adjust"
    " patch tweak alter rework integrate apply centralize build support",
    "touch": "touch",
    "own": "own take handle keep leave cover",
    "place": "place put",
    "merge": "merge rebase push commit fetch pull land submit finalize resolve combine",
    "test": "test verify run check validate",
    "tell": "ping share send paste post notify coordinate report confirm flag reply signal",
    "wait": "wait hold",
    "finish": "finish complete done",
}
_IRREGULAR = {
    "wrote": "write",
    "written": "write",
    "rewrote": "rewrite",
    "rewritten": "rewrite",
    "took": "take",
    "taken": "take",
    "kept": "keep",
    "sent": "send",
    "held": "hold",
    "built": "build",
    "left": "leave",
    "ran": "run",
}


def _stem(verb: str) -> str:
    """Return what the forms of a verb have in common: "drop" for "dropped"."""
    for ending in ("ing", "ied", "ies", "ed", "es", "s"):
        if verb.endswith(ending) and len(verb) > len(ending) + 1:
            verb = verb.removesuffix(ending) + ("y" if ending in ("ied", "ies") else "")
            break
    if len(verb) > 3 and verb[-1] == verb[-2] and verb[-1] not in "sld":
        verb = verb[:-1]
    return verb.removesuffix("e")


_ACTIONS = {_stem(verb): action for action, verbs in _VERBS.items() for verb in verbs.split()}


def action_of(verb: str) -> str:
    """Return what a verb in any form does, a name such as ``add``, ``change`` or ``other``."""
    verb = verb.lower()
    return _ACTIONS.get(_stem(_IRREGULAR.get(verb, verb)), "other")
