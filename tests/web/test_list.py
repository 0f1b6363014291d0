"""The list of annotations in the page: filters, counts, neighbours, search."""

import pytest

ROWS = [
    {"trace_id": "t1", "status": "labelled", "primary": "alpha", "agreement": "agrees"},
    {"trace_id": "t2", "status": "labelled", "primary": "beta", "secondary": ["alpha"]},
    {"trace_id": "t3", "status": "none", "agreement": "agrees", "rejected": 1, "text": "Straße"},
    {"trace_id": "t4", "status": "undecided", "text": "at 100% of it"},
    {"trace_id": "t3", "status": "labelled", "primary": "alpha", "run": 1, "agreement": "differs"},
    {"trace_id": "t5", "status": "failed", "run": 1, "text": "UN ÉTÉ", "why": "overloaded"},
]
VALUES = [
    {"passed": "false", "merge": "clean"},
    {"passed": "false", "merge": "conflicts"},
    {"passed": "true", "constructor": "x"},
    {},
    {"passed": "true"},
    {"passed": "false", "seconds": "1.5"},
]
BLANK = {"run": 0, "rubric": "faults", "primary": None, "secondary": [], "rejected": 0, "text": ""}
BLANK["findings"] = []
LIST = """
  const list = (rows, load) => new annotator.List(rows, load);
  const filter = ({ attributes = [], ...rest }) => ({ ...rest, attributes: new Map(attributes) });
"""


@pytest.fixture
def run_script(report, visit):
    """Run a script in a page of runs with these values."""
    page = visit(report)
    return lambda script, *values: page.evaluate(f"async (values) => {{ {LIST} {script} }}", values)


@pytest.fixture
def rows():
    whole = enumerate(zip(ROWS, VALUES, strict=True), 1)
    return [{**BLANK, "agreement": None, **row, "number": n, "values": v} for n, (row, v) in whole]


def test_filters(run_script, rows):
    cases = [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"run": "1"}, [5, 6]),
        ({"rubric": "others"}, []),
        ({"status": "labelled"}, [1, 2, 5]),
        ({"code": "alpha"}, [1, 2, 5]),
        ({"code": "none"}, [3]),
        ({"primary": "alpha"}, [1, 5]),
        ({"text": "t4"}, [4]),
        ({"rejected": "true"}, [3]),
        ({"agreement": "agrees", "code": "alpha"}, [1]),
        ({"attributes": [["passed", "false"]]}, [1, 2, 6]),
        ({"attributes": [["passed", "false"], ["merge", "clean"]]}, [1]),
        ({"attributes": [["seconds", "1.5"]]}, [6]),
        ({"attributes": [["constructor", "x"]]}, [3]),
        ({"attributes": [["no such", "x"]]}, []),
        ({"attributes": [["merge", "-"]]}, [3, 4, 5, 6]),  # "-" as in a table: without it
        ({"text": "overloaded"}, [6]),
        ({"text": "straße"}, [3]),
        ({"text": "100%"}, [4]),
        ({"text": "été", "run": "1"}, [6]),
        ({"text": ""}, [1, 2, 3, 4, 5, 6]),
    ]
    script = """
      const [rows, filters] = values;
      return filters.map((one) => list(rows).rows(filter(one)).map((row) => row.number));
    """
    found = run_script(script, rows, [asked for asked, _ in cases])
    assert found == [numbers for _, numbers in cases]


def test_each_part_is_counted_under_the_others(run_script, rows):
    asked = {"code": "alpha", "attributes": [["passed", "false"]]}
    found = run_script("return list(values[0]).facets(filter(values[1]))", rows, asked)
    assert found["code"] == [["alpha", 2], ["beta", 1]]  # of the three that did not pass
    assert found["attributes"]["passed"] == [["false", 2], ["true", 1]]  # of the three with alpha
    assert found["attributes"]["merge"] == [["clean", 1], ["conflicts", 1]]
    assert found["status"] == [["labelled", 2]]
    assert found["agreement"] == [["agrees", 1]]
    assert found["rejected"] == [["false", 2]]
    many = [{**rows[0], "values": {"seed": str(n)}} for n in range(201)]
    found = run_script("return list(values[0]).facets(filter({}))", many)
    assert (found["attributes"], found["omitted"]) == ({}, [["seed", 201]])


def test_neighbours_are_other_traces(run_script, rows):
    cases = {1: (None, 2, 1), 3: (2, 4, 3), 5: (4, 6, 5), 6: (5, None, 6)}
    for number, expected in cases.items():
        near = run_script(f"return list(values[0]).neighbours({number}, filter({{}}))", rows)
        ends = [one and one["number"] for one in (near["previous"], near["next"])]
        assert (*ends, near["position"]) == expected
    near = "return list(values[0]).neighbours(3, filter({ code: 'alpha' }))"
    assert run_script(near, rows) is None


SEARCH = """
  const [texts, query] = values;
  const traces = texts.map((text, n) => ({
    id: `t${n}`, format: text === null ? "unreadable" : "x",
    messages: text === null ? [] : [{ n: 1, text }], patches: [], outcome: { text: "" },
  }));
  const rows = traces.map((trace) => ({ trace_id: trace.id, values: {} }));
  const all = list(rows, async (id) => ({ trace: traces.find((trace) => trace.id === id) }));
  const hits = [];
  let found = { cursor: null };
  do {
    found = await all.search(query, found.cursor);
    hits.push(...found.hits);
  } while (found.cursor !== null);
  return { ...found, hits };
"""


def test_search_finds_each_passage_at_its_place(run_script):
    cases = [
        ("hello", "Hello, hello and HELLO", ["Hello", "hello", "HELLO"]),
        ("ß", "Straße und STRASSE", ["ß"]),
        ("e", "😀é😀 e", ["e"]),
        ("été", "L'ÉTÉ", ["ÉTÉ"]),
        ("a.c", "abc a.c", ["a.c"]),
        ("[", "a[0]", ["["]),
        ("aa", "aaaa", ["aa", "aa"]),
        ("two\nlines", "here are two\nlines", ["two\nlines"]),
        ("nothing", "something", []),
    ]
    for query, text, expected in cases:
        hits = run_script(SEARCH, [text], query)["hits"]
        assert [text[one["start"] : one["end"]] for one in hits] == expected
        assert [one["excerpt"][slice(*one["match"])] for one in hits] == expected


def test_going_on_finds_every_passage_once(run_script):
    found = run_script(SEARCH, ["x " * 60, None, "y", "x " * 70], "X")
    places = [(one["trace_id"], one["start"]) for one in found["hits"]]
    assert places == [(name, 2 * n) for name, many in (("t0", 60), ("t3", 70)) for n in range(many)]
    assert (found["searched"], found["unread"]) == (3, 1)
