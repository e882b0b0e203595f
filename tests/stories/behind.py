"""Hidden actions of stories, and their look at hidden state."""

import copy
import json
import re
from datetime import date, datetime
from typing import Any

from redis.asyncio import Redis

from bot.app.build import Application
from bot.dev.evaluation import environment
from bot.features.files.file_copies import FileCleaner
from bot.queue.keys import Keys
from tests.harness.office import ZHANG, Office, list_buttons, read_message_text
from tools.workflow.engine.state import Decision, Request
from tools.workflow.engine.store import RedisStore

PREVIEW = {"confirm", "edit", "cancel"}
"""Buttons on the preview of one's own request."""
DECISION = {"approve", "approve_with", "reject", "return", "transfer", "add_sign", "show"}
"""Buttons on the card of another person's request."""


def file_cleaner(bot: Application) -> FileCleaner:
    jobs = bot.ingress.features.jobs
    return next(job.__self__ for job in jobs if job.__name__ == "delete_old_files")  # type: ignore[attr-defined]


def kept(card: dict[str, Any]) -> dict[str, Any]:
    """Copy the card as it looks now, so that later updates do not change it."""
    return copy.deepcopy(card)


async def forged(desk: Office, person: str, card: dict[str, Any], choice: str) -> Any:
    """Press a card that this person does not even see: sent from a message of their own DM."""
    channel = desk.dm(person)
    if not desk.posts(channel):
        await desk.answer(person, "help")
    value = next(list_buttons(card))["value"]
    block = next(one["block_id"] for one in card["blocks"] if one["type"] == "actions")
    at = desk.posts(channel)[-1]["ts"]
    return await desk.driver.click_button(person, channel, at, f"cs:{choice}", value=value, block_id=block, force=True)


async def rewritten(redis: Redis, approval: str, **parts: object) -> None:
    """Change parts of a stored plan without anybody's knowledge."""
    key = Keys().build_key(Keys().get_partition(approval), "apr", approval)
    plan = json.loads(str(await redis.hget(key, "proposal")))
    await redis.hset(key, "proposal", json.dumps(plan | parts, ensure_ascii=False))


async def final(office: Office, count: int = 1) -> str:
    """Return the count-th final answer that Zhang San gets."""
    return (await office.until(lambda: office.finals(office.dm(ZHANG))[count - 1 :]))[0]


async def told_privately(desk: Office, person: str, words: str, times: int = 1) -> str:
    """Wait until this person alone has been told these words, that many times."""

    def told() -> list[str]:
        return [text for one in desk.driver.list_ephemerals(person) if words in (text := read_message_text(one))]

    return "\n".join(await desk.until(lambda: found if len(found := told()) >= times else []))


async def request_of(desk: Office, request: str) -> Request:
    """Load a request as the engine keeps it."""
    found = await RedisStore(desk.bot.stores.redis).load_request(request)
    assert found is not None, f"there is no {request}"
    return found


async def opinions_of(desk: Office, request: str) -> list[tuple[str, Decision, str]]:
    """List the person, decision and words of each opinion."""
    return [(one.by, one.decision, one.text) for one in (await request_of(desk, request)).opinions]


async def times_told(desk: Office, kind: str, **wanted: Any) -> int:
    """Count the journal's records of this kind."""
    return len([record for record in await desk.journal(**wanted) if record.kind == kind])


async def retried(desk: Office, wanted: str = "") -> str:
    """Wait until an item is to be retried for this reason; return the exact reason."""

    async def find_reason() -> str:
        states = [key async for key in desk.bot.stores.redis.scan_iter("cs:*:st:*", count=1000)]
        reasons = [await desk.bot.stores.redis.hget(key, "error") or "" for key in states]
        return next((reason for reason in reasons if reason and wanted in reason), "")

    return await desk.until_stored(find_reason)


async def hours_pass(desk: Office, hours: float) -> None:
    await environment.advance_clock(desk.bot, desk.clock, hours)


def facts_of(card: dict[str, Any]) -> dict[str, str]:
    """Label → value of everything that a card shows in columns, and of all that names persons, by their names."""
    return {label: _without_identities(label, value) for label, value in _pairs(card)}


def with_iso_days(text: str) -> str:
    """Return the text with days as `2026-12-07 PM`, `2026-12-07 下午`, after checking the weekday."""
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
    """List (label, value) in columns and over the whole width, without people's text as it was written."""
    fields = [field["text"] for block in card["blocks"] for field in block.get("fields", ())]
    wide = [block["text"]["text"] for block in card["blocks"] if block["type"] == "section" and "text" in block]
    labelled = [text for text in wide if " <@" in text or (re.match(r"\*[^*\n]+\*\n", text) and "```" not in text)]
    pairs = [text.partition("\n") for text in (*fields, *labelled)]
    return [(label.strip("*"), value) for label, _, value in pairs]


def choices_of(card: dict[str, Any]) -> set[str]:
    """Return the choices on a card, after checking that every button is one of ours."""
    actions = [button["action_id"].partition("cs:") for button in list_buttons(card)]
    assert all(before == "" and prefix for before, prefix, _ in actions), actions
    return {choice for _, _, choice in actions}


async def open_form(office: Office, answer: dict[str, Any], action: str = "cs:form:open:0") -> dict[str, Any]:
    """Open the form that an answer to Zhang San offers."""
    assert (await office.driver.click_button(ZHANG, office.dm(ZHANG), answer["ts"], action)).ok
    return await office.until(lambda: office.driver.find_top_view(ZHANG))


def values_of(view: dict[str, Any]) -> dict[str, Any]:
    """Field → what stands in it."""
    initial = ("initial_value", "initial_date", "initial_user", "initial_users", "initial_option")
    found = {}
    for block in view["blocks"]:
        if block["type"] == "input":
            value = next((block["element"][name] for name in initial if name in block["element"]), "")
            found[block["block_id"]] = value["value"] if isinstance(value, dict) else value
    return found
