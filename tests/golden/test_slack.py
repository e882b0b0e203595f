"""What Slack is sent: the blocks of each kind of message, dialog and page; and the calls of one leave from the message
to the answer, in Chinese and in English."""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.app.settings import Settings
from bot.platforms.slack.blocks import render_post
from bot.platforms.slack.dialogs import render_modal
from bot.platforms.slack.forms import render_form
from bot.platforms.slack.home import render_home_dialog, render_home_view
from tests.golden.golden_files import compare_sections, format_json, hide_changing
from tests.golden.rendering import format_line
from tests.golden.shown import DIALOG, FORM, HOME, HOME_DIALOG, POSTS
from tests.golden.stored import Shapes
from tests.harness.office import ANN, LI, ZHANG, Office, office


def format_blocks(blocks: Sequence[Any]) -> list[str]:
    return [line for block in blocks for line in format_json(block).split("\n")]


def format_view(view: dict[str, Any]) -> list[str]:
    """A view: its blocks, then everything else of it."""
    rest = {name: _open(value) for name, value in view.items() if name != "blocks"}
    return [*format_blocks(view["blocks"]), format_json(rest)]


def _open(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) and value.startswith("{") else value


def test_the_blocks_of_each_kind() -> None:
    found: dict[str, list[str]] = {}
    for title, post in POSTS.items():
        for number, shown in enumerate(render_post(post), 1):
            part = f"{title}{f', part {number}' if number > 1 else ''}"
            found[part] = [f"text: {shown.text}", *format_blocks(shown.blocks)]
    form = render_form(FORM)
    assert form is not None
    views = {
        "dialog": render_modal(DIALOG),
        "its second page": render_modal(DIALOG, 1, {"text": "x"}),
        "form": form,
        "home": render_home_view(HOME, "zh", "D1"),
        "dialog of home": render_home_dialog(HOME_DIALOG, "zh", "D1"),
    }
    compare_sections("slack/blocks.txt", found | {title: format_view(view) for title, view in views.items()})


SAYING = ("chat.", "views.", "files.", "reactions.")
"""Methods of the Web API by which people see something."""
FLEETING = ("{people}", ":seen:", ":home_changed", ":processes", ":once:")
"""In keys of what is there or not by chance: a copy of Slack's list, what is renewed every few seconds."""
BEGINS = datetime(2099, 1, 5, 2, 0, tzinfo=UTC)
"""What the bot's clock shows when a story begins: no date of it is that of the day on which it is told."""


def describe_call(method: str, args: dict[str, Any]) -> Iterator[str]:
    """Everything that is sent but what stands in the blocks: of them, the kinds."""
    rest, blocks, view = dict(args), args.get("blocks"), args.get("view")
    place = [str(rest.pop(name)) for name in ("channel", "user", "user_id") if name in rest]
    yield f"{method} {' '.join(place)}".rstrip()
    if "metadata" in rest:
        yield from format_line(
            "key", hide_changing("{key}, part {part}".format(**_open(rest["metadata"])["event_payload"]))
        )
    for name in sorted(rest.keys() - {"blocks", "view", "metadata"}):
        value = rest[name] if isinstance(rest[name], str) else format_json(rest[name])
        yield from format_line(name, hide_changing(value))
    for shown in filter(None, (blocks, view and _open(view)["blocks"])):
        yield from format_line("blocks", " ".join(one["type"] for one in _open(shown)))
    if view:
        named = _open(view).keys() - {"blocks", "title", "submit", "close"}
        about = {name: _open(value) for name, value in _open(view).items() if name in named}
        yield from format_line("view", hide_changing(format_json(about)))


def shows_steps(args: dict[str, Any]) -> bool:
    """Messages of steps are rewritten as often as there is time: they are left out."""
    return any(one["type"] in ("plan", "task_card") for one in _open(args.get("blocks")) or [])


def describe_calls(desk: Office) -> list[str]:
    """What the workspace was sent, and how presses and dialogs were acknowledged: each once, without an order."""
    calls = [one for one in desk.driver.calls if one.method.startswith(SAYING) and one.error != "ratelimited"]
    found = {tuple(describe_call(one.method, one.args)) for one in calls if not shows_steps(one.args)}
    for answer in filter(None, desk.driver.acks):
        found.add(("answer", *format_line("", hide_changing(format_json(answer)))))
    return [line for block in sorted(found) for line in (*block, "")]


@asynccontextmanager
async def open_story(redis_url: str, patch: pytest.MonkeyPatch) -> AsyncIterator[Office]:
    """An office with the bot at work in it, whose clock shows always the same moment when it begins."""
    for setting in Settings.model_fields:
        patch.delenv(setting.upper(), raising=False)  # those of this machine are none of the story's
    async with office(redis_url) as desk:
        desk.clock.offset = BEGINS - datetime.now(UTC)
        async with desk.opened():
            yield desk


async def tell_story(desk: Office, person: str, words: str, *, opinion: str) -> None:
    """A leave that is asked for, edited, confirmed, rejected, handed in again and approved."""
    here, there = desk.dm(person), desk.dm(LI)
    await desk.says(person, words)
    await desk.press(person, await desk.card(here), "edit")
    await desk.fill(person, field_reason="visiting my parents in Suzhou")
    await desk.press(person, await desk.card(here, "Suzhou"), "confirm")
    card = await desk.card(there, "L-0001")
    await desk.until(lambda: desk.finals(here))
    await desk.quiet()
    await desk.press(LI, card, "reject")
    await desk.fill(LI, opinion=" ")
    await desk.fill(LI, opinion=opinion)
    card = await desk.card(here, opinion)
    await desk.quiet()
    await desk.press(person, card, "resubmit")
    await desk.fill(person, field_reason="my mother’s birthday")
    card = await desk.card(there, "birthday")
    await desk.quiet()
    await desk.press(LI, card, "approve")
    await desk.until(lambda: any(one in desk.said(here) for one in ("L-0001 已通过", "L-0001 is approved")))
    await desk.quiet()


async def test_the_calls_of_a_leave(valkey: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, list[str]] = {}
    redis, keys = Redis.from_url(valkey), Shapes()
    for language, person, words in (
        ("zh", ZHANG, "明天起请2天年假，去看父母，审批人李四"),
        ("en", ANN.id, "I need 2 days of annual leave from tomorrow, visiting my parents, approver Li Si"),
    ):
        await redis.flushall()
        async with open_story(valkey, monkeypatch) as desk:
            await tell_story(desk, person, words, opinion="月底")
            found[language] = describe_calls(desk)
            await keys.add_keys(redis)
    await redis.aclose()
    compare_sections("slack/calls.txt", found)
    lasting = [one for one in keys.list_sections() if not any(each in one for each in FLEETING)]
    compare_sections("stored/keys_of_a_bot.txt", {"what a whole bot leaves": lasting})
