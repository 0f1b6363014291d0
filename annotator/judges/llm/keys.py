"""URLs and keys of endpoints; neither a key nor a password is ever shown or recorded."""

import ipaddress
import os
from urllib.parse import urlsplit

from annotator.errors import AnnotatorError


def is_local(url: str) -> bool:
    """Whether a URL names this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def api_key(url: str, env: str) -> str:
    """Return the key from the environment variable ``env``; a local URL needs none.

    Raises:
        AnnotatorError: the variable is not set and the URL is not local.
    """
    key = os.environ.get(env, "").strip()
    if not key.isascii():
        raise AnnotatorError(f"the API key in {env} holds characters that no key can have")
    if not key and not is_local(url):
        raise AnnotatorError(
            f"no API key for {without_secrets(url)}: set the environment variable {env}, or name"
            " another one with --api-key-env (a server on this machine needs none)"
        )
    return key or "none"


def checked_url(url: str) -> str:
    """Return ``url`` if it can be called.

    Raises:
        AnnotatorError: no http(s) URL with a host and, if any, a port that is a number.
    """
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:
        fine = False
    if not fine:
        raise AnnotatorError(f"--base-url {url!r} is no URL such as http://localhost:8000/v1")
    return url


def without_secrets(url: str) -> str:
    """Return a URL without user name, password and query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"
