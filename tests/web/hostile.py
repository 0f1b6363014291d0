"""Runs whose every text tries to do something to who reads it."""

import json
from pathlib import Path

from tests.conftest import TALK, Talk, write_run

SCRIPT = "<script>window.ran = 1; alert(1)</script>"
ATTACKS = [
    SCRIPT,
    "</script><script>window.ran = 2</script>",
    "</textarea></title><img src=x onerror='window.ran=3'>",
    '"><svg onload=window.ran=4>',
    "<a href='javascript:window.ran=5'>javascript:window.ran=5</a>",
    "{{ 7*7 }} ${window.ran=6} {% raw %} &lt;script&gt;",
    "<!--data--> <!-- --> ]]> \\u003cscript\\u003e",
    "\x1b[2J\x1b]0;owned\x07\x1b[31m red",
    "=cmd|' /C calc'!A0",
    "\u202etxt.exe\u202c and \u2066hidden\u2069 \u200bzero\u200b",
    r"\input{/etc/passwd} \write18{touch x} $x^2$ 100% _under_ & # ~",
    "<style>body{display:none}</style><meta http-equiv=refresh content='0;url=//evil.example'>",
    "<iframe src=//evil.example></iframe><link rel=stylesheet href=//evil.example/x.css>",
    "line\r\nfeed \x00 nul \ufeff and \u2028 separators \U0001f600 \U000e0041",
]


def hostile_run(folder: Path, megabytes: int = 0) -> Path:
    """Write a run full of attacks; with ``megabytes`` of text in its first message."""
    talk: Talk = [*TALK, *((f"agent{1 + n % 2}", text) for n, text in enumerate(ATTACKS))]
    if megabytes:
        long = ("All work and no play. <b>bold</b>\n" * 32_000)[: megabytes * 1_000_000]
        talk = [("agent1", f"{long} The needle is at the end."), *talk]
    patch = "--- a/x.py\n+++ b/x.py\n@@ -1,1 +1,3 @@\n import re\n"
    patch += f"+{SCRIPT}\n+--- not a header\n"
    write_run(
        folder,
        talk,
        patches={1: patch, 2: f"{ATTACKS[2]}\n{ATTACKS[7]}\n"},
        outputs=("\n".join(ATTACKS), SCRIPT),
    )
    result = json.loads((folder / "result.json").read_text())
    result["model"] = f"{SCRIPT}=1+1"
    (folder / "result.json").write_text(json.dumps(result))
    return folder
