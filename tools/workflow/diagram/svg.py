"""Draws a diagram as SVG: visited elements are green and ticked, current ones amber, the others grey."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from xml.sax.saxutils import escape, quoteattr

from tools.languages import choose_words
from tools.workflow.diagram.labels import FAMILY, LEADING, measure_width, wrap_label
from tools.workflow.diagram.layout import EVENTS, GATEWAYS, TASKS, Box, Diagram, Edge, Point, Shape

TEXT, SMALL = 13.0, 12.0
"""Font sizes inside tasks and beside shapes."""
LOW_HEIGHT = 56.0
"""Height below which a task has the smaller letters."""
MARGIN = 24.0
LEGEND: Mapping[str, tuple[str, str, str]] = {
    "zh": ("已经过", "当前步骤", "尚未到达"),
    "en": ("Taken", "Current step", "Not reached"),
}
STYLE = (
    f"text{{font-family:'{FAMILY}';text-anchor:middle}}"
    ".later{stroke:#aab2bd;fill:#f6f7f9;stroke-width:1.5}"
    ".done{stroke:#1a7f4b;fill:#e3f5ea;stroke-width:2}"
    ".now{stroke:#b45309;fill:#ffd66b;stroke-width:3}"
    ".halo{stroke:#ffb020;stroke-opacity:.35;stroke-width:10;fill:none}"
    ".thin{stroke-width:1.5}.none{fill:none}"
    "text.done{fill:#0f5132;stroke:none}text.now{fill:#4a2500;stroke:none}"
    "text.later{fill:#5f6b7a;stroke:none}"
    "text.beside{stroke:#fff;stroke-width:4;stroke-linejoin:round;paint-order:stroke}"
    ".head.later{fill:#aab2bd}.head.done{fill:#1a7f4b}.head.now{fill:#b45309}"
    ".tick{fill:#1a7f4b;stroke:#fff;stroke-width:1.5}.check{fill:none;stroke:#fff;stroke-width:1.8}"
)


class ElementState(StrEnum):
    """How far a request has come at an element; also the CSS class."""

    LATER = "later"
    DONE = "done"
    NOW = "now"


@dataclass(frozen=True, slots=True, kw_only=True)
class SvgDrawing:
    svg: str
    text: str
    """All text in the drawing."""
    width: float
    height: float


class SvgBuilder:
    """Collects elements and their text."""

    def __init__(self) -> None:
        self.elements: list[str] = []
        self.text: list[str] = []

    def add_element(self, tag: str, kind: str, **values: float | str) -> None:
        """Add an element of class `kind`. `stroke_width=2` becomes the attribute `stroke-width`."""
        self.elements.append(f"<{tag} class={quoteattr(kind)}{_format_attributes(values)}/>")

    def add_text(self, middle: Point, text: tuple[str, ...], kind: str, size: float) -> None:
        """Add lines of text around a middle."""
        step = size * LEADING
        top = middle.y - step * (len(text) - 1) / 2 + size * 0.36
        for number, line in enumerate(text):
            where = _format_attributes({"x": middle.x, "y": top + number * step, "font_size": size})
            self.elements.append(f"<text class={quoteattr(kind)}{where}>{escape(line)}</text>")
        self.text += text


def draw_diagram(diagram: Diagram, done: frozenset[str], active: frozenset[str], language: str) -> SvgDrawing:
    """Draw a diagram. `done` and `active` are ids of nodes and flows; an id in both is current. `language` is the
    language of the legend: `zh` or `en`."""
    pen, placer = SvgBuilder(), LabelPlacer(s.box for s in diagram.shapes)
    for edge in diagram.edges:
        placer.avoid_path(edge.points)

    def get_state(id: str) -> ElementState:
        return ElementState.NOW if id in active else ElementState.DONE if id in done else ElementState.LATER

    for edge in sorted(diagram.edges, key=lambda e: get_state(e.id) is not ElementState.LATER):
        _draw_edge(pen, edge, get_state(edge.id))
    for shape in sorted(diagram.shapes, key=lambda s: s.kind == "boundaryEvent"):
        SHAPES[shape.kind](pen, shape, get_state(shape.id))
    for one in diagram.shapes:
        if one.kind not in TASKS and (text := wrap_label(one.name, 8.5, 3, split=one.kind != "boundaryEvent")):
            size = _measure_lines(text)
            middle = placer.place_label(one.label, list_label_positions(one.box, *size), *size)
            pen.add_text(middle, text, f"{get_state(one.id)} beside", SMALL)
    for edge in diagram.edges:
        if text := wrap_label(edge.name, 9, 3):
            size = _measure_lines(text)
            around = [p for box in build_segment_boxes(edge.points) for p in list_label_positions(box, *size)]
            pen.add_text(placer.place_label(edge.label, around, *size), text, f"{get_state(edge.id)} beside", SMALL)
    return _build_svg(pen, diagram, placer, language)


def _measure_lines(text: tuple[str, ...]) -> tuple[float, float]:
    """The width and the height of lines beside a shape."""
    return max(measure_width(line) for line in text) * SMALL + 2, len(text) * SMALL * LEADING


def _draw_edge(pen: SvgBuilder, edge: Edge, state: ElementState) -> None:
    path = f"M{edge.points[0].x:g},{edge.points[0].y:g}"
    for before, at, after in zip(edge.points, edge.points[1:], edge.points[2:], strict=False):
        start, end = _move_towards(at, before), _move_towards(at, after)
        path += f"L{start.x:g},{start.y:g}Q{at.x:g},{at.y:g} {end.x:g},{end.y:g}"
    (x0, y0), (x, y) = edge.points[-2:]
    pen.add_element("path", f"{state} none", d=f"{path}L{x:g},{y:g}")
    length = math.hypot(x - x0, y - y0)
    dx, dy = (x - x0) / length, (y - y0) / length
    base = Point(x - 10 * dx, y - 10 * dy)
    corners = (Point(x, y), Point(base.x - 4.5 * dy, base.y + 4.5 * dx), Point(base.x + 4.5 * dy, base.y - 4.5 * dx))
    pen.add_element("polygon", f"{state} head thin", points=" ".join(f"{p.x:g},{p.y:g}" for p in corners))


def _move_towards(at: Point, other: Point) -> Point:
    """The point on the way to another where the rounding of a corner begins."""
    length = math.hypot(other.x - at.x, other.y - at.y)
    part = min(8, length / 2) / length
    return Point(at.x + (other.x - at.x) * part, at.y + (other.y - at.y) * part)


def _draw_task(pen: SvgBuilder, shape: Shape, state: ElementState) -> None:
    box, corners = shape.box, {"rx": 9}
    frame = {"x": box.x, "y": box.y, "width": box.w, "height": box.h, **corners}
    if state is ElementState.NOW:
        pen.add_element("rect", "halo", **frame)
    pen.add_element("rect", state, **frame)
    icon, thin = Point(box.x + 13, box.y + 13), f"{state} none thin"
    if shape.kind == "userTask":  # a person
        pen.add_element("circle", thin, cx=icon.x, cy=icon.y - 2.5, r=2.8)
        pen.add_element("path", thin, d=f"M{icon.x - 5:g},{icon.y + 6:g}a5,5 0 0 1 10,0z")
    else:  # a gear
        pen.add_element("circle", thin, cx=icon.x, cy=icon.y, r=3.4)
        teeth = ((math.cos(turn * math.tau / 8), math.sin(turn * math.tau / 8)) for turn in range(8))
        drawn = (f"M{icon.x + 3.4 * x:g},{icon.y + 3.4 * y:g}l{2.6 * x:g},{2.6 * y:g}" for x, y in teeth)
        pen.add_element("path", thin, d="".join(drawn))
    middle, low = box.center.x, box.bottom - 8
    if shape.multi_instance == "parallel":
        pen.add_element("path", thin, d="".join(f"M{middle + step:g},{low - 4:g}v8" for step in (-4, 0, 4)))
    elif shape.multi_instance:
        pen.add_element("path", thin, d="".join(f"M{middle - 5:g},{low + step:g}h10" for step in (-4, 0, 4)))
    size = SMALL if box.h < LOW_HEIGHT else TEXT
    most = max(1, int((box.h - 6) / (size * LEADING)))
    pen.add_text(box.center, wrap_label(shape.name, (box.w - 10) / size, most, split=most > 1), state, size)
    if state is ElementState.DONE:
        _draw_tick(pen, Point(box.right - 3, box.y + 3))


def _draw_tick(pen: SvgBuilder, at: Point) -> None:
    pen.add_element("circle", "tick", cx=at.x, cy=at.y, r=8)
    pen.add_element("path", "check", d=f"M{at.x - 3.6:g},{at.y + 0.2:g}l2.6,2.8l4.6,-5.4")


def _draw_gateway(pen: SvgBuilder, shape: Shape, state: ElementState) -> None:
    x, y = shape.box.center
    w, h = shape.box.w / 2, shape.box.h / 2
    outline = f"{x:g},{y - h:g} {x + w:g},{y:g} {x:g},{y + h:g} {x - w:g},{y:g}"
    if state is ElementState.NOW:
        pen.add_element("polygon", "halo", points=outline)
    pen.add_element("polygon", state, points=outline)
    a = w * 0.3
    cross = f"M{x - a:g},{y - a:g}l{2 * a:g},{2 * a:g}m0,{-2 * a:g}l{-2 * a:g},{2 * a:g}"
    plus = f"M{x - w * 0.5:g},{y:g}h{w:g}M{x:g},{y - w * 0.5:g}v{w:g}"
    pen.add_element(
        "path", f"{state} none", d=plus if shape.kind == "parallelGateway" else cross, stroke_linecap="round"
    )


def _draw_event(pen: SvgBuilder, shape: Shape, state: ElementState) -> None:
    (x, y), r = shape.box.center, shape.box.w / 2
    if state is ElementState.NOW:
        pen.add_element("circle", "halo", cx=x, cy=y, r=r)
    if shape.kind == "endEvent":
        pen.add_element("circle", state, cx=x, cy=y, r=r - 1, style="stroke-width:4")
    else:
        pen.add_element("circle", state, cx=x, cy=y, r=r)


def _draw_timer(pen: SvgBuilder, shape: Shape, state: ElementState) -> None:
    (x, y), r = shape.box.center, shape.box.w / 2
    for radius in (r, r - 3):
        pen.add_element("circle", f"{state} thin", cx=x, cy=y, r=radius, stroke_dasharray="4 2.4")
    pen.add_element("path", f"{state} none thin", d=f"M{x:g},{y - r * 0.5:g}V{y:g}L{x + r * 0.36:g},{y + r * 0.2:g}")


SHAPES = (
    dict.fromkeys(TASKS, _draw_task)
    | dict.fromkeys(GATEWAYS, _draw_gateway)
    | dict.fromkeys(EVENTS, _draw_event)
    | {"boundaryEvent": _draw_timer}
)


def _build_svg(pen: SvgBuilder, diagram: Diagram, placer: LabelPlacer, language: str) -> SvgDrawing:
    """The bounds of everything drawn, with a margin; below it the legend of the colours."""
    boxes = [*(s.box for s in diagram.shapes), *placer.placed]
    points = [Point(b.x, b.y) for b in boxes] + [Point(b.right, b.bottom) for b in boxes]
    points += [p for edge in diagram.edges for p in edge.points]
    left, top = min(p.x for p in points) - MARGIN, min(p.y for p in points) - MARGIN
    extent = Box(left, top, max(p.x for p in points) + MARGIN - left, max(p.y for p in points) + MARGIN - top)
    x, y = extent.x + MARGIN, extent.bottom + 4
    for state, word in zip(
        (ElementState.DONE, ElementState.NOW, ElementState.LATER), choose_words(LEGEND, language), strict=True
    ):
        pen.add_element("rect", state, x=x, y=y - 8, width=26, height=16, rx=5)
        if state is ElementState.DONE:
            _draw_tick(pen, Point(x + 25, y - 7))
        width = measure_width(word) * SMALL
        pen.add_text(Point(x + 34 + width / 2, y), (word,), ElementState.LATER, SMALL)
        x += 34 + width + 26
    wide, high = max(extent.w, x - 26 + MARGIN - left), extent.h + 30
    frame = f'width="{wide:g}" height="{high:g}" viewBox="{left:g} {top:g} {wide:g} {high:g}"'
    body = "".join(pen.elements)
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" {frame}><style>{STYLE}</style>{body}</svg>'
    return SvgDrawing(svg=svg, text="".join(pen.text), width=wide, height=high)


def _format_attributes(values: Mapping[str, float | str]) -> str:
    texts = {name: value if isinstance(value, str) else f"{value:g}" for name, value in values.items()}
    return "".join(f" {name.replace('_', '-')}={quoteattr(text)}" for name, text in texts.items())


GAP = 4.0
LINE = 3.0
"""The width of a flow."""


class LabelPlacer:
    """Places names and keeps track of the occupied areas. `placed` has the names so far."""

    def __init__(self, taken: Iterable[Box]) -> None:
        self._occupied = list(taken)
        self.placed: list[Box] = []

    def avoid_path(self, points: tuple[Point, ...]) -> None:
        """Keep names away from this path if possible."""
        self._occupied += build_segment_boxes(points)

    def place_label(self, wanted: Point | None, others: Iterable[Point], width: float, height: float) -> Point:
        """The middle of a name of this size: where the file wants it, unless the name covers less elsewhere."""
        middles = [*([wanted] if wanted else []), *others]
        boxes = [Box(p.x - width / 2, p.y - height / 2, width, height) for p in middles]
        taken = [(other, 1) for other in self._occupied] + [(other, 4) for other in self.placed]
        best = min(boxes, key=lambda box: sum(weight * box.measure_overlap(other) for other, weight in taken))
        self.placed.append(best)
        return best.center


def build_segment_boxes(points: tuple[Point, ...]) -> list[Box]:
    """The straight parts of a path as thin boxes, beginning at its start, where it shares no line with other paths
    yet."""
    return [
        Box(min(x, x2) - LINE / 2, min(y, y2) - LINE / 2, abs(x - x2) + LINE, abs(y - y2) + LINE)
        for (x, y), (x2, y2) in pairwise(points)
    ]


def list_label_positions(box: Box, width: float, height: float) -> Iterator[Point]:
    """Yield positions for a name of this size around a box: below, above, at its sides, beside its middle line."""
    x, y = box.center
    across, down = (box.w + width) / 2 + GAP, (box.h + height) / 2 + GAP
    yield from (Point(x, y + down), Point(x, y - down), Point(x + across, y), Point(x - across, y))
    for dx in (width / 2 + GAP, -width / 2 - GAP):
        yield from (Point(x + dx, y - down), Point(x + dx, y + down))
