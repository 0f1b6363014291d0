"""Small talks and patches, and the check that every passage of a fact can be quoted."""

import json

from annotator.cooperbench.facts import KINDS, draw_facts
from annotator.rubrics.evidence import find_spans
from annotator.traces import Message, Outcome, Trace

HEAD = "--- a/{0}\n+++ b/{0}\n"


def talk(*lines, kind=None):
    """Messages from lines "sender: text"."""
    pairs = [line.split(": ", 1) for line in lines]
    return tuple(Message(n, who, (), text, kind=kind) for n, (who, text) in enumerate(pairs, 1))


def run(lines=(), patches=None, kind=None, **outcome):
    messages = lines if lines and isinstance(lines[0], Message) else talk(*lines, kind=kind)
    return Trace("run", "test", "", messages, patches or {}, Outcome(**outcome))


def trace(*texts):
    return run(patches={f"agent{n}": text for n, text in enumerate(texts, 1)})


def change(body, path="shop/parser.py", at=1, section=""):
    """A patch with one hunk whose counts fit its body."""
    lines = body.split("\n")
    old = sum(line[:1] != "+" for line in lines)
    new = sum(line[:1] != "-" for line in lines)
    end = f" {section}" if section else ""
    return HEAD.format(path) + f"@@ -{at},{old} +{at},{new} @@{end}\n{body}\n"


def quotes(one, fact):
    """What a fact rests on, after checking what holds of every fact."""
    assert fact.kind in KINDS
    assert fact.says.isprintable(), fact
    json.dumps(dict(fact.about))
    found = []
    for span in fact.spans:
        source = one.source(span.source)
        assert 0 <= span.start < span.end <= len(source.text), fact
        assert not any(span.start <= at < span.end for at in source.breaks), fact
        quote = source.text[span.start : span.end]
        assert quote == quote.strip()
        places = find_spans(quote, source)
        assert places, (fact, quote)
        assert {place.match for place in places} == {"exact"}
        assert (span.start, span.end) in {(p.start, p.end) for p in places} or len(places) == 100
        found.append(quote)
    return found


def checked(one, *kinds):
    """The facts of a trace of some kinds, or all, after checking each; the same a second time."""
    found = draw_facts(one).of(*(kinds or KINDS))
    assert found == draw_facts(one).of(*(kinds or KINDS))
    for fact in found:
        quotes(one, fact)
    return found
