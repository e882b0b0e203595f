"""The version of this program."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def _read_version() -> str:
    try:
        return version("countersign")
    except PackageNotFoundError:  # run from its source, without an installation
        return "0"


VERSION = _read_version()
