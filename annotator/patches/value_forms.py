"""The forms a Python value can have, told by how it is written, annotated or used."""

import ast
from collections import Counter, OrderedDict, deque
from functools import lru_cache

Forms = frozenset[str]  # one of which a value has; none: nothing is known

_TYPES = (list, dict, Counter, OrderedDict, set, deque, str, bytes, int, float, tuple)
_WORDS = {  # of types, of what typing calls them, and of nodes of the tree
    "list": "list List ListComp sorted", "set": "set frozenset Set FrozenSet SetComp",
    "dict": "dict Dict DictComp defaultdict OrderedDict Counter", "deque": "deque Deque",
    "number": "int float complex bool Compare len", "string": "str JoinedStr",
    "bytes": "bytes bytearray", "tuple": "tuple Tuple", "object": "Lambda",
}  # fmt: skip
_NAMES = {name: form for form, names in _WORDS.items() for name in names.split()}
_TUPLES = frozenset(f"tuple of {size}" for size in range(10))  # longer ones are not told apart
_NAMES |= {name: name for name in _TUPLES}

UNKNOWN: Forms = frozenset()
OBJECT: Forms = frozenset(["object"])  # of a class of which nothing is known
BY_KEY = OBJECT | {"dict"}
BY_PLACE = BY_KEY | {"list", "deque"}
PARTS = BY_PLACE | _TUPLES | {"string", "bytes"}


def named(name: str) -> Forms:
    """Return what a name stands for: of a type, of a node in the tree, or "tuple of 3"."""
    form = _NAMES.get(name, "")
    return _TUPLES if form == "tuple" else frozenset([form] if form else [])


@lru_cache(maxsize=512)
def having(attribute: str) -> Forms:
    """Return the forms that have an attribute; an object may have any."""
    forms = (named(one.__name__) for one in _TYPES if hasattr(one, attribute))
    return OBJECT.union(*forms)


def name_of(node: ast.AST | None) -> str:
    """Return a name, the last one of a dotted name, "" for what is no name."""
    return getattr(node, "id", "") or (node.attr if isinstance(node, ast.Attribute) else "")


def forms_of(node: ast.AST | None, known: dict[str, Forms]) -> Forms:
    """Return the forms of a value as it is written, none if it is computed."""
    match node:
        case ast.Tuple(elts=parts) if not any(isinstance(one, ast.Starred) for one in parts):
            return named(f"tuple of {len(parts)}")
        case ast.Constant(value=value):
            return named(type(value).__name__)
        case ast.Call(func=ast.Name(id="field" | "Field"), keywords=keywords):
            made = {one.arg: one.value for one in keywords}
            factory = named(name_of(made.get("default_factory")))
            return factory or forms_of(made.get("default"), known)
        case ast.Call(func=ast.Name(id=x) | ast.Attribute(value=ast.Name("collections"), attr=x)):
            return named(x) or (OBJECT if x[:1].isupper() else UNKNOWN)
        case ast.BoolOp(values=[*_, one]) | ast.IfExp(body=one):
            return forms_of(one, known)
        case ast.BinOp(left=left):
            return forms_of(left, known) & {"list", "string"}
        case ast.Name(id=name):
            return known.get(name, UNKNOWN)
    return named(type(node).__name__)


def annotated(node: ast.AST | None) -> tuple[Forms, ast.AST | None]:
    """Return the forms that an annotation allows, and the annotation of the elements."""
    match node:
        case ast.BinOp(left=inner, right=ast.Constant(value=None)):
            return annotated(inner)
        case ast.Subscript(value=ast.Name(id="Optional" | "Final" | "ClassVar"), slice=inner):
            return annotated(inner)
        case ast.Subscript(value=of, slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            forms, open_end = named(name_of(of)), getattr(parts[-1], "value", 0) is ...
            return named(
                f"tuple of {len(parts)}"
            ) if forms == _TUPLES and not open_end else forms, parts[-1]
    return named(name_of(node)), None


def in_words(forms: Forms) -> str:
    """Return forms in words: "a list", "a tuple of 2"."""
    one = "tuple" if forms >= _TUPLES else min(forms, default="object")
    return f"{'an' if one == 'object' else 'a'} {one}"
