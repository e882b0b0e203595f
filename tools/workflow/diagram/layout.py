"""Reads BPMN DI: the positions of shapes and flows in a process file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple
from xml.etree.ElementTree import Element, ParseError

from defusedxml.ElementTree import fromstring

from tools.spec import ToolError
from tools.workflow.bpmn.xml import BPMN, DIAGRAM, FLOW, LOOP, get_tag_name

DC = "{http://www.omg.org/spec/DD/20100524/DC}"
DI = "{http://www.omg.org/spec/DD/20100524/DI}"
TASKS = frozenset({"userTask", "serviceTask"})
GATEWAYS = frozenset({"exclusiveGateway", "parallelGateway"})
EVENTS = frozenset({"startEvent", "endEvent", "boundaryEvent"})
DRAWN = TASKS | GATEWAYS | EVENTS | {FLOW}
MAX_COORDINATE = 20_000
"""Largest coordinate, in pixels. A larger diagram would fill the memory."""


class Point(NamedTuple):
    x: float
    y: float


class Box(NamedTuple):
    """A rectangle, by its upper left corner, in pixels."""

    x: float
    y: float
    w: float
    h: float

    @property
    def center(self) -> Point:
        return Point(self.x + self.w / 2, self.y + self.h / 2)

    @property
    def right(self) -> float:
        return self.x + self.w

    @property
    def bottom(self) -> float:
        return self.y + self.h

    def measure_overlap(self, other: Box) -> float:
        """The area that both boxes cover."""
        across = min(self.right, other.right) - max(self.x, other.x)
        down = min(self.bottom, other.bottom) - max(self.y, other.y)
        return max(0.0, across) * max(0.0, down)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    id: str
    kind: str
    """The element's name, e.g. `userTask`."""
    name: str
    box: Box
    label: Point | None
    """The middle of the name's position in the file, if the name is outside the shape."""
    multi_instance: str = ""
    """For a task with several people: `parallel` or `sequential`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    id: str
    name: str
    points: tuple[Point, ...]
    label: Point | None


@dataclass(frozen=True, slots=True)
class Diagram:
    shapes: tuple[Shape, ...]
    edges: tuple[Edge, ...]


def read_diagram(bpmn: bytes) -> Diagram:
    """The diagram in a process file. Raises `ToolError` `no_diagram` if any part is missing: half a diagram would
    mislead."""
    try:
        root = fromstring(bpmn.decode("utf-8"), forbid_dtd=True)
        elements = {e.attrib["id"]: e for e in root.iterfind(f"{BPMN}process/*") if get_tag_name(e) in DRAWN}
        places = {e.get("bpmnElement", ""): e for e in root.iter() if e.tag.startswith(DIAGRAM)}
        flows = {id: e for id, e in elements.items() if get_tag_name(e) == FLOW}
        shapes = tuple(_read_shape(id, e, places[id]) for id, e in elements.items() if id not in flows)
        if not shapes:
            raise ValueError("nothing to draw")
        return Diagram(shapes, tuple(_read_edge(id, e, places[id]) for id, e in flows.items()))
    except (ParseError, ValueError, KeyError) as wrong:
        raise ToolError("no_diagram", f"the process file has no complete diagram: {wrong}") from None


def _read_shape(id: str, element: Element, place: Element) -> Shape:
    box = _read_bounds(place)
    if box is None:
        raise ValueError(f"{id} has no bounds")
    several = element.find(f"{BPMN}{LOOP}")
    is_sequential = several is not None and several.get("isSequential") == "true"
    return Shape(
        id=id,
        kind=get_tag_name(element),
        name=element.get("name", ""),
        box=box,
        label=_read_label_center(place),
        multi_instance="" if several is None else "sequential" if is_sequential else "parallel",
    )


def _read_edge(id: str, element: Element, place: Element) -> Edge:
    corners = (Point(_read_coordinate(e, "x"), _read_coordinate(e, "y")) for e in place.iterfind(f"{DI}waypoint"))
    points = tuple(point for point, _ in groupby(corners))  # without immediate repetitions
    if len(points) < 2:
        raise ValueError(f"{id} has no way")
    return Edge(id=id, name=element.get("name", ""), points=points, label=_read_label_center(place))


def _read_label_center(place: Element) -> Point | None:
    label = place.find(f"{DIAGRAM}BPMNLabel")
    box = _read_bounds(label) if label is not None else None
    return box.center if box else None


def _read_bounds(place: Element) -> Box | None:
    bounds = place.find(f"{DC}Bounds")
    if bounds is None:
        return None
    box = Box(*(_read_coordinate(bounds, name) for name in ("x", "y", "width", "height")))
    if box.w <= 0 or box.h <= 0:
        raise ValueError("a shape without a size")
    return box


def _read_coordinate(element: Element, name: str) -> float:
    number = float(element.attrib[name])
    if not math.isfinite(number) or abs(number) > MAX_COORDINATE:
        raise ValueError(f"{name} is out of bounds")
    return number
