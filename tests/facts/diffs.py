"""Small patches, and the check that every passage of a fact can be quoted."""

from annotator.evidence import spans_in
from annotator.facts import conflicts, patches, symbols
from annotator.facts.registry import know
from annotator.traces import Trace

HEAD = "--- a/{0}\n+++ b/{0}\n"


def trace(*texts):
    return Trace("t", "x", "x", patches={f"agent{n}": text for n, text in enumerate(texts, 1)})


def change(body, path="shop/parser.py", at=1, section=""):
    """A patch with one hunk whose counts fit its body."""
    lines = body.split("\n")
    old = sum(line[:1] != "+" for line in lines)
    new = sum(line[:1] != "-" for line in lines)
    end = f" {section}" if section else ""
    return HEAD.format(path) + f"@@ -{at},{old} +{at},{new} @@{end}\n{body}\n"


def checked(one, modules=(patches, symbols, conflicts)):
    """All facts of a trace; every passage of them can be quoted as it stands."""
    found = []
    for module in modules:
        for fact in know(one).of(*module.KINDS):
            assert fact.kind in module.KINDS
            for span in fact.spans:
                text = one.source(span.source).text
                assert 0 <= span.start < span.end <= len(text)
                quote = text[span.start : span.end]
                at = spans_in(quote, one.source(span.source))
                assert at, (fact, quote)
                assert at[0].match == "exact"
            found.append(fact)
    return found
