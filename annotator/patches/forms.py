"""The forms a Python value can have, told by how it is written, annotated or used."""

import ast
from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache

Forms = frozenset[str]

TUPLES = frozenset(f"tuple{n}" for n in range(10))
FORM: dict[str, Forms] = {
    "list": frozenset(["list"]), "dict": frozenset(["dict"]), "set": frozenset(["set"]),
    "deque": frozenset(["deque"]), "string": frozenset(["string"]), "tuple": TUPLES,
    "bytes": frozenset(["bytes"]), "number": frozenset(["number"]), "object": frozenset(["object"]),
}  # fmt: skip
_NAMES = {
    "list": "list", "List": "list", "sorted": "list", "dict": "dict", "Dict": "dict",
    "defaultdict": "dict", "OrderedDict": "dict", "Counter": "dict", "set": "set", "Set": "set",
    "frozenset": "set", "FrozenSet": "set", "tuple": "tuple", "Tuple": "tuple", "deque": "deque",
    "Deque": "deque", "str": "string", "int": "number", "float": "number", "bool": "number",
    "len": "number", "bytes": "bytes",
}  # fmt: skip
_NODES = {
    ast.List: "list", ast.ListComp: "list", ast.Dict: "dict", ast.DictComp: "dict", ast.Set: "set",
    ast.SetComp: "set", ast.JoinedStr: "string", ast.Lambda: "object", ast.Compare: "number",
}  # fmt: skip
_TYPES = {
    "list": list, "dict": dict, "set": set, "tuple": tuple, "deque": deque, "string": str,
    "bytes": bytes, "number": float,
}  # fmt: skip
NOTHING: Forms = frozenset()


@lru_cache(maxsize=512)
def having(method: str) -> Forms:
    """Return the forms that have a method; none is known for a method of no built-in type."""
    forms = (FORM[one] for one, kind in _TYPES.items() if hasattr(kind, method))
    return frozenset().union(*forms)


def sized(form: str, size: int) -> Forms:
    """Return the forms of a list or tuple as it is written: a list may grow."""
    return frozenset([f"{form}{size}"]) | (FORM["list"] if form == "list" else NOTHING)


def name_of(node: ast.AST | None) -> str:
    """Return a name, the last one of a dotted name, "" for what is no name."""
    return getattr(node, "id", "") or (node.attr if isinstance(node, ast.Attribute) else "")


def forms_of(node: ast.AST | None, known: dict[str, Forms]) -> Forms:
    """Return the forms of a value as it is written, none if it is computed."""
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            form = "tuple" if isinstance(node, ast.Tuple) else "list"
            if not parts or any(isinstance(one, ast.Starred) for one in parts):
                return FORM[form]
            return sized(form, len(parts))
        case ast.Constant(value=value):
            kinds = ((str, "string"), (bytes, "bytes"), ((int, float, complex), "number"))
            return next((FORM[form] for kind, form in kinds if isinstance(value, kind)), NOTHING)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str()), attr="join" | "format")):
            return FORM["string"]
        case ast.Call(func=function):
            if name_of(function) == "field":
                made = {one.arg: one.value for one in node.keywords}
                factory = _NAMES.get(name_of(made.get("default_factory")))
                return FORM[factory] if factory else forms_of(made.get("default"), known)
            form = _NAMES.get(name_of(function), "")
            return FORM.get(form, NOTHING)
        case ast.BoolOp(values=[*_, last]):
            return forms_of(last, known)
        case ast.IfExp(body=body, orelse=other):
            return forms_of(body, known) or forms_of(other, known)
        case ast.BinOp(left=left, op=ast.Mult() | ast.Add() | ast.Mod()):
            forms = forms_of(left, known)
            return FORM["list"] if "list" in forms else forms & (FORM["string"])
        case ast.Name(id=name):
            return known.get(name, NOTHING)
    return FORM.get(_NODES.get(type(node), ""), NOTHING)


def annotated(node: ast.AST | None) -> tuple[Forms, ast.AST | None]:
    """Return the forms that an annotation allows, and the annotation of the elements."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            node = ast.parse(node.value, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return NOTHING, None
    if isinstance(node, ast.BinOp):
        sides = [one for one in (node.left, node.right) if getattr(one, "value", 0) is not None]
        return annotated(sides[0]) if len(sides) == 1 else (NOTHING, None)
    if not isinstance(node, ast.Subscript):
        return FORM.get(_NAMES.get(name_of(node), ""), NOTHING), None
    name, inner = name_of(node.value), node.slice
    if name in ("Optional", "Final", "ClassVar"):
        return annotated(inner)
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    form = _NAMES.get(name, "")
    if form == "tuple" and not any(_is_ellipsis(one) for one in parts):
        return sized("tuple", len(parts)), None
    return FORM.get(form, NOTHING), parts[-1]


def _is_ellipsis(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def in_words(forms: Forms) -> str:
    """Return forms in words: "a list", "a tuple of 2"."""
    one = min(forms, key=lambda form: (form[-1:].isdigit(), form)) if forms else ""
    if forms == TUPLES:
        return "a tuple"
    word = one.rstrip("0123456789")
    size = f" of {one[len(word) :]}" if word != one else ""
    return f"{'an' if word[:1] == 'o' else 'a'} {word}{size}"


def unpacked(size: int) -> Forms:
    """Return the forms of what is unpacked into so many names."""
    return frozenset([f"tuple{size}", f"list{size}"])


def uses_of(name: str, body: Iterable[ast.AST]) -> Iterator[tuple[Forms, str]]:
    """Yield the forms that what is done with the variable of a loop allows it, and how so."""
    for node in (one for part in body for one in ast.walk(part)):
        match node:
            case ast.Attribute(value=ast.Name(id=used), attr=attribute) if used == name:
                yield having(attribute) | FORM["object"], f"has elements with .{attribute}"
            case ast.Call(func=ast.Name(id=used)) if used == name:
                yield FORM["object"], "has elements that are called"
            case ast.Subscript(value=ast.Name(id=used), slice=index) if used == name:
                by_key = isinstance(index, ast.Constant) and isinstance(index.value, str)
                yield FORM["dict"] if by_key else _PARTS, "has elements with parts"
            case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Name(id=used)):
                if used == name:
                    yield unpacked(len(parts)), f"has elements of {len(parts)} values"
            case (
                ast.Subscript(slice=ast.Name(id=used)) | ast.FormattedValue(value=ast.Name(id=used))
            ):
                if used == name:
                    yield _SINGLE, "has elements of one value"


_PARTS = TUPLES | FORM["list"] | FORM["string"] | FORM["dict"] | FORM["bytes"]
_SINGLE = FORM["string"] | FORM["number"] | FORM["object"]
