"""What stories do behind people's backs, and what they look at there."""

from __future__ import annotations

import copy
import json
import re
from datetime import date, datetime
from typing import Any

from redis.asyncio import Redis

from bot.evaluation import environment
from bot.queue.keys import Keys
from bot.storage.preferences import Language, Preferences
from tests.harness.office import ZHANG, Office, list_buttons, read_message_text
from tests.stories import script
from tools.workflow.engine.commands import RequestEvent
from tools.workflow.engine.redis_store import RedisStore
from tools.workflow.engine.state import Decision, Request

PREVIEW = {"confirm", "edit", "cancel"}
"""What can be pressed on one's own request before it begins."""
DECISION = {"approve", "approve_with", "reject", "return", "transfer", "add_sign", "show"}
"""What can be pressed on the card of somebody else's."""


def kept(card: dict[str, Any]) -> dict[str, Any]:
    """The card as it looks now, whatever it is rewritten to later."""
    return copy.deepcopy(card)


async def forged(desk: Office, person: str, card: dict[str, Any], choice: str) -> Any:
    """A press on a card that this person does not even see: sent from a message of their own DM."""
    channel = desk.dm(person)
    if not desk.posts(channel):
        await desk.answer(person, "help")
    value = next(list_buttons(card))["value"]
    block = next(one["block_id"] for one in card["blocks"] if one["type"] == "actions")
    at = desk.posts(channel)[-1]["ts"]
    return await desk.driver.click_button(person, channel, at, f"cs:{choice}", value=value, block_id=block, force=True)


async def rewritten(redis: Redis, approval: str, **parts: object) -> None:
    """Somebody changes parts of a stored plan behind everybody's back."""
    key = Keys().build_key(Keys().get_partition(approval), "apr", approval)
    plan = json.loads(str(await redis.hget(key, "proposal")))
    await redis.hset(key, "proposal", json.dumps(plan | parts, ensure_ascii=False))


async def final(office: Office, count: int = 1) -> str:
    """The count-th final answer Zhang San gets."""
    return (await office.until(lambda: office.finals(office.dm(ZHANG))[count - 1 :]))[0]


async def told_privately(desk: Office, person: str, words: str, times: int = 1) -> str:
    """Waits until this person alone has been told so, that many times."""

    def told() -> list[str]:
        return [text for one in desk.driver.list_ephemerals(person) if words in (text := read_message_text(one))]

    return "\n".join(await desk.until(lambda: found if len(found := told()) >= times else []))


async def request_of(desk: Office, request: str) -> Request:
    """A request as the engine keeps it."""
    assert desk.bot is not None
    found = await RedisStore(desk.bot.redis).load_request(request)
    assert found is not None, f"there is no {request}"
    return found


async def record_of(desk: Office, request: str) -> list[RequestEvent]:
    """What the engine has on record of a request."""
    assert desk.bot is not None
    return [RequestEvent.model_validate_json(line) for line in await RedisStore(desk.bot.redis).load_events(request)]


async def opinions_of(desk: Office, request: str) -> list[tuple[str, Decision, str]]:
    """Who decided what with which words."""
    return [(one.by, one.decision, one.text) for one in (await request_of(desk, request)).opinions]


async def choose_language(desk: Office, person: str, language: Language) -> None:
    assert desk.bot is not None
    await desk.bot.ingress.features.home.builder.core.preferences.save_preferences(
        person, Preferences(language=language)
    )


async def requests_of(desk: Office, person: str) -> tuple[str, ...]:
    assert desk.bot is not None
    return tuple(await script.requests_of(desk.bot.redis, person))


async def times_told(desk: Office, kind: str, **wanted: Any) -> int:
    """How often the journal has this kind of record."""
    return len([record for record in await desk.journal(**wanted) if record.kind == kind])


async def retried(desk: Office, wanted: str = "") -> str:
    """Waits until an item is to be tried again for this reason; why exactly."""

    async def find_reason() -> str:
        assert desk.bot is not None
        states = [key async for key in desk.bot.redis.scan_iter("cs:*:st:*", count=1000)]
        reasons = [await desk.bot.redis.hget(key, "error") or "" for key in states]
        return next((reason for reason in reasons if reason and wanted in reason), "")

    return await desk.until_stored(find_reason)


async def hours_pass(desk: Office, hours: float) -> None:
    assert desk.bot is not None
    await environment.advance_clock(desk.bot, desk.clock, hours)


def facts_of(card: dict[str, Any]) -> dict[str, str]:
    """Label → value of everything a card shows in columns, and of all that names persons: them by name."""
    return {label: _without_identities(label, value) for label, value in _pairs(card)}


def with_iso_days(text: str) -> str:
    """The same with days as `2026-12-07 PM`, `2026-12-07 下午`, after a weekday that fits."""
    return re.sub(
        r"(?:(\d{4})年(\d+)月(\d+)日 (周[一二三四五六日])|(Mon|Tue|Wed|Thu|Fri|Sat|Sun) (\d+ [A-Z][a-z]{2} \d{4}))"
        r"(?:(上午|下午)| \((AM|PM)\))?",
        _read_day,
        text,
    )


def _read_day(found: re.Match[str]) -> str:
    if found[1]:
        day = date(int(found[1]), int(found[2]), int(found[3]))
        assert "周" + "一二三四五六日"[day.weekday()] == found[4]
    else:
        day = datetime.strptime(found[6], "%d %b %Y").date()
        assert f"{day:%a}" == found[5]
    return " ".join(filter(None, (str(day), found[7] or found[8])))


def people_of(card: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Label → (id of the mention, address and marks) of every person named there."""
    return {label: re.findall(r" <@(\w+)>((?:\n.*)?)", value) for label, value in _pairs(card) if " <@" in value}


def _without_identities(label: str, value: str) -> str:
    named = re.findall(r"^(.*) <@\w+>$", value, re.MULTILINE)
    text = re.split(r"^.* <@\w+>$", value, maxsplit=1, flags=re.MULTILINE)[0].rstrip("\n")
    return text or ((", " if label.isascii() else "、").join(named) if named else value)


def _pairs(card: dict[str, Any]) -> list[tuple[str, str]]:
    """(label, value) in columns and over the whole width, but for people's text as it was written."""
    fields = [field["text"] for block in card["blocks"] for field in block.get("fields", ())]
    wide = [block["text"]["text"] for block in card["blocks"] if block["type"] == "section" and "text" in block]
    labelled = [text for text in wide if " <@" in text or (re.match(r"\*[^*\n]+\*\n", text) and "```" not in text)]
    pairs = [text.partition("\n") for text in (*fields, *labelled)]
    return [(label.strip("*"), value) for label, _, value in pairs]


def choices_of(card: dict[str, Any]) -> set[str]:
    """What can be pressed on a card; every button of it is one of ours."""
    actions = [button["action_id"].partition("cs:") for button in list_buttons(card)]
    assert all(before == "" and prefix for before, prefix, _ in actions), actions
    return {choice for _, _, choice in actions}
