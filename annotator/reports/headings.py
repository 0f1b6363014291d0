"""How every report names a rubric and a judge, each with the beginning of its hash."""

from annotator.base.text import sanitize_line


def name_rubric(rubric: str, version: int, sha256: str) -> str:
    """Return a rubric's id, version and hash, on one line."""
    return f"{sanitize_line(rubric)} v{version} ({sha256[:12]})"


def name_judge(judge: str, sha256: str) -> str:
    """Return a judge's id and hash, on one line."""
    return f"{sanitize_line(judge, 120)} ({sha256[:12]})"
