"""What two patches give two forms."""

import pytest

from annotator.facts import conflicts
from tests.facts.diffs import change, checked, trace


def told(one, two, kind, path="shop/parser.py", section=""):
    both = trace(change(one, section=section, at=9), change(two, path, section=section, at=9))
    return [fact for fact in checked(both, [conflicts]) if fact.kind == kind]


BOTH = {
    "same": ("+def f(a):\n+    return a", "+def f(a):\n+\n+    return a", True),
    "other body": ("+def f(a):\n+    return a", "+def f(a):\n+    return -a", False),
    "variable": ("+SIZES = [\n+    1,\n+]", "+SIZES = [\n+    2,\n+]", False),
    "import of two things": ("+from a import c", "+from b import c", False),
    "one import": ("+import re", "+import re", None),
    "method and function": ("+def f(a):", "+class A:\n+    def f(self):", None),
    "other names": ("+def f(a):", "+def g(a):", None),
}


@pytest.mark.parametrize(("one", "two", "same"), BOTH.values(), ids=BOTH)
def test_added_by_both(one, two, same):
    found = told(one, two, "symbol_added_by_both")
    assert [fact.about["same"] for fact in found] == ([] if same is None else [same])
    for fact in found:
        assert fact.agents == ("agent1", "agent2")
        assert [span.source for span in fact.spans] == ["patch:agent1", "patch:agent2"]


def test_a_function_may_be_added_in_two_files_but_not_a_variable():
    (fact,) = told("+def f(a):", "+def f(b):", "symbol_added_by_both", "b.py")
    assert fact.about["paths"] == ["shop/parser.py", "b.py"]
    assert not told("+A = 1", "+A = 1", "symbol_added_by_both", "b.py")
    assert not told("+def f(a):", "+def f(b):", "symbol_added_by_both", "b.go")


SIGNATURES = {
    "differently": ("-def f(a):\n+def f(a, b):", "-def f(a):\n+def f(a, c):", False),
    "alike": ("-def f(a):\n+def f(a, b):", "-def f(a):\n+def f(\n+    a, b):", True),
    "alike, a part shown": (" def f(\n     a,\n+    b,\n ):", "     a,\n+    b,\n ):", None),
    "one only": ("-def f(a):\n+def f(a, b):", " def f(a):\n+    pass", None),
}


@pytest.mark.parametrize(("one", "two", "same"), SIGNATURES.values(), ids=SIGNATURES)
def test_signature_changed_by_both(one, two, same):
    found = told(one, two, "signature_changed_by_both")
    assert [fact.about["same"] for fact in found] == ([] if same is None else [same])


def test_a_signature_of_which_a_part_is_shown_can_be_the_same():
    one, two = "     a,\n+    b,\n ):", "     z,\n     a,\n+    b,\n ):"
    (fact,) = told(one, two, "signature_changed_by_both", section="def f(")
    assert fact.about["same"]


SHAPES = {
    "attribute": ("+        self.x = []", "+        self.x = {}", "list", "dict"),
    "annotated": ("+    x: list[str] = field()", "+    x: Dict[str, int]", "list", "dict"),
    "calls": ("+        self.x = set()", "+        self.x = defaultdict(list)", "set", "dict"),
    "display": ("+        self.x = {1, 2}", "+        self.x = {'a': 2}", "set", "dict"),
    "result": ("     def f(self):\n+        return []", "     def f(self):\n+        return {}",
               "list", "dict"),
    "announced result": ("+    def f(self) -> list[int]:", "+    def f(self) -> dict:",
                         "list", "dict"),
    "optional": ("+    x: Optional[List[int]]", "+    x: dict | None", "list", "dict"),
    "scalar": ("+    x: str", "+    x: list[str]", "str", "list"),
    "parameter": ("-    def f(self):\n+    def f(self, x: list):",
                  "-    def f(self):\n+    def f(self, x: dict):", "list", "dict"),
    "the same": ("+        self.x = []", "+        self.x = [1]", None, None),
    "both shapes": ("+        self.x = []\n+        self.x = {}", "+        self.x = {}",
                    None, None),
    "computed": ("+        self.x = [1][0]", "+        self.x = {}", None, None),
    "a sum": ("+        self.x = [1] + a", "+        self.x = {}", None, None),
    "item of a dict": ("+        self.x = dict(a).keys()", "+        self.x = []", None, None),
    "union": ("+    x: list | dict", "+    x: str", None, None),
}  # fmt: skip


@pytest.mark.parametrize(("one", "two", "left", "right"), SHAPES.values(), ids=SHAPES)
def test_representation(one, two, left, right):
    found = told(one, two, "representation_conflict", section="class A:")
    assert [fact.about["shapes"] for fact in found] == ([[[left], [right]]] if left else [])


CLASSES = {
    "dataclass to plain": (
        "-@dataclass\n class A:\n     x: int",
        " class A:\n     x: int\n+    y: int",
        ("a dataclass", "a plain class", "changes"),
    ),
    "by name": (
        "-class A:\n+class A(NamedTuple):",
        "+def f():\n+    return A(1)",
        ("a plain class", "a named tuple", "uses"),
    ),
    "bases": (
        "-class A(B):\n+class A(C):",
        "+a = A()",
        ("a subclass of B", "a subclass of C", "uses"),
    ),
    "the same kind": ("-class A:\n+class A():", "+a = A()", None),
    "of no use": ("-@dataclass\n class A:", "+a = AA()", None),
}


@pytest.mark.parametrize(("one", "two", "expected"), CLASSES.values(), ids=CLASSES)
def test_class_shape(one, two, expected):
    found = told(one, two, "class_shape_changed")
    if expected is None:
        assert found == []
        return
    before, after, use = expected
    assert found[0].says == (
        f"agent1's patch makes the class A in shop/parser.py {after} instead of {before}, "
        f"and agent2's patch {use} it."
    )
    assert found[0].agents == ("agent1", "agent2")
    (other_way,) = told(two, one, "class_shape_changed")
    assert other_way.agents == ("agent2", "agent1")


NAMES = {
    "two names": ("unit", "units", ["self.unit", "self.units"]),
    "one name": ("unit", "unit", None),
}


@pytest.mark.parametrize(("left", "right", "names"), NAMES.values(), ids=NAMES)
def test_one_value_under_two_names(left, right, names):
    body = "         pass\n+        self.{} = unit"
    found = told(
        body.format(left), body.format(right), "attribute_names_differ", section="class A:"
    )
    assert [fact.about["names"] for fact in found] == ([] if names is None else [names])


@pytest.mark.parametrize("value", ["[]", "None", "'m'", "3", "read(unit)"])
def test_a_value_that_names_nothing_is_no_role(value):
    body = f"         pass\n+        self.{{}} = {value}"
    assert not told(
        body.format("unit"), body.format("level"), "attribute_names_differ", section="class A:"
    )


def test_both_names_on_one_side_are_two_roles():
    one = "         pass\n+        self.unit = unit\n+        self.units = unit"
    two = "         pass\n+        self.units = unit"
    assert not told(one, two, "attribute_names_differ", section="class A:")
