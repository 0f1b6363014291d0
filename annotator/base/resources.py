"""Where the files that users edit are found: /rubrics and /prompts."""

from pathlib import Path

_PACKAGE = Path(__file__).parent.parent


def find_resources(name: str) -> Path:
    """Return the folder of built-in ``rubrics`` or ``prompts``.

    In an installed wheel they lie inside the package; in a checkout beside it.
    """
    installed = _PACKAGE / "_resources" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
