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


def look_up(name: str) -> Forms:
    """Return what a name stands for: of a type, of a node in the tree, or "tuple of 3"."""
    form = _NAMES.get(name, "")
    return _TUPLES if form == "tuple" else frozenset([form] if form else [])


@lru_cache(maxsize=512)
def having(attribute: str) -> Forms:
    """Return the forms that have an attribute; an object may have any."""
    forms = (look_up(type_.__name__) for type_ in _TYPES if hasattr(type_, attribute))
    return OBJECT.union(*forms)


def name_of(node: ast.AST | None) -> str:
    """Return a name, the last one of a dotted name, "" for what is no name."""
    return getattr(node, "id", "") or (node.attr if isinstance(node, ast.Attribute) else "")


def forms_of(node: ast.AST | None, local_forms: dict[str, Forms]) -> Forms:
    """Return the forms of a value as it is written, none if it is computed."""
    match node:
        case ast.Tuple(elts=parts) if not any(isinstance(part, ast.Starred) for part in parts):
            return look_up(f"tuple of {len(parts)}")
        case ast.Constant(value=value):
            return look_up(type(value).__name__)
        case ast.Call(func=ast.Name(id="field" | "Field"), keywords=keywords):
            options = {keyword.arg: keyword.value for keyword in keywords}
            factory = look_up(name_of(options.get("default_factory")))
            return factory or forms_of(options.get("default"), local_forms)
        case ast.Call(func=ast.Name(id=x) | ast.Attribute(value=ast.Name("collections"), attr=x)):
            return look_up(x) or (OBJECT if x[:1].isupper() else UNKNOWN)
        case ast.BoolOp(values=[*_, value]) | ast.IfExp(body=value):
            return forms_of(value, local_forms)
        case ast.BinOp(left=left):
            return forms_of(left, local_forms) & {"list", "string"}
        case ast.Name(id=name):
            return local_forms.get(name, UNKNOWN)
    return look_up(type(node).__name__)


def read_annotation(node: ast.AST | None) -> tuple[Forms, ast.AST | None]:
    """Return the forms that an annotation allows, and the annotation of the elements."""
    match node:
        case ast.BinOp(left=inner, right=ast.Constant(value=None)):
            return read_annotation(inner)
        case ast.Subscript(value=ast.Name(id="Optional" | "Final" | "ClassVar"), slice=inner):
            return read_annotation(inner)
        case ast.Subscript(value=of, slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            forms, open_end = look_up(name_of(of)), getattr(parts[-1], "value", 0) is ...
            if forms == _TUPLES and not open_end:
                forms = look_up(f"tuple of {len(parts)}")
            return forms, parts[-1]
    return look_up(name_of(node)), None


def in_words(forms: Forms) -> str:
    """Return forms in words: "a list", "a tuple of 2"."""
    name = "tuple" if forms >= _TUPLES else min(forms, default="object")
    return f"{'an' if name == 'object' else 'a'} {name}"
