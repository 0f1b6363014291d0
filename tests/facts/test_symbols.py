"""The symbols that a patch adds, removes or gives another signature."""

import pytest

from annotator.facts import symbols
from tests.facts.diffs import change, checked, trace

CLASS = "class Parser:"
ADDED = {
    "function": ("+def read(a):\n+    x = 1", "", "function read"),
    "async function": ("+async def read(a):", "", "function read"),
    "method, class shown": (" class Parser:\n+    def read(self):", "", "method Parser.read"),
    "method, class in git's line": ("+    def read(self):", CLASS, "method Parser.read"),
    "method, class unknown": ("+    def read(self):", "", "method read"),
    "inner function": (" def outer():\n+    def inner():", "", "function outer.inner"),
    "class": ("+class Parser(Base):\n+    size = 1", "", "class Parser, attribute Parser.size"),
    "field": (" class Parser:\n+    size: int", "", "attribute Parser.size"),
    "of self": ("+        self.size = 1", CLASS, "attribute Parser.self.size"),
    "known before": ("-        self.size = 1\n+        self.size = 2", CLASS, ""),
    "local": ("+        size = 1", CLASS, ""),
    "local in a function": (" def f():\n+    size = 1", "", ""),
    "variable": ("+SIZE = 1\n+UNIT: str = 'kg'", "", "variable SIZE, variable UNIT"),
    "argument": (" call(\n+    size=1,\n+    unit = 2,\n )", "", ""),
    "comparison": ("+a == b", "", ""),
    "import": ("+import os.path as p, re", "", "import p, import re"),
    "one more import": (" from a import (\n     b,\n+    c,\n )", "", "import c"),
    "import that breaks off": (" from a import (\n     b,\n+    c,", "", "import c"),
    "another source": ("-from a import b\n+from c import b", "", "import b"),
    "in a string": ('+A = """\n+def read(a):\n+"""\n+def write(): ...', "",
                    "variable A, function write"),
    "between two strings": (' text.\n """\n+def read(a):\n+    """\n+    Read.', "",
                            "function read"),
    "behind a string": ('+    text.\n+    """\n+    x = 1\n+def read(): ...', "", "function read"),
    "commented out": ("+# def read():", "", ""),
    "only moved": ("-def read():\n a = 1\n+def read():", "", ""),
    "body changed": (" def read():\n-    return 1\n+    return 2", "", ""),
    "parameter": ("-def read(a):\n+def read(a, b=1, *c):", "",
                  "parameter b of read, parameter *c of read"),
    "parameter on a line": (" def read(\n     a,\n+    b: int = 1,\n ):", "",
                            "parameter b of read"),
    "parameter, head in git's line": ("     a,\n+    b,\n ):\n     x = 1", "def read(",
                                      "parameter b of read"),
    "body, head in git's line": ("     x = 1\n+    y(2)\n", "def read(", ""),
    "no Python": ("+def read(a b):", "", "function read"),
    "overload": ("+@overload\n+def read(a: int): ...\n def read(a):", "", "function read"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "section", "expected"), ADDED.values(), ids=ADDED)
def test_added_in_python(body, section, expected):
    found = checked(trace(change(body, at=9, section=section)), [symbols])
    added = [fact.says for fact in found if fact.kind == "symbol_added"]
    start, end = "agent1's patch adds the ", " in shop/parser.py."
    assert ", ".join(one.removeprefix(start).removesuffix(end) for one in added) == expected


@pytest.mark.parametrize(("body", "section", "expected"), ADDED.values(), ids=ADDED)
def test_what_is_added_is_removed_the_other_way(body, section, expected):
    swapped = body.replace("\n+", "\n!").replace("\n-", "\n+").replace("\n!", "\n-")
    swapped = {"+": "-", "-": "+"}.get(swapped[0], swapped[0]) + swapped[1:]
    found = checked(trace(change(swapped, at=9, section=section)), [symbols])
    removed = [fact for fact in found if fact.kind == "symbol_removed"]
    assert len(removed) == len(expected.split(", ")) * bool(expected)


def test_a_file_in_no_known_language_has_no_symbols():
    assert not checked(trace(change("+def read(a):", "x.txt")), [symbols])
    assert not checked(trace(change("+def read(a):", "py")), [symbols])


SIGNATURES = {
    "parameter": ("-def f(a):\n+def f(a, b):", 1),
    "result": ("-def f(a):\n+def f(a) -> int:", 1),
    "default": ("-def f(a=1):\n+def f(a=2):", 1),
    "written on two lines": ("-def f(a, b):\n+def f(\n+    a, b\n+):", 0),
    "unreadable": ("-def f(a b):\n+def f(a c):", 1),
    "decorator": ("-@x\n def f(a):", 0),
}


@pytest.mark.parametrize(("body", "count"), SIGNATURES.values(), ids=SIGNATURES)
def test_signatures(body, count):
    found = checked(trace(change(body)), [symbols])
    changed = [fact for fact in found if fact.kind == "signature_changed"]
    assert len(changed) == count


def test_a_string_that_begins_the_file():
    found = checked(trace(change('+"""\n+def read(a):\n+"""\n+def write(): ...')), [symbols])
    assert [fact.about["name"] for fact in found] == ["write"]
