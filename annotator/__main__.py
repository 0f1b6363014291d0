"""``annotate`` and ``python -m annotator``."""

from annotator.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
