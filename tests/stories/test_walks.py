"""The lists *one message through* and *one click through* of `bot/README.md`, compared with the files that run."""

import asyncio
import itertools
import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from tests.brake import MOST
from tests.harness.office import LI, ZHANG, Office

ROOT = Path(__file__).parents[2]
HOUSE = (ROOT / "bot" / "README.md").read_text(encoding="utf-8")
MOST_FILES, MOST_CLIMBS = 20, 10
NEAR = 8
"""Tolerance of the number of files in the README: a smaller difference needs no update."""
OUTSIDE = ("bot/dev/", "bot/dev/evaluation/", "tests/")
WAY = ("Task-", "lane ", "relay_events")
"""Beginnings of the names of tasks that a message or a click passes. The others are jobs of the background."""


def read_section(heading: str) -> str:
    return HOUSE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def list_walk(heading: str) -> list[str]:
    """Return the files of a list, in its order."""
    return re.findall(r"^\| \d+ \| \[`([^`]+)`\]", read_section(heading), re.M)


@contextmanager
def recording(ran: set[str]) -> Iterator[None]:
    """Record every file of the project, except the stand-ins, of which anything is called in a task on the way."""

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(f"{ROOT}/"):
            with suppress(RuntimeError):  # outside of the loop
                if (task := asyncio.current_task()) and task.get_name().startswith(WAY):
                    ran.add(frame.f_code.co_filename.removeprefix(f"{ROOT}/"))

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        ran -= {file for file in ran if file.startswith((*OUTSIDE, "."))}


def hold_against(heading: str, ran: set[str]) -> None:
    walk = list_walk(heading)
    code = {file for file in walk if file.endswith(".py")}
    assert len(walk) == len(set(walk)) <= MOST_FILES
    assert code <= ran, f"in the list of {heading!r}, and not called: {sorted(code - ran)}"
    most = MOST[f"files that run for a {heading.split()[1]}"]
    assert len(ran) <= most, f"{heading}: {len(ran)} files have run, at most {most}"
    bot = sum(file.startswith("bot/") for file in ran)
    claims = r"(\d+) files run in all.*?: (\d+) of `bot` and (\d+) of\s+`tools`"
    [claimed] = re.findall(claims, read_section(heading), re.S)
    for one, found in zip(map(int, claimed), (len(ran), bot, len(ran) - bot), strict=True):
        assert abs(one - found) <= NEAR, f"{heading}: {one} files are claimed, {found} have run"


async def test_the_files_of_the_lists_are_those_that_run(desk: Office) -> None:
    """Two are played: a job of the background that happens to run beside one of them belongs to neither."""
    with recording(ran := set[str]()):
        await desk.answer(ZHANG, "谁姓李？")  # loads modules that are loaded once
        await desk.quiet()
    assert "bot/approvals/press.py" not in ran and "bot/conversation/turn.py" in ran, "control: without a press"
    messages, clicks = list[set[str]](), list[set[str]]()
    for request, reason in (
        ("明天起请2天年假，去看父母，审批人李四", "去看父母"),
        ("下下周一起请2天年假，搬家，审批人李四", "搬家"),
    ):
        with recording(ran := set()):
            await desk.says(ZHANG, request)
            card = await desk.card(desk.dm(ZHANG), reason)
            await desk.quiet()
        messages.append(ran)
        await desk.press(ZHANG, card, "confirm")
        card = await desk.card(desk.dm(LI), reason)
        await desk.quiet()
        with recording(ran := set()):
            await desk.press(LI, card, "approve")
            await desk.until(lambda: desk.said(desk.dm(ZHANG)).count("已通过") > len(clicks))
            await desk.quiet()
        clicks.append(ran)
    hold_against("One message through", set.intersection(*messages))
    hold_against("One click through", set.intersection(*clicks))


def test_the_click_climbs_seldom() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    layers = next(one["layers"] for one in project["importlinter"]["contracts"] if one["type"] == "layers")
    rooms = {room.strip(): -n for n, layer in enumerate(layers) for room in re.split(r"[|:]", layer)}

    def find_floor(file: str) -> int:
        module = file.removesuffix(".py").replace("/", ".")
        fits = [room for room in rooms if module == room or module.startswith(f"{room}.")]
        return rooms[max(fits, key=len)] if fits else -len(layers)

    floors = [find_floor(file) for file in list_walk("One click through")]
    climbs = sum(higher > lower for lower, higher in itertools.pairwise(floors))
    said = re.search(r"climbs from a lower room\s+to a higher one (\w+) times", HOUSE)
    assert climbs <= MOST_CLIMBS and said and said[1] == NUMBERS[climbs], climbs


NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
