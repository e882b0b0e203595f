"""Writes a process file for the engine that shall read it.

Each engine reads extension attributes in its own namespace, and has its own word for a service task that waits for a
worker. An attribute that it does not read is ignored, and a task would have no assignee."""

from __future__ import annotations

import re
from typing import Literal

from defusedxml.ElementTree import fromstring

from tools.workflow.bpmn.xml import NAMESPACES

EngineName = Literal["camunda", "operaton", "flowable"]
DECLARATION = re.compile(rb"""(?P<before>xmlns:(?P<prefix>[^\s=]{1,64})\s{0,9}=\s{0,9}["'])(?P<uri>[^"']{1,200})""")
WORKER_TYPE = re.compile(
    rb"""(?P<before>(?<![\w.-])(?P<prefix>[\w.-]{1,64}):type\s{0,9}=\s{0,9}["'])external(?:-worker)?(?P<quote>["'])"""
    rb"""(?:\s{1,9}(?P=prefix):exclusive="false")?"""
)
NOT_EXCLUSIVE = b' %b:exclusive="false"'
"""An exclusive task locks its whole instance, and while one instance is locked, Flowable hands out no task of that
topic."""
PROCESS = re.compile(rb"<(?:[\w.-]{1,64}:)?process(?=\s)")
KEPT = "P730D"
"""How long the engine keeps an ended request where the file does not say it. Balances need two years."""


def convert_to_engine(source: bytes, engine: EngineName) -> bytes:
    """The process file in this engine's namespace and words. It compiles to the same definition. `source` must be a
    file that compiles."""
    uri, others = NAMESPACES[engine].encode(), {one.encode() for one in NAMESPACES.values()}
    prefixes = {found["prefix"] for found in DECLARATION.finditer(source) if found["uri"] in others}
    source = DECLARATION.sub(lambda m: m["before"] + (uri if m["uri"] in others else m["uri"]), source)

    def write_worker_type(found: re.Match[bytes]) -> bytes:
        if found["prefix"] not in prefixes:
            return found[0]
        if engine == "flowable":
            return found["before"] + b"external-worker" + found["quote"] + NOT_EXCLUSIVE % found["prefix"]
        return found["before"] + b"external" + found["quote"]

    source = WORKER_TYPE.sub(write_worker_type, source)
    if engine == "flowable" or b":historyTimeToLive" in source:
        return source
    kept = b'%%b xmlns:kept="%b" kept:historyTimeToLive="%b"' % (uri, KEPT.encode())
    return PROCESS.sub(lambda m: kept % m[0], source, count=1)


def list_extension_engines(source: bytes) -> frozenset[str]:
    """The engines in whose namespaces the file has attributes. `source` must be a file that compiles."""
    names = {name for element in fromstring(source).iter() for name in element.attrib}
    return frozenset(
        engine for engine, uri in NAMESPACES.items() if any(name.startswith(f"{{{uri}}}") for name in names)
    )
