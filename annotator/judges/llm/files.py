"""The YAML files of the llm judge: settings and prices."""

from pathlib import Path
from typing import Any

import yaml

from annotator.errors import AnnotatorError

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: Path) -> Any:
    """Return the value in a YAML file.

    Raises:
        AnnotatorError: the file cannot be read, or is no YAML.
    """
    try:
        return yaml.load(path.read_bytes(), _LOADER)  # noqa: S506 - a safe loader
    except OSError as error:
        raise AnnotatorError(f"{path}: {error.strerror or error}") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that is none
        raise AnnotatorError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
