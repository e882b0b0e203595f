"""Writes the extension attributes of a process file in the name of the engine that shall read them.

Each engine reads its own namespace. Some engines read others' namespaces too, depending on their version: Flowable
(from 6.8 on) and Operaton read `camunda:`, Camunda 7 reads no `operaton:`. Attributes that an engine does not read are
ignored, and a task would have no assignee. An exported file therefore has all such attributes in one name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Literal
from xml.parsers import expat

from tools.workflow.bpmn.xml import EXTERNAL_TYPES, NAMESPACES

EngineName = Literal["camunda", "operaton", "flowable"]
SERVICE_TYPES: Mapping[str, str] = {"camunda": "external", "operaton": "external", "flowable": "external-worker"}
"""Engine → the type of a service task that waits for a worker. Flowable refuses to deploy another engine's type."""
ATTRIBUTE = re.compile(rb"""\s+(?P<name>[^\s=/>"']+)(?P<equals>\s*=\s*)(?P<value>"[^"]*"|'[^']*')""")
START_OF_TAG = re.compile(rb"<[^\s/>]+")


@dataclass(slots=True)
class _StartTag:
    at: int
    """Bytes before the tag."""
    engines: Mapping[bytes, str]
    """Prefix → the engine whose namespace it stands for, on this element."""


@dataclass(slots=True)
class _TagCollector:
    """Finds the start tags of a file, and the meaning of the prefixes there."""

    parser: expat.XMLParserType
    tags: list[_StartTag] = field(default_factory=list)
    other_prefixes: set[bytes] = field(default_factory=set)
    """Prefixes that stand for another namespace somewhere."""
    element_prefixes: set[bytes] = field(default_factory=set)
    """Engines' prefixes used for elements, which can only be documentation; these prefixes and their meaning stay."""
    _scopes: list[Mapping[bytes, str]] = field(default_factory=lambda: [{}])

    def open_element(self, name: str, attributes: Mapping[str, str]) -> None:
        engines = dict(self._scopes[-1])
        for attribute, value in attributes.items():
            if attribute.startswith("xmlns:"):
                prefix = attribute.removeprefix("xmlns:").encode()
                engines.pop(prefix, None)
                if engine := next((one for one, uri in NAMESPACES.items() if uri == value), ""):
                    engines[prefix] = engine
                else:
                    self.other_prefixes.add(prefix)
        prefix = name.partition(":")[0].encode()
        if ":" in name and prefix in engines:
            self.element_prefixes.add(prefix)
        self._scopes.append(engines)
        self.tags.append(_StartTag(self.parser.CurrentByteIndex, engines))

    def close_element(self, name: str) -> None:
        self._scopes.pop()


def convert_to_engine(source: bytes, engine: EngineName) -> bytes:
    """The process file with every extension attribute in this engine's name; it compiles to the same definition.
    `source` must be a file that compiles."""
    collected, pieces, end = _collect_start_tags(source), list[bytes](), 0
    tags, prefix, kept = collected.tags, engine.encode(), collected.element_prefixes
    while prefix in collected.other_prefixes | kept:
        prefix += b"_"
    if {one for tag in tags for one in tag.engines.values()} <= {engine}:
        return source
    for number, tag in enumerate(tags):
        pieces.append(source[end : tag.at])
        rewritten, end = _rewrite_tag(source, tag, engine, prefix, kept, is_root=number == 0)
        pieces.append(rewritten)
    return b"".join((*pieces, source[end:]))


def list_extension_engines(source: bytes) -> frozenset[str]:
    """The engines in whose names the file has attributes. `source` must be a file that compiles."""
    found = set[str]()
    for tag in _collect_start_tags(source).tags:
        for attribute in _list_attributes(source, tag):
            prefix, colon, _ = attribute["name"].partition(b":")
            if colon and prefix in tag.engines:
                found.add(tag.engines[prefix])
    return frozenset(found)


def _collect_start_tags(source: bytes) -> _TagCollector:
    parser = expat.ParserCreate("utf-8")
    collector = _TagCollector(parser)
    parser.StartElementHandler, parser.EndElementHandler = collector.open_element, collector.close_element
    parser.Parse(source, True)
    return collector


def _list_attributes(source: bytes, tag: _StartTag) -> list[re.Match[bytes]]:
    start = START_OF_TAG.match(source, tag.at)
    assert start is not None
    found, at = list[re.Match[bytes]](), start.end()
    while (attribute := ATTRIBUTE.match(source, at)) is not None:
        found.append(attribute)
        at = attribute.end()
    return found


def _rewrite_tag(
    source: bytes, tag: _StartTag, engine: str, own: bytes, kept: Set[bytes], *, is_root: bool
) -> tuple[bytes, int]:
    """The start tag with its attributes in the engine's name (prefix `own`), and where they end. Other engines'
    namespaces are no longer declared, except those of `kept` prefixes; the engine's own is declared on the root."""
    start = START_OF_TAG.match(source, tag.at)
    assert start is not None
    end = start.end()
    pieces = [start[0], *([b' xmlns:%b="%b"' % (own, NAMESPACES[engine].encode())] if is_root else [])]
    for attribute in _list_attributes(source, tag):
        end = attribute.end()
        prefix, colon, local = attribute["name"].partition(b":")
        if prefix == b"xmlns" and local in tag.engines and local not in kept:
            continue
        if not colon or prefix not in tag.engines:
            pieces.append(attribute[0])
            continue
        value = attribute["value"]
        if local == b"type" and value[1:-1].decode() in EXTERNAL_TYPES:
            value = b'"%b"' % SERVICE_TYPES[engine].encode()
        pieces.append(b" %b:%b%b%b" % (own, local, attribute["equals"], value))
    return b"".join(pieces), end
