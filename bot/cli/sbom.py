"""`countersign sbom` and `countersign licences`: list the components of this installation."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence
from typing import Any

import typer
from rich.table import Column, Table

from bot.cli import console
from bot.cli.console import Json
from bot.core.i18n import translate
from bot.ops.components import UNKNOWN, Component, list_components

app = typer.Typer()
SPEC_VERSION = "1.6"
_EXPRESSION = re.compile(r"[A-Za-z0-9.+() -]+")


@app.command("sbom")
def print_sbom() -> None:
    """A bill of materials as CycloneDX 1.6 (JSON): every package, what is compiled into it, licences, and what needs
    what. The same installation gives the same bytes."""
    typer.echo(json.dumps(build_sbom(list_components()), ensure_ascii=False, indent=2))


@app.command("licences")
def print_licences(as_json: Json = False) -> None:
    """Every package, its version and its licence."""
    language = console.get_terminal_language()
    rows = [
        (one, package.name if one is not package else "")
        for package in list_components()[1:]
        for one in (package, *package.parts)
    ]
    if as_json:
        for one, within in rows:
            console.print_json({"name": one.name, "version": one.version, "license": one.license, "part_of": within})
        return
    table = Table(
        Column(translate("licences.name", language), no_wrap=True),
        Column(translate("licences.version", language), no_wrap=True),
        translate("licences.license", language),
    )
    for one, within in rows:
        if not within:
            table.add_row(one.name, one.version, _describe_license(one, language))
    console.build_rich_console().print(table)
    counted = {"packages": sum(not within for _, within in rows), "parts": sum(bool(within) for _, within in rows)}
    typer.echo(translate("licences.counted", language, **counted))


def _describe_license(component: Component, language: str) -> str:
    return translate("licences.unknown", language) if component.license == UNKNOWN else component.license


def build_sbom(components: Sequence[Component]) -> dict[str, Any]:
    """Build the CycloneDX document. The first component is the project, the others are its dependencies."""
    project, *others = components
    refs = {one.name: one.purl for one in components}
    body = {
        "metadata": {
            "component": {**_build_entry(project, project.purl), "type": "application"},
            "tools": {"components": [{"type": "application", "name": project.name, "version": project.version}]},
        },
        "components": [_build_entry(one, one.purl) for one in others],
        "dependencies": [
            {"ref": one.purl, "dependsOn": sorted(refs[name] for name in one.needs)} for one in components
        ],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    head = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC_VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
    }
    return {**head, **body}


def _build_entry(component: Component, ref: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "library", "bom-ref": ref, "name": component.name, "version": component.version}
    if component.summary:
        entry["description"] = component.summary
    if component.license != UNKNOWN:
        is_spdx = _EXPRESSION.fullmatch(component.license) and not component.license.lower().endswith(" license")
        entry["licenses"] = [{"expression": component.license} if is_spdx else {"license": {"name": component.license}}]
    entry["purl"] = component.purl
    if component.parts:
        entry["components"] = [_build_entry(part, f"{ref}#{part.purl}") for part in component.parts]
    return entry
