"""The picture of a process: complete, readable, and true to what was taken."""

import re
from collections.abc import Sequence
from importlib import resources
from itertools import combinations
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.corpus import corpus
from tests.harness.processes import FILES
from tools.spec import ToolError
from tools.workflow.diagram.labels import LEADING, find_font_file, list_missing_glyphs, measure_width, wrap_label
from tools.workflow.diagram.layout import Box, Point, Shape, read_diagram
from tools.workflow.diagram.render import rasterize_svg, render_picture, render_png
from tools.workflow.diagram.svg import LabelPlacer, build_segment_boxes, draw_diagram, list_label_positions

FOLDER = resources.files("tools.workflow").joinpath("definitions")
SHIPPED = {name: FOLDER.joinpath(f"{name}.bpmn").read_bytes() for name in ("leave", "expense")}
LEAVE = SHIPPED["leave"]
TAKEN = ("submitted", "to_length", "length", "longer", "first_level")
SVG = "{http://www.w3.org/2000/svg}"
PNG = b"\x89PNG\r\n\x1a\n"
FONT = find_font_file()
DRAWN = {**SHIPPED, "trip": (FILES / "trip.bpmn").read_bytes()}
"""With the one to start from."""
drawn = pytest.mark.parametrize("bpmn", DRAWN.values(), ids=DRAWN)


def render_svg(bpmn: bytes, done: Sequence[str], active: Sequence[str], language: str) -> str:
    return draw_diagram(read_diagram(bpmn), frozenset(done), frozenset(active), language).svg


def small(name: str, place: str = '<dc:Bounds x="10" y="10" width="120" height="80"/>') -> bytes:
    return f"""<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL"
    xmlns:bpmndi="http://www.omg.org/spec/BPMN/20100524/DI" xmlns:dc="http://www.omg.org/spec/DD/20100524/DC">
    <bpmn:process id="p"><bpmn:userTask id="t" name="{name}"/></bpmn:process><bpmndi:BPMNDiagram><bpmndi:BPMNPlane>
    <bpmndi:BPMNShape bpmnElement="t">{place}</bpmndi:BPMNShape></bpmndi:BPMNPlane></bpmndi:BPMNDiagram>
    </bpmn:definitions>""".encode()


def texts(svg: str) -> list[Element]:
    return list(fromstring(svg).iter(f"{SVG}text"))


def area(text: Element) -> Box:
    size, wide = float(text.attrib["font-size"]), measure_width(text.text or "") * float(text.attrib["font-size"])
    x, y = float(text.attrib["x"]), float(text.attrib["y"])
    return Box(x - wide / 2, y - size * 0.8, wide, size)


def refused(bpmn: bytes, font: Path | None = None) -> str:
    with pytest.raises(ToolError) as error:
        render_png(bpmn, frozenset(), frozenset(), "zh", font or FONT)
    return error.value.code


@drawn
def test_flows_begin_and_end_at_what_they_join_and_nothing_covers_anything(bpmn: bytes) -> None:
    diagram = read_diagram(bpmn)
    ids = [one.id for one in (*diagram.shapes, *diagram.edges)]
    assert sorted(ids) == sorted(re.findall(r'bpmnElement="(\w+)"', bpmn.decode())[1:]), "each has its place"
    found = re.findall(r'<bpmn:sequenceFlow id="(\w+)".*?sourceRef="(\w+)" targetRef="(\w+)"', bpmn.decode())
    ends = {id: (source, target) for id, source, target in found}
    shapes = {shape.id: shape for shape in diagram.shapes}
    for edge in diagram.edges:
        for point, id in zip((edge.points[0], edge.points[-1]), ends[edge.id], strict=True):
            assert Box(point.x - 1, point.y - 1, 2, 2).measure_overlap(shapes[id].box), edge.id
        for shape in shapes.values():
            crossed = sum(line.measure_overlap(shape.box) for line in build_segment_boxes(edge.points))
            assert shape.id in ends[edge.id] or not crossed, (edge.id, shape.id)
    outside = [shape for shape in read_diagram(bpmn).shapes if shape.kind != "boundaryEvent"]
    assert not [(a.id, b.id) for a, b in combinations(outside, 2) if a.box.measure_overlap(b.box)]
    names = [(one.text, area(one)) for one in texts(render_svg(bpmn, [], [], "zh"))]
    assert not [(a, b) for (a, one), (b, other) in combinations(names, 2) if one.measure_overlap(other) > 1]
    covered = ((text, box, box.measure_overlap(shape.box)) for text, box in names for shape in outside)
    assert not [text for text, box, share in covered if 1 < share < 0.99 * box.w * box.h]


def test_what_was_taken_is_what_is_current_and_what_is_not_are_told_apart() -> None:
    svg = render_svg(LEAVE, TAKEN, ["first_level"], "en")
    tasks = [one.get("class") for one in fromstring(svg).iter(f"{SVG}rect") if one.get("rx") == "9"]
    assert (tasks.count("now"), tasks.count("done")) == (1, 0)
    heads = [one.get("class") for one in fromstring(svg).iter(f"{SVG}polygon")]
    assert (heads.count("done head thin"), heads.count("now head thin")) == (2, 0)
    assert render_svg(LEAVE, (), (), "en").count('class="tick"') == 1
    assert render_svg(LEAVE, ("first_level",), (), "en").count('class="tick"') == 2
    for language, legend in (("zh", "当前步骤"), ("en", "Current step")):
        assert legend in " ".join(one.text or "" for one in texts(render_svg(LEAVE, (), (), language)))
    shapes: dict[str, Shape] = {shape.id: shape for shape in read_diagram(SHIPPED["expense"]).shapes}
    assert shapes["finance"].multi_instance == "parallel" and not shapes["approval"].multi_instance
    assert shapes["finance_remind"].kind == "boundaryEvent"


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp")), max_size=12))
def test_a_name_never_becomes_markup(name: str) -> None:
    escaped = name.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    shown = texts(render_svg(small(f"a{escaped}"), (), (), "en"))[0]
    assert f"a{name}".startswith((shown.text or "").rstrip("…"))


@corpus(
    "place",
    "",
    '<dc:Bounds x="0" y="0" width="nan" height="80"/>',
    '<dc:Bounds x="0" y="0" width="1e9" height="80"/>',
    '<dc:Bounds x="0" y="0" width="0" height="80"/>',
    '<dc:Bounds x="0" y="0" width="80"/>',
)
def test_a_shape_without_a_sensible_size_half_a_picture_and_a_file_that_is_none_are_no_picture(place: str) -> None:
    assert refused(small("审批", place)) == "no_diagram"
    for lost in ("BPMNShape", "BPMNEdge"):
        less = re.sub(rf"<bpmndi:{lost} .*?</bpmndi:{lost}>".encode(), b"", LEAVE, count=1, flags=re.DOTALL)
        assert refused(less) == "no_diagram"
    for file in (b"", b"<a/>", b"\xff", b'<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>'):
        assert refused(file) == "no_diagram"


async def test_every_shipped_process_is_painted_and_the_same_picture_once_and_chinese_can_be_read() -> None:
    """Characters that a font does not have all look the same."""
    one, other = await render_picture(small("审"), [], [], "en"), await render_picture(small("批"), [], [], "en")
    assert one.startswith(PNG) and other.startswith(PNG) and one != other
    for bpmn in SHIPPED.values():
        assert (await render_picture(bpmn, TAKEN, ["first_level"], "zh")).startswith(PNG)
    first = await render_picture(small("审批"), ["t", "u"], [], "zh")
    assert await render_picture(small("审批"), ("u", "t"), set(), "zh") is first
    assert await render_picture(small("审批"), [], ["t"], "zh") != first
    assert FONT
    with pytest.raises(ToolError) as error:
        rasterize_svg("no picture at all", FONT, 1)
    assert error.value.code == "no_picture"


def test_a_name_the_font_cannot_write_is_no_picture_and_never_boxes(tmp_path: Path) -> None:
    assert refused(small("อนุมัติ")) == "no_font"
    assert refused(small("审批"), tmp_path / "none.otf") == "no_font"
    assert FONT and not list_missing_glyphs("请假审批：≤ 1 天，Größe €5…", FONT)
    assert list_missing_glyphs("审😀", FONT) == "😀"


@corpus(
    ("name", "ems", "most", "split", "shown"),
    ("", 8, 3, False, ()),
    ("同意 Yes", 9, 3, False, ("同意 Yes",)),
    ("审批 Approval", 9, 3, True, ("审批", "Approval")),
    ("二级审批 Second approval", 8, 3, False, ("二级审批", "Second approval")),
    ("同意吗？", 3, 3, False, ("同意", "吗？")),
    ("one two three", 4, 3, False, ("one two", "three")),
    ("一二三四五六", 2, 2, False, ("一二", "三…")),
    ("abcdefghij", 2, 9, False, ("abc", "defg", "hij")),
)
def test_where_names_break(name: str, ems: float, most: int, split: bool, shown: tuple[str, ...]) -> None:
    assert wrap_label(name, ems, most, split=split) == shown


@given(st.text("审批 Ab,？", max_size=30), st.floats(1.5, 12), st.integers(1, 4))
def test_no_line_is_longer_than_allowed(name: str, ems: float, most: int) -> None:
    found = wrap_label(name, ems, most)
    assert len(found) <= most and all(measure_width(line) <= max(ems, 2) for line in found)


def test_a_name_goes_where_the_file_wants_it_unless_it_would_cover_something() -> None:
    box, wanted = Box(0, 0, 50, 50), Point(25, 70)
    assert LabelPlacer([box]).place_label(wanted, list_label_positions(box, 40, 12 * LEADING), 40, 12) == wanted
    crowded = LabelPlacer([box, Box(0, 55, 50, 40)])
    assert crowded.place_label(wanted, list_label_positions(box, 40, 12), 40, 12) != wanted
    assert not crowded.placed[0].measure_overlap(Box(0, 55, 50, 40))
