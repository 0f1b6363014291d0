"""Definitions and imports in hunks of Go, JavaScript, TypeScript, Rust and Java."""

import random
import subprocess
import sys
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotator.facts import conflicts, fragments, symbols
from annotator.facts.registry import know
from tests.facts.diffs import change, checked, trace
from tests.growth import FACTOR, LIMIT, growth, parts

GO, JS, TS, TSX, RUST, JAVA = "x.go", "x.js", "x.ts", "x.tsx", "x.rs", "X.java"


def says(body, path, section="", at=9):
    """What a patch does: ``+`` adds, ``-`` removes, ``~`` changes the signature of."""
    found = checked(trace(change(body, path, at=at, section=section)), [symbols])
    verbs = (("adds the ", "+"), ("removes the ", "-"), ("changes the signature of the ", "~"))
    said = []
    for fact in found:
        text = fact.says.removeprefix("agent1's patch ").removesuffix(f" in {path}.")
        for verb, sign in verbs:
            text = text.replace(verb, sign, 1) if text.startswith(verb) else text
        said.append(text)
    return ", ".join(said)


# The body of a hunk, the line that git writes after its "@@", and what is said.
CASES = {
    "go function": (GO, "+func Read(a int) error {\n+\treturn nil\n+}", "", "+function Read"),
    "go function removed": (GO, "-func Read(a int) error {\n-\treturn nil\n-}", "",
                            "-function Read"),
    "go method": (GO, "+func (r *Reader) Read(p []byte) int {\n+}", "", "+method Reader.Read"),
    "go generic receiver": (GO, "+func (r *Reader[K, V]) Read() {\n+}", "", "+method Reader.Read"),
    "go generic": (GO, "+func Map[K comparable, V any](m map[K]V) []K {", "", "+function Map"),
    "go types": (GO, "+type A struct {\n+\tB int\n+}\n+type C = A\n+type D interface {\n"
                     "+\tRead(a int) error\n+}", "",
                 "+class A, +class C, +class D, +method D.Read"),
    "go group of types": (GO, " type (\n+\tA struct{}\n )", "", "+class A"),
    "go interface in git's line": (GO, "+\tRead(a int) error\n }", "type Reader interface {",
                                   "+method Reader.Read"),
    "go parameter": (GO, "-func F(a int) {\n+func F(a, b int, c ...string) {", "",
                     "+parameter b of F, +parameter ...c of F, ~function F"),
    "go parameter on a line": (GO, " func (m *M) F(\n \ta int,\n+\tb string,\n ) {", "",
                               "+parameter b of M.F, ~method M.F"),
    "go parameter, head in git's line": (GO, " \ta int,\n+\tb string,\n ) error {\n \treturn nil",
                                         "func F(", "+parameter b of F, ~function F"),
    "go result": (GO, "-func F() {\n+func F() error {", "", "~function F"),
    "go, only spaces": (GO, "-func F(a  int) {\n+func F(\n+\ta int) {", "", ""),
    "go import": (GO, ' import (\n \t"fmt"\n+\tx "net/http"\n+\t"a.b/chi/v5"\n )', "",
                  "+import x, +import chi"),
    "go import, block in git's line": (GO, ' \t"fmt"\n+\t"net/http"\n )', "import (",
                                       "+import http"),
    "go import, block not shown": (GO, ' \t"fmt"\n+\t"net/http"\n )', "", "+import http"),
    "go behind a body": (GO, " \treturn 1\n }\n \n+func G() {\n+}\n+\n func H() {", "func F() {",
                         "+function G"),
    "go closure": (GO, " func F() {\n+\tg := func(a int) {}", "", ""),
    "go text": (GO, " const help = `\n+func F() {\n `\n+func G() {", "", "+function G"),
    "go mistake": (GO, "+func F(a int {\n+\tif (a {\n+}\n+func G(b int) {\n+}", "",
                   "+function F, +function G"),
    "js functions": (JS, "+export async function read(a) {\n+}\n+const f = (a) => a\n"
                         "+export default class A extends B {\n+  g(a) {\n+  }\n+}", "",
                     "+function read, +function f, +class A, +method A.g"),
    "js member": (JS, "     return 1\n   }\n \n+  write(a) {\n+    return a\n+  }\n+\n   read() {",
                  "class Parser {", "+method Parser.write"),
    "js member, class unknown": (JS, "     return 1\n   }\n \n+  write(a) {\n+    a()\n+  }\n",
                                 "", "+method write"),
    "js member behind a callback": (JS, "       a()\n     })\n   }\n \n+  write(a) {\n+  }", "",
                                    "+method write"),
    "js inner function": (JS, " function outer() {\n+  const inner = (a) => {\n+  }\n }", "",
                          "+function outer.inner"),
    "js in a callback": (JS, " it('x', () => {\n+  const f = (a) => a\n })", "", "+function f"),
    "js calls": (JS, "+  read(a)\n+  if (a) {\n+    write(a)\n+  }", "function f(a) {", ""),
    "js of an object": (JS, "+const api = {\n+  read(a) {},\n+  write: (b) => b,\n+}", "",
                        "+method api.read, +method api.write"),
    "js argument": (JS, "+call({ then: (a) => a })", "", ""),
    "js prototype": (JS, "+A.prototype.read = function (a) {}\n+exports.f = (a) => a\n"
                         "+module.exports = function () {}", "", "+method A.read, +function f"),
    "js parameters": (JS, "-const f = a => a\n+const f = ({ a, b: c }, d = 1, ...e) => a", "",
                      "+parameter c of f, +parameter d of f, +parameter ...e of f, ~function f"),
    "js imports": (JS, '+import a, { b as c } from "m"\n+import * as d from "n"\n+import "o"\n'
                       "+const { e } = require('p')\n+const f = require('q')", "",
                   "+import a, +import c, +import d, +import e, +import f"),
    "js another source": (JS, "-import { a } from 'm'\n+import { a } from 'n'", "",
                          "+import a, -import a"),
    "js behind a comment": (JS, "  * text of a function that\n+ * reads\n  */\n+function read() {}",
                            "", "+function read"),
    "ts types": (TS, "+export interface A<T> {\n+  m(a: T): void\n+}\n+enum B { C }\n"
                     "+export type D = { a: 1 }\n+abstract class E {\n+  abstract f(): A\n+}", "",
                 "+class A, +method A.m, +class B, +class D, +class E, +method E.f"),
    "ts arrow": (TS, "+export const f = async <T,>(a: T): Promise<T> => a", "", "+function f"),
    "ts tsx": (TSX, "+export const A: FC<P> = ({ a }) => <div onClick={() => a}>{a}</div>", "",
               "+function A"),
    "ts field": (TS, " class A {\n+  f = (a: number) => a\n }", "", "+method A.f"),
    "ts decorators": (TS, " class A {\n+  @Input()\n+  async read(@Inject() a: B) {}\n }", "",
                      "+method A.read"),
    "ts parameters": (TS, " class A {\n-  f(a: string): void {\n+  f(a: string, b?: number): B {\n"
                          "   }\n }", "", "+parameter b of A.f, ~method A.f"),
    "ts type of a parameter": (TS, "-function f(a: string) {\n+function f(a: number) {", "",
                               "~function f"),
    "ts signature on lines": (TS, " export function f<T>(\n   a: T,\n+  b: Map<A, T>,\n ): T {",
                              "", "+parameter b of f, ~function f"),
    "ts calls in a method": (TS, "     read(a);\n+    write(a);\n     this.x = 1;", "class A {",
                             ""),
    "ts namespace": (TS, " namespace N {\n+  function f() {}\n }", "", "+function N.f"),
    "ts imports": (TS, '+import type { A } from "m";\n+import b = require("n");', "",
                   "+import A, +import b"),
    "rust functions": (RUST, "+pub(crate) async fn read<'a>(a: &'a str) -> u8 {\n+}", "",
                       "+function read"),
    "rust types": (RUST, "+pub struct A;\n+enum B { C(u8) }\n+trait D {\n+    fn f(&self);\n+}\n"
                         "+type E = u8;", "",
                   "+class A, +class B, +class D, +method D.f, +class E"),
    "rust impl": (RUST, "+impl<T: Clone> Read for a::Reader<T> {\n+    fn new() -> Self {\n+    }\n"
                        "+}", "", "+method Reader.new"),
    "rust member": (RUST, "         1\n     }\n \n+    pub fn write(&mut self) {\n+    }\n }",
                    "impl Parser {", "+method Parser.write"),
    "rust member, impl unknown": (RUST, "     }\n+    pub fn write(&mut self) {\n+    }", "",
                                  "+method write"),
    "rust inner function": (RUST, " fn outer() {\n+    fn inner() {}\n }", "",
                            "+function outer.inner"),
    "rust module": (RUST, " mod tests {\n+    #[test]\n+    fn works() {\n+    }\n }", "",
                    "+function tests.works"),
    "rust parameters": (RUST, "-fn f(a: u8) {\n+fn f(mut a: u8, (b, c): (u8, u8)) -> u8 {", "",
                        "+parameter b of f, +parameter c of f, ~function f"),
    "rust self": (RUST, " impl A {\n-    fn f(&self) {}\n+    fn f(&mut self) {}\n }", "",
                  "~method A.f"),
    "rust uses": (RUST, "+use std::{io::{self, Read as R}, fmt};\n+use a::b::*;", "",
                  "+import io, +import R, +import fmt, +import a::b::*"),
    "java class": (JAVA, "+public final class A<T> extends B {\n+  A(int a) {}\n+  @Override\n"
                         "+  public <U> List<U> read(final int a, U... b) throws E {\n+  }\n+}", "",
                   "+class A, +method A.A, +method A.read"),
    "java types": (JAVA, "+interface A { void f(int a); }\n+enum B { C; void g() {} }\n"
                         "+record D(int a) {}\n+@interface E {}", "",
                   "+class A, +method A.f, +class B, +method B.g, +class D, +class E"),
    "java member": (JAVA, "     return 1;\n   }\n \n+  public int write(int a) {\n+  }\n",
                    "public class Parser {", "+method Parser.write"),
    "java member, class unknown": (JAVA, "     return 1;\n   }\n \n+  int write(int a) {\n+  }\n",
                                   "", "+method write"),
    "java far from git's line": (JAVA, "+            void write() {\n+            }",
                                 "class Parser {", "+method write"),
    "java parameters": (JAVA, " class A {\n-  void f(int a) {\n+  void f(int a, B[] b) {\n   }\n }",
                        "", "+parameter b of A.f, ~method A.f"),
    "java overload": (JAVA, " class A {\n   void f(int a) {}\n+  void f(int a, int b) {}\n }", "",
                      "+method A.f"),
    "java annotated": (JAVA, " class A {\n+  @Override\n   public void f() {}\n }", "", ""),
    "java imports": (JAVA, "+import java.util.List;\n+import static a.B.c;\n+import java.io.*;", "",
                     "+import List, +import c, +import java.io.*"),
    "java calls": (JAVA, "+    read(a);\n+    return write(a);", "class A {", ""),
    "only moved": (GO, "-func F() {\n a\n+func F() {", "", ""),
    "body changed": (RUST, " fn f() {\n-    1\n+    2\n }", "", ""),
    "prose": (GO, "+This is not code, it is about a func that reads.", "", ""),
}  # fmt: skip


@pytest.mark.parametrize(("path", "body", "section", "expected"), CASES.values(), ids=CASES)
def test_symbols(path, body, section, expected):
    assert says(body, path, section) == expected


@pytest.mark.parametrize(("path", "body", "section", "expected"), CASES.values(), ids=CASES)
def test_the_other_way_they_are_removed(path, body, section, expected):
    swap = {"+": "-", "-": "+"}
    other = "\n".join(swap.get(line[:1], line[:1]) + line[1:] for line in body.split("\n"))
    turned = [swap.get(one[:1], one[:1]) + one[1:] for one in expected.split(", ")]
    assert sorted(says(other, path, section).split(", ")) == sorted(turned)


def test_a_definition_shows_its_head_and_is_quoted_by_it():
    body = " class A {\n+  @Override\n+  public int f(\n+      int a) {\n+    return a;\n+  }\n }"
    (fact,) = checked(trace(change(body, JAVA)), [symbols])
    assert fact.about["text"] == "public int f(\n      int a)"
    (span,) = fact.spans
    assert change(body, JAVA)[span.start : span.end].startswith("+  public int f(")


BOTH = {
    "go": (GO, "-func F(a int) {\n", "+func F(a int, b int) {\n", "+func F(a int, c int) {\n"),
    "js": (JS, "-const f = (a) => {\n", "+const f = (a, b) => {\n", "+const f = (a, c) => {\n"),
    "ts": (TS, "-function f(a: A) {\n", "+function f(a: A, b: B) {\n", "+function f(a: B) {\n"),
    "rust": (RUST, "-fn f(a: A) {\n", "+fn f(a: A) -> B {\n", "+fn f(a: A) -> C {\n"),
    "java": (JAVA, " class A {\n-  int f() {\n", "+  int f(int a) {\n", "+  long f() {\n"),
}


@pytest.mark.parametrize(("path", "before", "one", "two"), BOTH.values(), ids=BOTH)
def test_both_change_a_signature(path, before, one, two):
    def same(left, right):
        both = trace(change(before + left + " }", path), change(before + right + " }", path))
        found = checked(both, [conflicts])
        return [one.about["same"] for one in found if one.kind == "signature_changed_by_both"]

    assert same(one, two) == [False]
    assert same(one, one.replace("(", "( ", 1)) == [True]


def test_both_add_a_symbol():
    def added(one, two, path=GO):
        found = checked(trace(change(one, GO), change(two, path)), [conflicts])
        return [one.about["same"] for one in found if one.kind == "symbol_added_by_both"]

    one = "+func F(a int) int {\n+\treturn a\n+}"
    assert added(one, one.replace("\n+\t", "\n+\n+    ")) == [True]
    assert added(one, one.replace("return a", "return -a")) == [False]
    assert added(one, one, "y.go") == [True]
    assert added('+import x "a/b"', '+import x "c/b"') == [False]
    assert added('+import x "a/b"', '+import x "a/b"') == []
    assert added(one, one.replace("func F", "func (r *R) F")) == []


def test_a_long_file_is_read_in_pieces():
    methods = "".join(
        f"+    @Ann({{1, 2}})\n+    int f{n}(int a) {{\n+      if (a) {{ return 1; }}\n+    }}\n"
        for n in range(400)
    )
    body = "+class A\n+    extends B {\n+  class C {\n" + methods + "+  }\n+}"
    assert len(body) > 3 * fragments.MOST_PIECE
    found = checked(trace(change(body, JAVA, at=1)), [symbols])
    assert {one.about["scope"] for one in found[2:]} == {"A.C"}
    assert [one.about["name"] for one in found[2:]] == [f"f{n}" for n in range(400)]


def test_what_is_too_long_is_not_read_and_said():
    body = "+func F() {}\n" * 20_000
    said = [one for one in know(trace(change(body + "+a", GO))) if one.kind == "not_read"]
    assert [one.about["characters"] for one in said] == [len(body) - 20_000 + 2]
    assert not know(trace(change(body + "+a", GO))).of("symbol_added")


def lines(text, width=90):
    return "\n".join("+" + text[n : n + width] for n in range(0, len(text), width))


WORDS = (
    "func class interface fn impl type import use public => -> ( ) { } [ ] < > , ; : \" ' ` /* */ "
    "// a 1 = async new \\ # @ ..."
)


@cache
def hostile(part):
    """Bodies of hunks, each one part in so many of the whole."""
    n = 100_000 // part
    words = random.Random(1).choices(WORDS.split(), k=40_000 // part)
    characters = map(chr, random.Random(1).choices(range(14, 9_000), k=n // 10))
    return {
        "brackets": lines("(" * n),
        "nested brackets": lines("{" * (n // 2) + "}" * (n // 2)),
        "one line of brackets": "+" + "([{" * (40_000 // part),
        "generic": lines("a<" * (n // 2)),
        "arrows": lines("=>a> $" * (20_000 // part)),
        "operators": lines("->" * (n // 2)),
        "comments": lines("int /* " * (14_000 // part)),
        "quotation marks": lines("\"'" * (n // 2)),
        "templates": lines("`${" * (30_000 // part)),
        "nested functions": "\n".join(
            f"+{' ' * min(n, 90)}function f{n}(a) {{" for n in range(3_000 // part)
        ),
        "many imports": "+import {a, b} from 'c';\n+import \"d\"\n" * (2_000 // part) + "+a",
        "words": lines(" ".join(words)),
        "any characters": lines("".join(characters)),
        "nul": "+func \x00F(\x00) {\n+class \x00 { f\x00() {} }\n+\x00fn f() {}",
        "surrogates": "+func F\ud800(a\udfff int) {\n+fn f\ud800() {}\n+class \udfff { f() {} }",
        "prose": "+This is no code: it's text (of some kind).\n" * (3_000 // part) + "+a",
    }


# Java's parser takes the square of the time for these: only the length of a piece bounds it.
SQUARED = ("generic", JAVA)


@pytest.mark.parametrize("part", parts(10))
@pytest.mark.parametrize("path", [GO, JS, TS, RUST, JAVA])
@pytest.mark.parametrize("name", hostile(1_000))
def test_hostile_hunks_take_bounded_time(name, path, part, monkeypatch):
    if (name, path) == SQUARED:
        monkeypatch.setattr(fragments, "MOST_PIECE", 1_000)

    def facts(text):
        return know(trace(text)).of(*symbols.KINDS)

    small, large = (change(hostile(one)[name], path, at=9) for one in (FACTOR * part, part))
    assert growth(facts, small, large) < LIMIT
    for fact in facts(large)[:30]:
        assert all(0 <= span.start < span.end <= len(large) for span in fact.spans)


PIECES = ["+func f(a,\n", "+) {\n", "-}\n", " class A {\n", "+  f(a: b): c {\n", "+fn f(&self) {\n",
          "+/*\n", " */\n", "+`\n", "+import a, {b} from 'c'\n", "+impl A {\n", "-func f() {\n",
          "\n", "+\t\x00é\n", '+"\n', " @A\n"]  # fmt: skip


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(PIECES) | st.text(max_size=8)),
    st.sampled_from([GO, JS, TS, RUST, JAVA]),
)
def test_any_text_gives_quotable_facts(parts, path):
    one = trace(f"--- a/{path}\n+++ b/{path}\n@@ -9,99 +9,99 @@ class A {{\n" + "".join(parts))
    assert checked(one) == checked(one)


def test_python_alone_needs_no_parser():
    code = (
        "import sys\n"
        "from annotator.facts.registry import know\n"
        "from tests.facts.diffs import change, trace\n"
        "assert list(know(trace(change('+def f(): pass'))))\n"
        "assert not any(name.startswith('tree_sitter') for name in sys.modules)\n"
        "assert list(know(trace(change('+func F() {', 'x.go'))))\n"
        "assert 'tree_sitter_go' in sys.modules and 'tree_sitter_java' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
