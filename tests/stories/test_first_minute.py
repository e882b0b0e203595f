"""The rehearsal model in its first minute: dialogues as office people write them, through the whole bot."""

import tomllib
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.harness.office import ANN, LI, WANG, ZHANG, ZHAO, Office, office, read_message_text
from tests.stories.behind import choices_of, facts_of, with_iso_days

DIALOGUES = sorted((Path(__file__).parent / "first_minute").glob("*.toml"))
LEAVE = {
    "zh": "2026-12-21到2026-12-22请年假，审批人李四，原因：看父母",
    "en": "annual leave from 2026-12-21 to 2026-12-22, approver {}, reason: visiting my parents",
}
LABELS = {
    "start": ("开始日期", "First day"), "end": ("结束日期", "Last day"), "type": ("请假类型", "Type of leave"),
    "reason": ("请假事由", "事由", "Reason"), "approver": ("审批人", "Approver"), "amount": ("金额", "Amount"),
    "currency": ("金额", "Amount"), "category": ("费用类别", "Category"), "to": ("收件人", "To"),
}  # fmt: skip
HONEST = ("按规则办事，不是模型", "rules here, not a model")
OFFERED = ("cs:form:open", "cs:say_")
"""Marks of buttons that belong to no card."""
FORMS = {"start": ("请假表单", "Leave Form"), "amount": ("报销表单", "Expense Form"), "to": ("邮件表单", "Mail Form")}
"""Fact of a wanted card → the button that leads to its form."""


async def play(desk: Office, language: str, wanted: dict[str, Any]) -> str:
    """Return `useful`, `led` (to the right form), `honest`, or `wrong`, and the course of the dialogue."""
    person = await prepare(desk, language, wanted.get("given", ""))
    here = desk.dm(person)
    known = {post["ts"] for post in desk.posts(here)}
    finals = len(desk.finals(here))
    for text in wanted["says"]:
        before = len(desk.posts(here))
        await desk.says(person, text)
        await desk.until(lambda before=before: len(desk.posts(here)) > before)
        await desk.quiet()
    shown_buttons = [card for card in desk.cards(here) if card["ts"] not in known]
    cards = [deepcopy(card) for card in shown_buttons if not any(mark in str(card) for mark in OFFERED)]

    def read_new() -> str:
        return "\n".join(read_message_text(post) for post in desk.posts(here) if post["ts"] not in known)

    said = read_new()
    if cards and not is_told(wanted, said):  # results are shown at the end of the run, by its steps
        await desk.press(person, cards[0], next(iter(choices_of(cards[0]) & {"confirm", "send"})))
        await desk.quiet()
        said = read_new()
    last = "".join(desk.finals(here)[finals:][-1:])
    shown = " // ".join(f"{facts_of(card)} {read_message_text(card)[:80]!r}" for card in cards)
    return f"{judge(wanted, cards, said, last)}: {wanted['says']} → {shown or last!r}"


def is_told(wanted: dict[str, Any], said: str) -> bool:
    return all(any(one in said for one in words.split("|")) for words in wanted.get("answer", ()))


async def prepare(desk: Office, language: str, given: str) -> str:
    """Prepare the given state, and return the writer."""
    if given == "leave":
        await desk.request_leave(ZHANG if language == "zh" else ANN.id, LEAVE[language].format("Li Si"))
    elif given == "task":
        author, approver = (ZHANG, LI) if language == "zh" else (ZHAO, WANG)
        await desk.request_leave(author, LEAVE[language].format("Wang Wu"))
        await desk.card(desk.dm(approver), "L-0001")
        await desk.quiet()
        return approver
    await desk.quiet()
    return ZHANG if language == "zh" else ANN.id


def judge(wanted: dict[str, Any], cards: list[dict[str, Any]], said: str, last: str) -> str:
    expected = wanted.get("cards", [])
    if any(not any(fits(one, card) for one in expected) for card in cards) or len(cards) > len(expected):
        return "wrong"
    if any(words in said for words in wanted.get("never", ())):
        return "wrong"
    if not wanted.get("honest") and len(cards) == len(expected) and is_told(wanted, said):
        return "useful"
    if wanted.get("honest") and any(words in last for words in HONEST):
        return "honest" if any(label in last for label in FORMS["start"]) else "honest without a button"
    forms = [labels for one in expected for name, labels in FORMS.items() if name in one]
    is_led = forms and is_told(wanted, said) and all(any(label in said for label in labels) for labels in forms)
    return "led" if is_led else "wrong"


def fits(wanted: dict[str, Any], card: dict[str, Any]) -> bool:
    facts = {label: with_iso_days(value) for label, value in facts_of(card).items()}
    shown = {name: next((facts[label] for label in labels if label in facts), "") for name, labels in LABELS.items()}
    shown["body"] = text = read_message_text(card) + str(facts)
    return all(words in text for words in wanted.get("has", ())) and all(
        any(one in shown[name] for one in value.split("|")) for name, value in wanted.items() if name != "has"
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("file", DIALOGUES, ids=lambda file: file.stem)
async def test_dialogues_are_served_or_answered_honestly(valkey: str, redis: Redis, file: Path, language: str) -> None:
    """At least 85 % end as wanted or at the right form; the rest with an honest sentence and buttons."""
    dialogues = tomllib.loads(file.read_text(encoding="utf-8"))[language]
    outcomes = list[str]()
    async with office(valkey) as desk:
        for dialogue in dialogues:  # each with a bot of its own, and with nothing of those before
            await redis.flushall()
            for room in desk.driver.ws.state.rooms.values():
                room.messages.clear()
            async with desk.opened():
                outcomes.append(await play(desk, language, dialogue))
    counted = Counter(outcome.partition(":")[0] for outcome in outcomes)
    told = "\n".join(sorted(outcomes))
    print(f"{file.stem} {language}: {dict(counted)}")
    assert set(counted) <= {"useful", "led", "honest"}, told
    assert counted["useful"] + counted["led"] >= 0.85 * len(outcomes), told


def test_a_card_that_was_not_wanted_is_wrong() -> None:
    """Negative control: another day on the card, a card too many, an answer without the requested content."""
    section = {"type": "section", "fields": [{"type": "mrkdwn", "text": "*First day*\nMon 7 Dec 2026 (AM)"}]}
    card = {"text": "Start this leave request?", "blocks": [section]}
    assert judge({"cards": [{"start": "2026-12-07"}]}, [card], "", "") == "useful"
    assert judge({"cards": [{"start": "2026-12-08"}]}, [card], "", "") == "wrong"
    assert judge({"cards": [{"start": "2026-12-07"}]}, [card, card], "", "") == "wrong"
    assert judge({"honest": True}, [card], "", "rules here, not a model") == "wrong"
    assert judge({"answer": ["10"]}, [], "nothing", "nothing") == "wrong"
    assert judge({"answer": ["10"]}, [], "", "rules here, not a model: Leave Form…") == "wrong"
    assert judge({"honest": True}, [], "", "rules here, not a model") == "honest without a button"
    wanted = {"cards": [{"amount": "10"}]}
    assert judge(wanted, [], "rules here, not a model: Leave Form…", "") == "wrong"
    assert judge(wanted, [], "rules here, not a model: Expense Form…", "") == "led"
