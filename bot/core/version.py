"""The version of this program."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("countersign")
except PackageNotFoundError:  # run from its source, without an installation
    VERSION = "0"
