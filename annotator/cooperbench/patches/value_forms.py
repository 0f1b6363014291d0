"""The forms of a Python value, inferred from its text, annotation or use."""

import ast
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from functools import lru_cache
from types import GeneratorType
from typing import Literal

Forms = frozenset[str]  # a value has one of them; empty: unknown
Step = Literal["element", "value"]  # an element of a list, a key of a dict; a value by a key

_TYPES: tuple[type, ...] = (list, dict, Counter, OrderedDict, set, deque, tuple, GeneratorType)
_TYPES += (str, bytes, bytearray, int, float)
_NAMES_BY_FORM = {  # of types, of what typing calls them, and of nodes of the tree
    "list": "list List ListComp sorted", "set": "set frozenset Set FrozenSet SetComp",
    "dict": "dict Dict DictComp defaultdict DefaultDict TypedDict", "dict that counts": "Counter",
    "ordered dict": "OrderedDict",
    "iterator": "generator GeneratorExp Iterator Generator AsyncIterator map filter zip iter",
    "deque": "deque Deque", "number": "int float complex bool Compare len",
    "string": "str JoinedStr", "bytes": "bytes bytearray", "tuple": "tuple Tuple",
    "object": "Lambda", "named tuple": "NamedTuple namedtuple",
}  # fmt: skip
_NAMES = {name: form for form, names in _NAMES_BY_FORM.items() for name in names.split()}
_TUPLES = frozenset(f"tuple of {size}" for size in range(10))  # longer ones are not told apart
_NAMES |= {name: name for name in _TUPLES}

UNKNOWN: Forms = frozenset()
OBJECT: Forms = frozenset(["object"])  # of an unknown class
PLAIN: Forms = frozenset(["plain object"])  # of a class without ``[]`` and iteration
INSTANCE = OBJECT | PLAIN | {"named tuple"}
DICT: Forms = frozenset(["dict", "ordered dict", "dict that counts"])
BY_KEY = OBJECT | DICT
BY_PLACE = BY_KEY | {"list", "deque"}
PARTS = BY_PLACE | _TUPLES | {"string", "bytes", "named tuple"}
SIZED = PARTS | {"set"}
ITERABLE = SIZED | {"iterator"}
NUMBER = INSTANCE | {"number"}
SCALAR: Forms = frozenset(["string", "number"])

_TEXT = re.compile(r"(?:\w*_)?(?:name|title|email|sku|isbn|slug|url)|username")
_LIKE = re.compile("(?i)dict|list|set|map|deque|str|int|tuple|bytes|array|counter")
_SCALAR = re.compile(r"(?:\w*_)?(?:id|code)")
_INDEX = re.compile(r"[a-z]|\w*(?:idx|index|pos|num|number|prev|next|axis|row|column)|")


def look_up(name: str) -> Forms:
    """Return the forms of a type's or node's name, or of "tuple of 3"."""
    form = _NAMES.get(name, "")
    forms = frozenset([form] if form else [])
    return _TUPLES if form == "tuple" else forms | {"dict"} if forms & DICT else forms


@lru_cache(maxsize=512)
def find_forms_with(attribute: str) -> Forms:
    """Return the forms with an attribute; an object may have any."""
    forms = (look_up(type_.__name__) for type_ in _TYPES if hasattr(type_, attribute))
    every = INSTANCE.union(*forms)
    return every if hasattr(dict, attribute) else every - {"dict"}


def get_name(node: ast.AST | None) -> str:
    """Return the name, or last part of the dotted name, of a node; else ""."""
    return getattr(node, "id", "") or (node.attr if isinstance(node, ast.Attribute) else "")


def infer_forms(node: ast.AST | None, local_forms: Mapping[str, Forms]) -> Forms:
    """Return the forms of a value as written; ``local_forms``: of names, and of "Class()"."""
    match node:
        case ast.Tuple(elts=parts) if not any(isinstance(item, ast.Starred) for item in parts):
            return look_up(f"tuple of {len(parts)}")
        case ast.Constant(value=False):  # nothing, as often as not
            return UNKNOWN
        case ast.Constant(value=value):
            return look_up(type(value).__name__)
        case ast.Call(func=ast.Name(id="field" | "Field"), keywords=keywords):
            options = {keyword.arg: keyword.value for keyword in keywords}
            factory = look_up(get_name(options.get("default_factory")))
            return factory or infer_forms(options.get("default"), local_forms)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str()), attr="join" | "format")):
            return look_up("str")
        case ast.Call(func=ast.Name(id=x) | ast.Attribute(value=ast.Name("collections"), attr=x)):
            forms = look_up(x) if x != "namedtuple" else UNKNOWN
            opaque = x[:1].isupper() and not _LIKE.search(x)
            return forms or local_forms.get(f"{x}()", OBJECT if opaque else UNKNOWN)
        case ast.BoolOp(values=[*_, value]) | ast.IfExp(body=value):
            return infer_forms(value, local_forms)
        case ast.BinOp(left=left):
            return infer_forms(left, local_forms) & {"list", "string"}
        case ast.Name(id=name):
            return local_forms.get(name, UNKNOWN)
    return look_up(type(node).__name__)


def read_annotation(
    node: ast.AST | None, local_forms: Mapping[str, Forms]
) -> tuple[Forms, list[tuple[Step, ast.AST]]]:
    """Return the forms that an annotation allows, and the annotations of what they hold."""
    match node:
        case ast.BinOp(left=inner, right=ast.Constant(value=None)):
            return read_annotation(inner, local_forms)
        case ast.Subscript(value=ast.Name(id="Optional" | "Final" | "ClassVar"), slice=inner):
            return read_annotation(inner, local_forms)
        case ast.Subscript(value=of, slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) and inner.elts else [inner]
            forms, open_end = look_up(get_name(of)), getattr(parts[-1], "value", 0) is ...
            if forms == _TUPLES and not open_end:
                return look_up(f"tuple of {len(parts)}"), []
            steps: tuple[Step, ...] = ("element", "value")
            return forms, [*zip(steps, parts[: 1 + ("dict" in forms)], strict=False)]
    name = get_name(node)
    return local_forms.get(f"{name}()", UNKNOWN) or look_up(name), []


def infer_key_forms(node: ast.AST, local_forms: Mapping[str, Forms]) -> Forms:
    """Return the forms of a key, from its text or its name."""
    if isinstance(node, ast.BinOp | ast.UnaryOp) and not isinstance(node.op, ast.Add):
        return look_up("int")
    name = get_name(node)
    guess = look_up("str") if _TEXT.fullmatch(name) else UNKNOWN
    guess = SCALAR if _SCALAR.fullmatch(name) else guess
    return infer_forms(node, local_forms) or guess


def find_containers(node: ast.AST, key: Forms, reads: bool) -> Forms:
    """Return the forms of which a part can be read, or set, by such a key."""
    if key and "number" not in key:
        return BY_KEY
    if reads:
        return PARTS
    by_place = key == {"number"} if key else _INDEX.fullmatch(get_name(node))
    return BY_PLACE if by_place and not isinstance(node, ast.Tuple) else BY_KEY


def describe_forms(forms: Forms) -> str:
    """Return forms as text: "a list", "a tuple of 2"."""
    name = "tuple" if forms >= _TUPLES else min(forms, default="object")
    return f"{'an' if name == 'object' else 'a'} {name}"
