"""Pairs of patches written by hand, and the conflicts of representation a reader finds in them.

Each text shows both patches over one base, a line's first character telling whose it is:

    " "  a line of the base        "<"  ours adds it       ">"  theirs adds it    "="  both add it
    "-"  both remove it            "("  ours removes it    ")"  theirs removes it

A line ``+++ name`` begins another file, ``# title`` a pair, and ``! kind scope name`` names a
conflict in it (no scope as ``-``). ``HELD_OUT`` was written with ``PAIRS``, before there was a
detector, and was scored once when that was done; what is changed since is tested on both.
``STUBS`` and ``STUBS_HELD_OUT`` came the same way before the detector read stubs. ``FAMILIES`` came
with the rules that they show.
"""

import difflib
import re
from typing import NamedTuple

Expected = frozenset[tuple[str, str, str]]  # kind, scope and name of a conflict
_SECTION = re.compile(r"[A-Za-z_$]")  # what git shows behind @@ by default: the last such line
_RANGE = re.compile(r"@@ -(\d+)")


class Pair(NamedTuple):
    """Two patches over one base, and what is to be found in them."""

    title: str
    text: str
    expected: Expected = frozenset()

    @property
    def ours(self) -> str:
        return "".join(_diff(path, lines, "<=", "(-") for path, lines in _files(self.text))

    @property
    def theirs(self) -> str:
        return "".join(_diff(path, lines, ">=", ")-") for path, lines in _files(self.text))


def _files(text: str) -> list[tuple[str, list[str]]]:
    files: list[tuple[str, list[str]]] = [("app/core.py", [])]
    for line in text.strip("\n").split("\n"):
        if line.startswith("+++ "):
            files.append((line[4:], []))
        else:
            files[-1][1].append(line or " ")
    return [(path, lines) for path, lines in files if lines]


def _diff(path: str, lines: list[str], adds: str, removes: str) -> str:
    """Return the diff of one side as git writes it, three lines of context around each change."""
    old = [line[1:] for line in lines if line[0] in " (-)"]
    new = [
        line[1:]
        for line in lines
        if line[0] in adds or (line[0] in " (-)" and line[0] not in removes)
    ]
    first = f"a/{path}" if old else "/dev/null"
    shown = []
    for line in difflib.unified_diff(old, new, first, f"b/{path}", lineterm=""):
        if match := _RANGE.match(line):
            above = [one for one in old[: max(int(match[1]) - 1, 0)] if _SECTION.match(one)]
            line += f" {above[-1][:80]}" if above else ""
        shown.append(line + "\n")
    return "".join(shown)


def _pairs(text: str) -> list[Pair]:
    pairs = []
    for one in re.split(r"^# ", text, flags=re.MULTILINE)[1:]:
        title, *lines = one.rstrip("\n").split("\n")
        expected = [line[2:].split(" ", 2) for line in lines if line.startswith("! ")]
        found = frozenset((kind, scope.replace("-", ""), name) for kind, scope, name in expected)
        text = "\n".join(line for line in lines if not line.startswith("! "))
        pairs.append(Pair(title, text, found))
    return pairs


PAIRS = _pairs('''
# a cache's entries: a list, a dict
! shape Cache entries
 class Cache:
     def __init__(self, limit):
         self.limit = limit
<        self.entries = []
>        self.entries = {}

     def clear(self):
         self.limit = 0
# annotated without a value against a set
! shape Watcher seen
 from typing import Optional

 class Watcher:
     def __init__(self, root):
         self.root = root
<        self.seen: Optional[dict[str, float]] = None
>        self.seen = set()

     def poll(self):
         return self.root
# told by use: appended to, and assigned by key
! shape Inventory stock
 class Inventory:
     def __init__(self, rows):
<        self.stock = rows
>        self.stock = rows
         self.name = "main"

     def put(self, item, amount):
         check(item)
<        self.stock.append(item)
>        self.stock[item.code] = amount
# the class stands in the section only, and one side changes the base
! shape Spider queue
 class Spider(Base):
     """Walks over pages."""

     depth = 3
     delay = 0.5
     agent = "spider"

     def setup(self):
         self.open()
(        self.queue = []
<        self.queue = {}
         self.closed = False

     def open(self):
         connect(self.agent)
         wait(self.delay)
         self.ready = True
         log.info("open")
         return self

     def follow(self, link):
         if link.external:
             return
>        self.queue.append(link)
         log.debug(link)
# a set told by add, a list by its literal
! shape Graph visited
 class Graph:
     def __init__(self):
         self.nodes = {}
<        self.visited = set()
>        self.visited = [self.nodes]

     def walk(self, node):
         yield node
<        self.visited.add(node)
# a field of a dataclass by its default factory
! shape Order lines
 from dataclasses import dataclass, field

 @dataclass
 class Order:
     number: int
     customer: str
<    lines: list = field(default_factory=list)
>    lines: dict = field(default_factory=dict)
     paid: bool = False
# a string against a number
! shape Client timeout
 class Client:
     def __init__(self, host):
         self.host = host
<        self.timeout = 30
>        self.timeout = "30s"
         self.connect()
# a table of the module
! shape - HANDLERS
 import re

 WORD = re.compile("[a-z]+")
<HANDLERS = {}
>HANDLERS = []

 def dispatch(name):
     return name
# one shape written in two ways
 class Cache:
     def __init__(self, limit):
         self.limit = limit
<        self.entries = dict()
<        self.order = []
>        self.entries: dict[str, int] = {}
>        self.order = list()

     def clear(self):
         self.limit = 0
# None at first, and annotations of one meaning
 from typing import Dict, Optional

 class Session:
     def __init__(self):
         self.user = None
<        self.headers: Optional[Dict[str, str]] = None
>        self.headers: dict[str, str] | None = {}

     def close(self):
         self.user = None
# computed values of unknown shape
 class Report:
     def __init__(self, source):
         self.source = source
<        self.rows = source.read()
>        self.rows = load_rows(source)
         self.title = ""

     def show(self):
<        self.rows.sort()
>        return len(self.rows)
         return self.title
# different attributes and methods at one place
 class Parser:
     def __init__(self, text):
         self.text = text
<        self.errors = []
>        self.names = []
         self.at = 0

     def parse(self):
         return self.text
<
<    def error(self, message):
<        self.errors.append(message)
>
>    def name(self):
>        self.names.append(self.at)
# a record of the base gets different keys
 class Job:
     def __init__(self, task):
         self.task = task
         self.meta = {}
<        self.meta["retries"] = 3
>        self.meta["owner"] = "nobody"

     def run(self):
         self.task()
# a base object whose methods look like those of containers
 class Store:
     def __init__(self, session):
         self.session = session
         self.open = True

     def save(self, row):
         check(row)
<        self.session.add(row)
         return row

     def load(self, key):
         check(key)
>        return self.session.get(key)
# two classes with one attribute name
 class Reader:
     def __init__(self, path):
         self.path = path
<        self.buffer = []

     def close(self):
         self.path = None

 class Writer:
     def __init__(self, path):
         self.path = path
>        self.buffer = b""

     def close(self):
         self.path = None
# test files do not count
+++ tests/test_store.py
 class FakeStore:
     def __init__(self):
         self.open = True
<        self.rows = []
>        self.rows = {}
# empty containers filled by the same method
! names Bus _handlers / callbacks
 class Bus:
     def __init__(self):
         self.open = True
<        self._handlers = []
>        self.callbacks = []

     def close(self):
         self.open = False
<
<    def register(self, handler):
<        self._handlers.append(handler)
>
>    def register(self, callback):
>        self.callbacks.append(callback)
# one parameter of the constructor kept under two names
! names Pool _max_size / limit
 class Pool:
(    def __init__(self, factory):
)    def __init__(self, factory):
<    def __init__(self, factory, max_size=10):
>    def __init__(self, factory, max_size=4):
         self.factory = factory
<        self.limit = max_size
>        self._max_size = max_size
         self.idle = []
# the same property reads two attributes
! names Player _points / total
 class Player:
     def __init__(self, name):
         self.name = name
<        self._points = 0
>        self.total = 0

     def rename(self, name):
         self.name = name
<
<    @property
<    def score(self):
<        return self._points
>
>    @property
>    def score(self):
>        return self.total
# looked up by the same method
! names Registry _by_name / plugins
 class Registry:
     """Plugins by name."""

<    def __init__(self):
<        self.plugins = {}
<
<    def find(self, name):
<        return self.plugins[name]
>    def __init__(self):
>        self._by_name = {}
>
>    def find(self, name):
>        return self._by_name.get(name)
# two roles that get one value
 class Box:
     def __init__(self, size):
         self.size = size
<        self.width = size
>        self.height = size

     def area(self):
         return self.size
# two features hook into one method of the base
 class Server:
     def __init__(self, app):
         self.app = app
<        self.log = []
>        self.times = []

     def handle(self, request):
         answer = self.app(request)
<        self.log.append(request)
>        self.times.append(request)
         return answer
# both reset what is their own
 class Game:
     def __init__(self, board):
         self.board = board
<        self.moves = 0
>        self.clock = 0

     def draw(self):
         self.board.draw()
=
=    def reset(self):
<        self.moves = 0
>        self.clock = 0
# a method that both add, with other required parameters
! signature Files read
 class Files:
     root = "."

     def close(self):
         self.root = None
<
<    def read(self, path):
<        return open(path).read()
>
>    def read(self, path, mode):
>        return open(path, mode).read()
# a function that both add, with another order
! signature - copy_tree
 import shutil

<def copy_tree(source, target, follow=False):
<    shutil.copytree(source, target, symlinks=not follow)
>def copy_tree(target, source):
>    shutil.copytree(source, target)
# called with the old number of arguments in new lines
! signature Mailer send
 class Mailer:
     def __init__(self, host):
         self.host = host

(    def send(self, message):
<    def send(self, message, sender):
         connect(self.host)
         deliver(message)
         self.count = 1
         self.last = message
         return True

     def flush(self):
         self.last = None
>        self.send("flushed")
# called from another file by a keyword that was renamed
! signature - load
 def render(template, context=None):
     return template

(def load(name, encoding="utf-8"):
<def load(name, charset="utf-8"):
     return open(name)
+++ app/cli.py
 from app.core import load

 def show(name):
>    print(load(name, encoding="latin-1"))
     return 0
# a keyword in a call of a function that both add
! signature Queue push
 class Queue:
     size = 0
<
<    def push(self, item, priority=0):
<        self.size += priority
<
<    def fill(self):
<        self.push(1, priority=2)
>
>    def push(self, item, urgent=False):
>        self.size += 1
# the same signature, once annotated
 class Files:
     root = "."

     def close(self):
         self.root = None
<
<    def read(self, path, mode="r"):
<        return open(path, mode).read()
>
>    def read(self, path: str, mode: str = "r") -> str:
>        with open(path, mode) as file:
>            return file.read()
# each adds an optional parameter to a function of the base, and passes it
(def fetch(url):
)def fetch(url):
<def fetch(url, timeout=10):
>def fetch(url, retries=3):
     check(url)
     return get(url)

 def page(number):
     check(number)
(    return fetch(BASE + number)
)    return fetch(BASE + number)
<    return fetch(BASE + number, timeout=5)
>    return fetch(BASE + number, retries=1)
# new calls that still fit
 class Mailer:
     def __init__(self, host):
         self.host = host

(    def send(self, message):
<    def send(self, message, *, sender=None, **headers):
         connect(self.host)
         deliver(message)
         self.count = 1
         self.last = message
         return True

     def flush(self):
         self.last = None
>        self.send("flushed")
>        self.send(*self.waiting)
# tuples against dicts in one list
! element History events
 class History:
     def __init__(self):
         self.open = True
=        self.events = []

     def close(self):
         self.open = False
<
<    def record(self, kind, value):
<        self.events.append((kind, value))
>
>    def record(self, kind, value):
>        self.events.append({"kind": kind, "value": value})
# pairs go in, and single values are expected
! element Scheduler jobs
 class Scheduler:
     def __init__(self):
         self.running = False
=        self.jobs = []

     def start(self):
         self.running = True
<
<    def every(self, seconds, job):
<        self.jobs.append((seconds, job))
>
>    def run_all(self):
>        for job in self.jobs:
>            job()
# a list is returned, and pairs of a dict are expected
! result Index counts
 class Index:
     def __init__(self, words):
         self.words = words
<
<    def counts(self):
<        found = []
<        for word in self.words:
<            found.append(word)
<        return found

     def show(self):
         print(self.words)
>        for word, number in self.counts().items():
>            print(word, number)
# both define a function, one returns a pair
! result - split_name
 import re

<def split_name(name):
<    first, _, last = name.partition(" ")
<    return first, last
>def split_name(name):
>    first, _, last = name.partition(" ")
>    return {"first": first, "last": last}
# a dataclass against a plain class
! class - Point
 import math
 from dataclasses import dataclass

<@dataclass
<class Point:
<    x: float
<    y: float
>class Point:
>    def __init__(self, coordinates):
>        self.coordinates = coordinates
# values, elements and results of one shape
 class Index:
     def __init__(self):
         self.open = True
=        self.pairs = []
=        self.by_name = {}
<
<    def add(self, name, number):
<        self.pairs.append((name, number))
<        self.by_name[name] = [number]
<        return True
>
>    def add(self, name, number):
>        pair = (name, number)
>        self.pairs.append(pair)
>        self.by_name[name] = [x for x in pair]
>        return False
>
>    def show(self):
>        for name, number in self.pairs:
>            print(name, number)
>        for pair in sorted(self.pairs):
>            print(pair[0], pair[1])
# branches of a function of the base return different things
 def encode(value):
     if value is None:
         return "null"
<    if isinstance(value, set):
<        return sorted(value)
>    if isinstance(value, tuple):
>        return {"tuple": list(value)}
     return str(value)
# subclasses of one new class, and comments
 class Shape:
     sides = 0
<
<# A list of corners: self.corners = []
<class Square(Shape):
<    """Keeps self.corners = {} in mind."""
<    sides = 4
>
>class Circle(Shape):
>    def __init__(self, radius):
>        self.radius = radius
# the same method of another object
 class Mailer:
     def __init__(self, host):
         self.host = host

(    def send(self, message):
<    def send(self, message, sender):
         deliver(message)
         self.count = 1
         self.last = message
         return True

     def flush(self):
         self.last = None
>        self.socket.send("flushed")
# local variables of one name
 def report(rows):
     check(rows)
<    found = []
<    found.append(rows)
>    found = {}
>    found["rows"] = rows
     return 0
# the same class on both sides, one with more methods
 import re

=class Token:
=    def __init__(self, kind, text):
=        self.kind = kind
=        self.text = text
<
<    def short(self):
<        return self.text[:10]
# numbers and switches, once annotated
 class Lamp:
     def __init__(self, room):
         self.room = room
<        self.level = 0
<        self.on = False
>        self.level: float = 1.5
>        self.on: bool = True
         self.color = None
# hunks that begin and end within a docstring and a call
 class Parser:
     def parse(self, text):
         """Parse it.

         One:
             self.items = []
         Two:
             self.items = {}
         """
<        self.items = list(text)
>        self.items = [x for x in text]
         return combine(
             self.items,
             text,
             sep=",",
         )
''')

HELD_OUT = _pairs('''
# a deck: a deque used from both ends, and a dict
! shape Deck pile
 from collections import deque

 class Deck:
     def __init__(self, cards):
         shuffle(cards)
<        self.pile = deque(cards)
>        self.pile = {card.name: card for card in cards}
         self.trump = None
# a new file on both sides: settings as text and as a table
! shape Settings paths
+++ app/settings.py
<class Settings:
<    def __init__(self):
<        self.paths = "a:b"
<
<    def add(self, path):
<        self.paths += ":" + path
>class Settings:
>    def __init__(self):
>        self.paths = []
>
>    def add(self, path):
>        self.paths.append(path)
# a class attribute against key assignment in a partial hunk
! shape Router routes
 class Router(Base):
     """Finds the view of a path."""

     prefix = "/"
<    routes: list[str] = []

     def setup(self):
         self.strict = True
         self.host = "localhost"
         self.port = 80
         self.debug = False
         self.reload = False

     def route(self, path, view):
         if self.strict:
             check(path)
>        self.routes[path] = view
         return view
# weights of a recommender under two names
! names Ranker _feature_weights / weights
 class Ranker:
     def __init__(self, model):
         self.model = model

     def rank(self, items):
         return sorted(items)
<
<    def set_weight(self, feature, weight):
<        self.weights[feature] = weight
>
>    def set_weight(self, feature, value):
>        self._feature_weights[feature] = value
# walked over by the same new method
! names Form _checks / validators
 class Form:
     def __init__(self, fields):
         self.fields = fields
<        self.validators = default_validators()
>        self._checks = default_validators()

     def show(self):
         return self.fields
<
<    def is_valid(self, data):
<        return all(check(data) for check in self.validators)
>
>    def is_valid(self, data):
>        for check in self._checks:
>            if not check(data):
>                return False
>        return True
# a required keyword that the other side's call lacks
! signature Plot axis
 class Plot:
     def draw(self, data):
         self.data = data

(    def axis(self, name):
<    def axis(self, name, *, scale):
         self.axes[name] = 1
         self.changed = True
         self.dirty = True
         self.legend = None
         return self

     def default(self):
         self.data = []
>        self.axis("x")
>        return self.axis("y")
# the constructor of a class that both add
! signature Token __init__
 import json

<class Token:
<    def __init__(self, kind, text, line):
<        self.kind = kind
<        self.text = text
<        self.line = line
>class Token:
>    def __init__(self, kind, text):
>        self.kind = kind
>        self.text = text
# fields of a dataclass by two names
! class - Place
 from dataclasses import dataclass

=@dataclass
=class Place:
<    latitude: float
<    longitude: float
>    lat: float
>    lon: float
# a pair is unpacked from what returns a dict
! result Loader limits
 class Loader:
     def __init__(self, path):
         self.path = path

     def check(self):
         return bool(self.path)
<
<    def limits(self) -> dict[str, int]:
<        return read_limits(self.path)

     def show(self):
         print(self.path)
>        low, high = self.limits()
>        print(low, high)
# values of a dict: lists against numbers
! element Ledger accounts
 class Ledger:
     def __init__(self, owner):
         self.owner = owner
=        self.accounts = {}

     def close(self):
         self.owner = None
<
<    def book(self, account, amount):
<        self.accounts.setdefault(account, []).append(amount)
>
>    def balance(self, account):
>        self.accounts[account] = 0
>        return self.accounts[account]
# each keeps its own option
 class Crawler:
(    def __init__(self, start):
)    def __init__(self, start):
<    def __init__(self, start, depth=3):
>    def __init__(self, start, delay=1.0):
         self.start = start
<        self.depth = depth
>        self.delay = delay
         self.pages = []
# a deque where the other appends, a counter where the other assigns
 from collections import Counter, deque

 class Meter:
     def __init__(self, name):
         self.name = name
<        self.window = deque(maxlen=10)
<        self.counts = Counter()
>        self.window = None

     def tick(self, value):
         check(value)
>        self.window.append(value)
>        self.counts[value] = 1
# the same method in two classes that each side adds
 class Base:
     name = ""
<
<class Json(Base):
<    def dump(self, data, indent):
<        return [indent]
>
>class Yaml(Base):
>    def dump(self, data):
>        return {}
# early results and None
 class Finder:
     def __init__(self, root):
         self.root = root
<
<    def find(self, name):
<        if not name:
<            return None
<        return [x for x in self.root if x == name]
>
>    def find(self, name):
>        found = []
>        for x in self.root:
>            if x == name:
>                found.append(x)
>        return found or None
# a slot of a list by its number
 class Board:
     def __init__(self, size):
         self.size = size
<        self.cells = [None] * size
>        self.cells = []

     def put(self, index, piece):
         check(piece)
<        self.cells[index] = piece
>        self.cells.append(piece)
# a multi-line signature with other optional parameters, cut at the end of the hunk
 class Chart:
     def draw(
         self,
         data,
<        title="",
>        legend=True,
         width=80,
     ):
         """Draw it.

         Keys: self.data = []
         """
         self.data = data
# a set and a frozenset, text with and without a format
 class Filter:
     def __init__(self, words):
         self.words = words
<        self.stop = frozenset(words)
<        self.label = f"filter of {words}"
>        self.stop = {"the", "a"}
>        self.label = "filter"

     def run(self):
         return self.words
# code of another language
+++ web/cache.js
 class Cache {
   constructor() {
<    self.entries = []
>    self.entries = {}
   }
 }
# both walk over what the base has
 class Table:
     def __init__(self, rows):
         self.rows = rows

     def show(self):
         check(self.rows)
<        for key, value in self.rows:
<            print(key, value)

     def names(self):
         check(self.rows)
>        for row in self.rows:
>            print(f"{row}")
# a property with a setter on both sides
 class Tank:
     level = 0
<
<    @property
<    def volume(self):
<        return self.level * 2
<
<    @volume.setter
<    def volume(self, value):
<        self.level = value / 2
>
>    @property
>    def volume(self):
>        return 2 * self.level
''')

# A class with its signatures is given; both fill in bodies.
STUBS = _pairs('''
# the constructor's list is read by name in a stub
! shape Inventory _stock
 class Inventory:
     def __init__(self):
(        raise NotImplementedError
<        self._stock = []

     def add(self, name: str, count: int):
(        raise NotImplementedError
<        self._stock.append((name, count))

     def count(self, name: str) -> int:
)        raise NotImplementedError
>        return self._stock[name]
# tuples go in, a comprehension reads attributes
! element Cart _lines
 class Cart:
     def __init__(self):
-        pass
=        self._lines = []

     def add(self, name, price):
(        pass
<        self._lines.append((name, price))

     def total(self):
)        pass
>        return sum(line.price for line in self._lines if line.price > 0)
# an underscore more
! names Board _tasks / tasks
 class Board:
     def __init__(self):
-        ...
<        self._tasks = {}
>        self.tasks = {}

     def add(self, task):
(        ...
<        self._tasks[task.id] = task

     def open(self):
)        ...
>        return [task for task in self.tasks.values() if not task.done]
# read here and never filled, filled there under another name
! names Journal _entries / records
 class Journal:
     def __init__(self):
         """Start an empty journal."""
<        self._entries = []
>        self.records = []

     def write(self, text):
         """Keep a text."""
<        self._entries.append(text)

     def search(self, word):
         """Find texts."""
>        return [text for text in self.records if word in text]
# a stub returns a dict, the other's stub wants an object
! result Directory find
 class Directory:
     def __init__(self, rows):
         self.rows = rows

     def find(self, name):
(        raise NotImplementedError("find")
<        for row in self.rows:
<            if row[0] == name:
<                return {"name": row[0], "mail": row[1]}
<        return None

     def mail(self, name):
)        raise NotImplementedError("mail")
>        person = self.find(name)
>        return person.mail if person else ""
# each requires another parameter of a function of the base
! signature Mailer send
 class Mailer:
     host = ""

-    def send(self, message):
<    def send(self, message, sender):
>    def send(self, message, receiver):
         connect(self.host)
         return message
# a dict with another key
! element Order items
 class Order:
     def __init__(self):
-        pass
=        self.items = []

     def add(self, name, amount):
(        pass
<        self.items.append({"name": name, "amount": amount})

     def weight(self):
)        pass
>        return sum(item["qty"] * weigh(item["name"]) for item in self.items)
# lists by their hint, single events over items()
! element Calendar _days
 class Calendar:
     def __init__(self):
(        pass
<        self._days: dict[str, list[str]] = {}

     def add(self, day: str, event: str) -> None:
(        pass
<        self._days.setdefault(day, []).append(event)

     def show(self) -> None:
)        pass
>        for day, event in sorted(self._days.items()):
>            print(day, event.title)
# pairs go in and come out
 class Cart:
     def __init__(self):
-        pass
<        self._lines: list[tuple[str, float]] = []
>        self._lines = []

     def add(self, name, price):
(        pass
<        line = (name, price)
<        self._lines.append(line)

     def total(self):
)        pass
>        best = max(self._lines, key=lambda line: line[1])
>        return sum(price for _, price in self._lines) - best[1]
# each fills and reads a list that no method of the other's needs
 class Server:
     def __init__(self):
-        raise NotImplementedError
<        self._handlers = []
>        self._log = []

     def subscribe(self, handler):
(        raise NotImplementedError
<        self._handlers.append(handler)

     def publish(self, event):
(        raise NotImplementedError
<        return [handler(event) for handler in self._handlers]

     def note(self, line):
)        raise NotImplementedError
>        self._log.append(line)

     def report(self):
)        raise NotImplementedError
>        return [line for line in self._log if line]
# a property gives what has an underscore
 class Playlist:
     def __init__(self):
(        pass
<        self._songs = []

     @property
     def songs(self):
(        ...
<        return list(self._songs)

     def add(self, song):
(        ...
<        self._songs.append(song)

     def length(self):
)        ...
>        return sum(song.seconds for song in self.songs)
# variables of one name that stand for different things
 class Report:
     def __init__(self, rows):
-        pass
=        self.rows = rows
<        self.names = {}
>        self.notes = []

     def fill(self):
(        pass
<        self.names = {row.name: row for row in self.rows}
<        return [row["x"] for row in load()]

     def note(self, text):
)        pass
>        self.notes.append((text, len(text)))
>        return [row.id for row in self.rows] + [row for row, _ in self.notes]
# the keys of a dict, and its values by them
 class Inventory:
     def __init__(self):
(        raise NotImplementedError
<        self._stock: dict[str, Item] = {}

     def add(self, item):
(        raise NotImplementedError
<        self._stock[item.name] = item

     def worth(self):
)        raise NotImplementedError
>        names = [name.upper() for name in self._stock]
>        return names, sum(self._stock[name].price for name in self._stock)
# both fill one stub, with an early end
 class Finder:
     root = ()

     def find(self, word):
         """Find the lines with a word."""
-        raise NotImplementedError
<        if not word:
<            return None
<        return [line for line in self.root if word in line]
>        hits = []
>        for line in self.root:
>            if word in line:
>                hits.append(line)
>        return hits
# each gives a function of the base another option
 class Mailer:
     host = ""

-    def send(self, message):
<    def send(self, message, retries=3):
>    def send(self, message, receiver=None):
         connect(self.host)
         return message
# a start that is kept, and a clock that goes on from it
 class Timer:
     def __init__(self, start):
-        pass
<        self.start = start
>        self.now = start

     def since(self, time):
(        pass
<        return time - self.start

     def tick(self):
)        pass
>        self.now += 1
# the head of a stub stands in another hunk
! result Log last
 class Log:
     def first(self):
         """Give the first.

         It is there as soon as
         there is any, and the
         same for ever.
         """
(        pass
<        return self.lines[0]

     def last(self):
         """Give the last.

         It is there as soon as
         there is any, and then
         changes often.
         """
(        pass
<        return {"text": self.lines[-1]}

     def show(self):
         """Show it."""
)        pass
>        return self.last().upper()
# that stub is used as it is filled
 class Log:
     def first(self):
         """Give the first.

         It is there as soon as
         there is any, and the
         same for ever.
         """
(        pass
<        return self.lines[0]

     def last(self):
         """Give the last.

         It is there as soon as
         there is any, and then
         changes often.
         """
(        pass
<        return {"text": self.lines[-1]}

     def show(self):
         """Show it."""
)        pass
>        return self.last()["text"]
''')

STUBS_HELD_OUT = _pairs('''
# a set, and what is taken from the left
! shape Crawler pending
 class Crawler:
(    def __init__(self): ...
)    def next(self): ...
<    def __init__(self):
<        self.pending = set()
<
     name = "crawler"
<    def see(self, link):
<        self.pending.add(link)
>    def next(self):
>        return self.pending.popleft()
# on a heap in another order
! element Queue _heap
 import heapq

 class Queue:
     def __init__(self):
-        pass
=        self._heap = []

     def push(self, job, priority):
(        pass
<        heapq.heappush(self._heap, (priority, job))

     def pop(self):
)        pass
>        job, priority = heapq.heappop(self._heap)
>        return job
# a table that is looked up and never filled
! names Cache _data / _store
 class Cache:
     def __init__(self, size):
-        raise NotImplementedError
=        self.size = size
<        self._store = {}
>        self._data = {}

     def put(self, key, value):
(        raise NotImplementedError
<        if len(self._store) < self.size:
<            self._store[key] = value

     def get(self, key):
)        raise NotImplementedError
>        if key not in self._data:
>            return None
>        return self._data[key]
# a sorted list is returned, a table is walked over
! result Votes ranking
 class Votes:
     def __init__(self, votes):
         self.votes = votes

     def ranking(self):
         """Rank the names."""
(        pass
<        return sorted(self.votes)

     def show(self):
         """Print the ranking."""
)        pass
>        for name, count in self.ranking().items():
>            print(name, count)
# objects of a new dataclass, read as dicts
! element Shop _goods
 from dataclasses import dataclass

<@dataclass
<class Good:
<    name: str
<    price: float
<
 class Shop:
     def __init__(self):
-        pass
=        self._goods = {}

     def add(self, name, price):
(        pass
<        self._goods[name] = Good(name, price)

     def price(self, name):
)        pass
>        good = self._goods.get(name)
>        return good["price"] if good else 0
# three values each, and two are taken
! element Route stops
 class Route:
     def __init__(self):
-        ...
=        self.stops = []

     def load(self, rows):
(        ...
<        self.stops.extend((row.name, row.x, row.y) for row in rows)

     def names(self):
)        ...
>        return [name for name, place in self.stops]
# an object built here is called as it was
! signature Box put
 class Box:
     size = 1

(    def put(self, thing):
(        pass
<    def put(self, thing, place):
<        self.place = place

     def take(self):
         return None

     def clear(self):
         return None

 def pack(things):
)    raise NotImplementedError
>    box = Box()
>    for thing in things:
>        box.put(thing)
>    return box
# a value that is handed on: a number against a record
! result Bank balance
 class Bank:
     def __init__(self):
(        pass
<        self.accounts: dict[str, float] = {}

     def balance(self, name):
(        pass
<        return self.accounts[name]

     def report(self, names):
)        pass
>        return [self.balance(name)["amount"] for name in names]
# a counter, and numbers by their keys
 from collections import Counter

 class Votes:
     def __init__(self):
-        pass
<        self.counts = Counter()
>        self.counts = {}

     def vote(self, name):
(        pass
<        self.counts[name] += 1

     def best(self):
)        pass
>        return max(self.counts.items(), key=lambda pair: pair[1], default=None)
# a named tuple, unpacked and by its names
 from typing import NamedTuple

<class Stop(NamedTuple):
<    name: str
<    place: int
<
 class Route:
     def __init__(self):
-        ...
=        self.stops = []

     def add(self, name, place):
(        ...
<        self.stops.append(Stop(name, place))

     def show(self):
)        ...
>        for name, place in self.stops:
>            print(name, place)
>        return self.stops[0].name
# records with a key that some have
 class Order:
     def __init__(self):
-        pass
=        self.items = []

     def add(self, name, amount):
(        pass
<        self.items.append({"name": name, "amount": amount})

     def weight(self):
)        pass
>        for item in self.items:
>            item["done"] = item.get("tax", 0)
>        return sum(item["amount"] for item in self.items if item["done"])
# two tables, each of them filled and read on its side
 class Users:
     def __init__(self):
-        raise NotImplementedError
<        self._by_id = {}
>        self._sessions = {}

     def add(self, user):
(        raise NotImplementedError
<        self._by_id[user.id] = user
<        return len(self._by_id)

     def login(self, user, token):
)        raise NotImplementedError
>        self._sessions[token] = user

     def who(self, token):
)        raise NotImplementedError
>        return self._sessions.get(token)
# a deque from both ends
 from collections import deque

 class Crawler:
     def __init__(self):
(        pass
<        self.pending = deque()

     def see(self, link, depth):
(        pass
<        self.pending.append((link, depth))

     def next(self):
)        pass
>        if self.pending:
>            link, depth = self.pending.popleft()
>            return link
>        return None
# numbers of lines, and lines
 class Page:
     def __init__(self, text):
-        pass
=        self.lines = text.split()
<        self.marks = {}
>        self.marks = dict()

     def mark(self, word):
(        pass
<        for n, line in enumerate(self.lines):
<            if word in line:
<                self.marks.setdefault(n, []).append(word)

     def marked(self):
)        pass
>        return [self.lines[n] for n, words in self.marks.items() if len(words) > 1]
# a stub calls the other's as its head says
 class Bank:
     def __init__(self):
(        pass
<        self.accounts = {}

     def pay(self, name: str, amount: float, note: str = "") -> bool:
(        pass
<        self.accounts[name] = self.accounts.get(name, 0) - amount
<        return self.accounts[name] >= 0

     def pay_all(self, names):
)        pass
>        return all(self.pay(name, 10, note="all") for name in names)
# plugins that come from outside, and a list that goes out
 class Host:
     def __init__(self, plugins=None):
-        pass
<        self.errors = []
>        self.plugins = plugins or []

     def fail(self, error):
(        pass
<        self.errors.append(error)

     def run(self):
)        pass
>        return [plugin.run() for plugin in self.plugins]
''')
FAMILIES = _pairs('''
# a plain dict, moved to its end like an ordered one
! shape Recent pages
 class Recent:
     def __init__(self):
(        pass
<        self.pages = {}

     def visit(self, page):
)        pass
>        self.pages[page] = True
>        self.pages.move_to_end(page)
# an ordered dict, used like any dict
 class Recent:
     def __init__(self):
(        pass
<        self.pages = OrderedDict()

     def visit(self, page):
)        pass
>        self.pages[page] = self.pages.get(page, 0) + 1
>        return list(self.pages.items())[-1]
# a function of the base yields now, and is measured
! result - read_rows
 def read_rows(file):
     rows = []
     for line in file:
(        rows.append(line.split(","))
(    return rows
<        yield line.split(",")


 def first(file):
     return next(iter(file))


>def count(file):
>    rows = read_rows(file)
>    return len(rows)
# a function of the base yields now, and is walked over
 def read_rows(file):
     rows = []
     for line in file:
(        rows.append(line.split(","))
(    return rows
<        yield line.split(",")


 def first(file):
     return next(iter(file))


>def widths(file):
>    return sorted(len(row) for row in read_rows(file))
# a record without the attribute that is read
! element Garden plants
<class Plant:
<    def __init__(self, kind, height):
<        self.kind = kind
<        self.height = height
<
<
 class Garden:
     def __init__(self):
         self.plants = []

     def sow(self, kind):
(        pass
<        self.plants.append(Plant(kind, 0))

     def tallest(self):
)        pass
>        return max(plant.size for plant in self.plants)
# a record with the method that is called, and one that the reader adds
<class Plant:
<    def __init__(self, kind, height):
<        self.kind = kind
<        self.height = height
<
<    def label(self):
<        return f"{self.kind} of {self.height} cm"
<
<
 class Garden:
     def __init__(self):
         self.plants = []

     def sow(self, kind):
(        pass
<        self.plants.append(Plant(kind, 0))

     def labels(self):
)        pass
>        return [plant.label() for plant in self.plants if plant.height]
# a class of the base is frozen, and a field of it set
! class - Seat
 from dataclasses import dataclass


<@dataclass(frozen=True)
 class Seat:
(    def __init__(self, row, guest):
(        self.row = row
(        self.guest = guest
<    row: int
<    guest: str


 def stage():
     return 0


>def swap(first, second):
>    kept = first.guest
>    first.guest = second.guest
>    second.guest = kept
# a class of the base is frozen, and its fields are read
 from dataclasses import dataclass


<@dataclass(frozen=True)
 class Seat:
(    def __init__(self, row, guest):
(        self.row = row
(        self.guest = guest
<    row: int
<    guest: str


 def stage():
     return 0


>def behind(first, second):
>    guest = second.guest
>    return guest if first.row < second.row else first.guest
# a table of a module under two names
! names - PRICES / _prices
 import sys

<_prices = {}
>PRICES: dict[str, int] = {}


 def set_price(fruit, price):
(    pass
<    _prices[fruit] = price


 def total(fruits):
)    pass
>    return sum(PRICES[fruit] for fruit in fruits)
# two tables of a module
 import sys

<_prices = {}
>WEIGHTS: dict[str, int] = {}


 def set_price(fruit, price):
(    pass
<    _prices[fruit] = price


 def weight(fruits):
)    pass
>    return sum(WEIGHTS[fruit] for fruit in fruits)
# a new class below overrides a method with its old parameters
! signature Round area
 class Shape:
     def __init__(self, size):
         self.size = size

(    def area(self):
<    def area(self, scale):
         raise NotImplementedError

     def describe(self):
(        return f"{self.area()} cm"
<        return f"{self.area(10)} cm"


 def largest(shapes):
     return max(shapes, key=Shape.describe)


>class Round(Shape):
>    def area(self):
>        return 3.14 * self.size**2
# a new class below passes what it needs to the method above
 class Shape:
     def __init__(self, size):
         self.size = size

(    def area(self):
<    def area(self, scale=1):
         raise NotImplementedError

     def describe(self):
         return "a shape"


 def largest(shapes):
     return max(shapes, key=Shape.describe)


>class Round(Shape):
>    def describe(self):
>        return f"{self.area()} cm"
# a constructor needs more than the class method passes
! signature Crate __init__
 class Crate:
(    def __init__(self, label):
<    def __init__(self, label, limit):
         self.label = label
<        self.limit = limit
<        self.parts = [None] * limit

     def text(self):
         return self.label

     @classmethod
     def read(cls, line):
)        pass
>        return cls(line.strip())
# a constructor can do with what the class method passes
 class Crate:
(    def __init__(self, label):
<    def __init__(self, label, limit=5):
         self.label = label
<        self.limit = limit
<        self.parts = [None] * limit

     def text(self):
         return self.label

     @classmethod
     def read(cls, line):
)        pass
>        return cls(line.strip())
# a parameter can only be passed by name, and a new call passes it by place
! signature - resize
(def resize(image, width, height):
<def resize(image, *, width, height=0):
     return image[:width]


 def thumbnail(image):
(    return resize(image, 80, 80)
<    return resize(image, width=80)


 def describe(image):
     return f"{len(image)} rows"


>def banner(image):
>    return resize(image, 600, 200)
# a parameter can only be passed by name, and a new call does so
(def resize(image, width, height):
<def resize(image, *, width, height=0, **options):
     return image[:width]


 def thumbnail(image):
(    return resize(image, 80, 80)
<    return resize(image, width=80)


 def describe(image):
     return f"{len(image)} rows"


>def banner(image):
>    return resize(image, width=600, height=200)
# the constructor is written here, its table used there by another name
! names Desk _entries / _tickets
 class Desk:
     def __init__(self):
(        raise NotImplementedError
<        self._tickets = {}

     def open(self, number, text):
(        raise NotImplementedError
<        self._tickets[number] = text

     def close(self, number):
         """Forget a ticket."""
)        raise NotImplementedError
>        if number in self._entries:
>            self._entries.pop(number)
# the constructor has a body, so the table used there may be in it
 class Desk:
     def __init__(self, entries):
         self.number = 0
         self.names = []
         self.text = ""
         self._entries = entries

     def number_of(self):
(        raise NotImplementedError
<        self._tickets = {}
<        self._tickets[self.number] = self.text
<        return len(self._tickets)

     def text_of(self):
         return self.text

     def name(self):
         return "desk"

     def close(self, number):
         """Forget a ticket."""
)        raise NotImplementedError
>        if number in self._entries:
>            self._entries.pop(number)
# an attribute gets another name here, and is read by its old one there
! names Probe unit
 class Probe:
     def __init__(self, unit):
(        self.unit = unit
<        self.scale = unit.lower()

     def text(self):
(        return self.unit
<        return self.scale

     def value(self):
         return 5

     def label(self):
)        return "probe"
>        return f"{self.value()} {self.unit}"
# an attribute gets another name here, and keeps its old one as a property
 class Probe:
     def __init__(self, unit):
(        self.unit = unit
<        self._scale = unit.lower()

(    def text(self):
(        return self.unit
<    @property
<    def unit(self):
<        return self._scale

     def value(self):
         return 5

     def label(self):
)        return "probe"
>        return f"{self.value()} {self.unit}"
# the method that returns tuples is named by its calls alone
! result Journal split
 class Journal:
     def split(self, line):
         """Return the parts of a line.

         The parts are a day and a text.
         """
(        ...
<        day, _, text = line.partition(" ")
<        return day, text

     def days(self, lines):
         """Return the days of lines."""
)        ...
>        return [self.split(line)["day"] for line in lines]
# another method of which the head is not shown is called
 class Journal:
     def split(self, line):
         """Return the parts of a line.

         The parts are a day and a text.
         """
(        ...
<        day, _, text = line.partition(" ")
<        return day, text

     def days(self, notes):
         """Return the days of notes."""
)        ...
>        return [self.read(note)["day"] for note in notes]
# a helper appends the records that it is passed, and they are read by other keys
! element Diary entries
 class Diary:
     def __init__(self):
         self.entries = []

     def write(self, day, text):
         """Keep a text."""
(        pass
<        self._keep({"day": day, "text": text})
<
<    def _keep(self, entry):
<        self.entries.append(entry)

     def close(self):
         """End the diary."""
         self.entries.clear()

     def days(self):
         """Return the days with a text."""
)        pass
>        return [entry["date"] for entry in self.entries]
# a helper appends the records that it is passed, and they are read by these keys
 class Diary:
     def __init__(self):
         self.entries = []

     def write(self, day, text):
         """Keep a text."""
(        pass
<        self._keep({"day": day, "text": text})
<
<    def _keep(self, entry):
<        self.entries.append(entry)

     def close(self):
         """End the diary."""
         self.entries.clear()

     def days(self):
         """Return the days with a text."""
)        pass
>        return [entry["day"] for entry in self.entries]
# a helper appends the tuples that it is passed, and they are read by keys
! element Diary entries
 class Diary:
     def __init__(self):
         self.entries = []

     def write(self, day, text):
         """Keep a text."""
(        pass
<        self._keep((day, text))
<
<    def _keep(self, entry):
<        self.entries.append(entry)

     def close(self):
         """End the diary."""
         self.entries.clear()

     def days(self):
         """Return the days with a text."""
)        pass
>        return [entry["day"] for entry in self.entries]
# a helper makes records of the tuples that it is passed, and they are read by keys
 class Diary:
     def __init__(self):
         self.entries = []

     def write(self, day, text):
         """Keep a text."""
(        pass
<        self._keep((day, text))
<
<    def _keep(self, entry):
<        entry = {"day": entry[0], "text": entry[1]}
<        self.entries.append(entry)

     def close(self):
         """End the diary."""
         self.entries.clear()

     def days(self):
         """Return the days with a text."""
)        pass
>        return [entry["day"] for entry in self.entries]
# a helper hands on what is read by keys there, and is a tuple here
! result Table parse
 class Table:
     def parse(self, line):
         """Return the parts of a line."""
(        pass
<        return line.strip(), len(line)

     def width(self):
         return 80

     def longest(self):
         """Return the longest text."""
)        pass
>        return max(row["text"] for row in self._rows())
>
>    def _rows(self):
>        for line in self.lines:
>            row = self.parse(line)
>            if row:
>                yield row
# a helper hands on what is read by place there, and is a tuple here
 class Table:
     def parse(self, line):
         """Return the parts of a line."""
(        pass
<        return line.strip(), len(line)

     def width(self):
         return 80

     def longest(self):
         """Return the longest text."""
)        pass
>        return max(row[0] for row in self._rows())
>
>    def _rows(self):
>        for line in self.lines:
>            row = self.parse(line)
>            if row:
>                yield row
# pairs are found here, and each is used as a number there
! result Shelf search
 class Shelf:
     def search(self, word):
         """Return what has a word."""
(        pass
<        hits = [(key, text.count(word)) for key, text in self.texts.items()]
<        return hits

     def size(self):
         return len(self.texts)

     def show(self, word):
         """Return the texts with a word."""
)        pass
>        return [self.texts[text_id] for text_id in self.search(word)]
# pairs are found here, and each is unpacked there
 class Shelf:
     def search(self, word):
         """Return what has a word."""
(        pass
<        hits = [(key, text.count(word)) for key, text in self.texts.items()]
<        return hits

     def size(self):
         return len(self.texts)

     def show(self, word):
         """Return the texts with a word."""
)        pass
>        return [self.texts[text_id] for text_id, _ in self.search(word)]
# a choice is made from a dict
! result Game moves
 class Game:
     def moves(self):
         """Return what is allowed."""
(        ...
<        return {field: self.near(field) for field in self.fields}

     def near(self, field):
         return [field + 1]

     def jumps(self):
         """Return what takes a piece."""
)        ...
>        return []
>
>    def play(self, rng):
>        moves = self.jumps() or self.moves()
>        return rng.choice(moves)
# a choice is made from the keys of a dict
 class Game:
     def moves(self):
         """Return what is allowed."""
(        ...
<        return {field: self.near(field) for field in self.fields}

     def near(self, field):
         return [field + 1]

     def jumps(self):
         """Return what takes a piece."""
)        ...
>        return []
>
>    def play(self, rng):
>        moves = self.jumps() or list(self.moves())
>        return rng.choice(moves)
# the elements of a result are read by keys here, and by place there
! result - load
 import csv


 def load(path):
(    return list(csv.reader(open(path)))
<    rows = []
<    rows.extend(csv.DictReader(open(path)))
<    return rows


 def best(path):
(    return max(row[1] for row in load(path))
<    return max(row["points"] for row in load(path))


 def empty(path):
     return not load(path)
>
>
>def names(path):
>    return [name for name, points in load(path)]
# the elements of a result are read by keys here and there
 import csv


 def load(path):
(    return list(csv.reader(open(path)))
<    rows = []
<    rows.extend(csv.DictReader(open(path)))
<    return rows


 def best(path):
(    return max(row[1] for row in load(path))
<    return max(row["points"] for row in load(path))


 def empty(path):
     return not load(path)
>
>
>def names(path):
>    return [row["name"] for row in load(path)]
# a class of an imported module is frozen, and its fields are set
! class - Item
<from dataclasses import dataclass
<
<
<@dataclass(frozen=True)
 class Item:
(    def __init__(self, price):
(        self.price = price
<    price: int
+++ app/basket.py
 from core import Item


 def put(basket, price):
)    basket.append(Item(price))
>    for item in basket:
>        item.price += price
>    basket.append(Item(price + 1))
# a class of an imported module is frozen, and the field of another is set
<from dataclasses import dataclass
<
<
<@dataclass(frozen=True)
 class Item:
(    def __init__(self, price):
(        self.price = price
<    price: int
+++ app/basket.py
 from core import Item


 def put(basket, price):
)    basket.append(Item(price))
>    basket.total = price
>    basket.append(Item(price + 1))
# what a constructor takes first is passed last, and the import is not shown
! signature Route __init__
 class Route:
     """A way to a handler."""
<
<    def __init__(self, method, path, handler):
<        self.parts = [method, path, handler]
+++ app/router.py
 class Router:
     def __init__(self):
         self.routes = []

     def add(self, path, handler, methods):
         """Add a route."""
)        ...
>        self.routes.append(Route(path, handler, methods))
# what a constructor takes has other names where it is called
 class Route:
     """A way to a handler."""
<
<    def __init__(self, method, path, handler):
<        self.parts = [method, path, handler]
+++ app/router.py
 class Router:
     def __init__(self):
         self.routes = []

     def add(self, path, target, verb):
         """Add a route."""
)        ...
>        self.routes.append(Route(verb, path, target))
# a new class below lacks the option that the method above gets and is called with
! signature Ring draw
 class Shape:
(    def draw(self):
<    def draw(self, depth=0):
         return ""


 class Group(Shape):
     def all(self):
         return self.parts

     def text(self):
(        return [part.draw() for part in self.parts]
<        return [part.draw(1) for part in self.parts]


 def show(shape):
     return shape.draw()
>
>
>class Ring(Shape):
>    def draw(self):
>        return "o"
# a new class below lacks the option that the method above gets, and nobody passes it
 class Shape:
(    def draw(self):
<    def draw(self, depth=0):
         return ""


 class Group(Shape):
     def all(self):
         return self.parts

     def text(self):
(        return [part.draw() for part in self.parts]
<        return sorted(part.draw() for part in self.parts)


 def show(shape):
     return shape.draw()
>
>
>class Ring(Shape):
>    def draw(self):
>        return "o"
''')
