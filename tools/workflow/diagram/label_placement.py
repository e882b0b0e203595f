"""Places the name of a shape or flow beside it, where it covers the least."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from tools.workflow.diagram.layout import Box, Point

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
