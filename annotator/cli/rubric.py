"""``annotate rubric``."""

from pathlib import Path

import click

from annotator import api
from annotator.base.files import write_file
from annotator.base.text import dump_json, escape_controls, sanitize_line, wrap_line, wrap_lines
from annotator.cli.options import add_option, verbose_option
from annotator.cli.output import put_tables, say, say_next
from annotator.rubrics import Rubric, list_built_in, load_rubric
from annotator.rubrics.difference import compare_rubrics
from annotator.rubrics.foreign import make_rubric_id, read_foreign
from annotator.rubrics.lint import count_tokens, lint


@click.group("rubric")
def command() -> None:
    """List, show, check, compare, import and start rubric files."""


@command.command("list")
def list_() -> None:
    """List the built-in rubrics."""
    for path in list_built_in():
        rubric = load_rubric(path.stem)
        head = f"{rubric.id:17} v{rubric.version}  {len(rubric.codes):2} codes  "
        say(wrap_line(head + rubric.title, " " * len(head)))
    say_next("rubric", "show", "symptoms", purpose="its rules and codes")


@command.command()
@click.argument("rubric")
@add_option("--json", "Print it as JSON.", name="as_json")
def show(rubric: str, as_json: bool) -> None:
    """Print the rules and codes of RUBRIC (a name or a file)."""
    loaded = load_rubric(rubric)
    if as_json:
        say(dump_json(loaded.model_dump(by_alias=True), 2))
        return
    say(wrap_lines(escape_controls(_render(loaded))))
    say_next("TRACES", "--rubric", rubric, purpose="judge traces by it")


@command.command()
@click.argument("rubrics", nargs=-1, required=True, metavar="RUBRIC...")
@add_option("--strict", "Exit code 1 if there is a warning.")
def check(rubrics: tuple[str, ...], strict: bool) -> None:
    """Check each RUBRIC (a name or a file); exit code 2 at the first that cannot be used.

    A likely mistake in a usable rubric is a warning.
    """
    from annotator.prompts.render import Prompt

    warned = False
    for name in rubrics:
        rubric = load_rubric(name)
        prompt = Prompt(rubric, "", ()).system
        head = f"{escape_controls(name)}: ok: {rubric.id} v{rubric.version}"
        size = f"{len(rubric.codes)} codes, sha256 {rubric.sha256[:12]}"
        say(f"{head}, {size}, about {count_tokens(prompt)} tokens")
        for warning in lint(rubric, prompt):
            warned = True
            say(wrap_lines(f"  warning: {sanitize_line(warning)}"))
    if warned and strict:
        raise SystemExit(1)


@command.command()
@click.argument("old", metavar="A")
@click.argument("new", metavar="B")
@add_option("--json", "Of runs: print the result as JSON.", name="as_json")
@verbose_option
def diff(old: str, new: str, as_json: bool, verbose: bool) -> None:
    """Print the differences of rubric B from rubric A (names or files).

    If A and B are runs, or inductions, print which of their codes match by their findings on the
    same traces. Codes match if kappa's whole interval is above 0.
    """
    if api.has_findings(old) or api.has_findings(new):
        table = api.match_codes(old, new).table()
        put_tables([table], "json" if as_json else "table", verbose=verbose)
        return
    if as_json:
        raise click.UsageError("--json is for two runs or inductions, not for rubric files")
    differences = list(compare_rubrics(load_rubric(old), load_rubric(new)))
    for line in differences or ["they say the same"]:
        say(wrap_lines(escape_controls(line)))


@command.command("import")
@click.argument("taxonomy", type=click.Path(path_type=Path, dir_okay=False))
@add_option("--out,-o", type=click.Path(path_type=Path, dir_okay=False), required=True)
def import_(taxonomy: Path, out: Path) -> None:
    """Convert the TAXONOMY of another tool (AdaMAST's JSON, mast-lint's YAML) into a rubric file,
    which must not exist.
    """
    import yaml

    fields = read_foreign(taxonomy)
    text = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=100)
    write_file(out, text, exclusive=True)
    rubric = load_rubric(str(out))
    name = escape_controls(str(out))
    say(f"{name}: written: {len(rubric.codes)} codes; see annotate rubric check {name}")


@command.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def new(file: Path) -> None:
    """Write a template of a rubric to FILE, which must not exist."""
    write_file(file, _TEMPLATE.format(id=make_rubric_id(file)), exclusive=True)
    load_rubric(str(file))
    name = escape_controls(str(file))
    say(f"{name}: written; edit it, and try it with: annotate rubric check {name}")


_TEMPLATE = """\
id: "{id}"
version: 1                      # raise it when the meaning changes
title: What this rubric finds
source: our own
applies_to: {{min_agents: 2}}     # add passed: false for failed runs only
choice: primary                 # one | primary | many
min_quotes: 2
quote_from: [messages, patches, outcome]   # of messages, patches, outcome, steps, tools
# show: [messages]              # what a prompt contains, of messages, patches, outcome, tasks
instructions: |
  When a code applies and when not, exclusions, how to choose between codes.
codes:
  - id: first_code
    name: First code
    definition: What has to be the case.
    evidence: What the quotes must show.
    not: Near misses that are not this code.
    must_quote: [messages]
    example:
      quotes: ["Shall I take the parser?", "The printer is done."]
      why: The question is never answered.
precedence: [first_code]        # strongest first, every code
"""


def _render(rubric: Rubric) -> str:
    applies = rubric.applies_to
    which = {None: "all", True: "passed", False: "failed"}[applies.passed]
    lines = [
        f"{rubric.id} v{rubric.version}: {rubric.title}",
        f"source: {rubric.source}",
        f"for: {which} runs of at least {applies.min_agents} agent(s)",
        f"choice: {rubric.choice}; quotes per finding: {rubric.min_quotes},"
        f" from {', '.join(rubric.quote_from)}",
        f"a prompt shows: {', '.join(rubric.show)}",
        "",
        rubric.instructions,
    ]
    for code in rubric.codes:
        lines += ["", f"{code.id}: {code.name}" + (f" ({code.group})" if code.group else "")]
        lines += [f"  {code.definition}", f"  evidence: {code.evidence}"]
        lines += [f"  not: {code.not_}"] if code.not_ else []
        if code.example:
            quotes = " / ".join(code.example.quotes)
            lines.append(f"  example: {quotes} ({code.example.why})")
    if rubric.precedence:
        lines += ["", f"precedence: {', '.join(rubric.precedence)}"]
    return "\n".join(lines)
