"""What an extra of this package needs, for errors that say how to get it."""


def explain_extra(extra: str) -> str:
    """Return the command that installs an extra: its packages, with their bounds."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        stated = requires("failure-annotator") or []
    except PackageNotFoundError:  # run from a checkout that is not installed
        stated = []
    mark = f'extra == "{extra}"'
    needed = [line.partition(";")[0].strip() for line in stated if mark in line.replace("'", '"')]
    packages = " ".join(f"'{package}'" for package in needed)
    return f"pip install {packages or f'failure-annotator[{extra}]'}"
