"""Home pages and dialogs: what stands on them, and what their buttons open."""

from datetime import timedelta
from typing import Any

from redis.asyncio import Redis

from bot.chat.messages import FormSubmission, HomePress
from tests.golden.golden_files import compare_sections
from tests.golden.rendering import describe_form, describe_home, describe_home_dialog
from tests.golden.scenes import BOSS, LOCALES, Stage, open_stage
from tools.workflow.engine.state import Decision, Delegation

from tests.tools.office import LI, LIN, TAXI, ZHANG, decide  # isort: skip

PRESSES = {"urge": "E-0001", "withdraw": "E-0001", "end_absence": "D1"}
PRESSES |= {"set_absence": "", "settings": "", "decisions": "0"}
"""Action of a button of Home → what it is about."""


async def furnish(stage: Stage) -> None:
    """Two claims of Zhang San's, one of them decided, and an absence."""
    bot = stage.bot
    for n, amount in enumerate(("31", "32")):
        await bot.engine.start_request("expense", {**TAXI, "amount": amount}, ZHANG.id, f"s{n}", bot.today())
    await decide(bot.engine, "E-0002-1", LI.id, Decision.APPROVE)
    away = Delegation(id="D1", person=ZHANG.id, deputy=LIN.id, start=bot.today(), end=bot.today() + timedelta(days=7))
    await bot.engine.add_delegation(away, bot.today())
    await stage.put("none", '{"kind": "start_morning", "zone": "UTC", "day": "2026-11-20"}', "the cards are brought")


async def test_home(redis: Redis) -> None:
    found: dict[str, list[str]] = {}
    for language in LOCALES:
        await redis.flushall()
        stage = open_stage(redis, language)
        builder, actions = stage.bot.ingress.features.home.builder, stage.bot.ingress.features.home
        first = await builder.build_home(ZHANG.id)
        assert first is not None
        found[f"a newcomer, {language}"] = [*describe_home(first)]
        await furnish(stage)
        for person in (ZHANG, LI, BOSS):
            page = await builder.build_home(person.id)
            assert page is not None
            found[f"{person.names[0]}, {language}"] = [*describe_home(page)]
        for action, value in PRESSES.items():
            dialog = await actions.handle_press(HomePress(id="t", person=ZHANG.id, action=action, value=value))
            assert dialog is not None
            found[f"{action}, {language}"] = [*describe_home_dialog(dialog)]
    compare_sections("home.txt", found)


async def test_forms_of_requests(redis: Redis) -> None:
    """Page by page, as somebody fills them in, and what is wrong with them."""
    found: dict[str, list[str]] = {}
    for language in LOCALES:
        await redis.flushall()
        stage = open_stage(redis, language)
        forms = stage.bot.ingress.features.forms
        leave = {"leave_type": "annual", "start_date": "2026-12-07", "end_date": "2026-12-16", "reason": "去看父母"}

        async def show(title: str, forms: Any = forms, language: str = language, **form: Any) -> None:
            dialog = await forms.build_form(FormSubmission(id="V1", person=ZHANG.id, **form))
            found[f"{title}, {language}"] = [dialog] if isinstance(dialog, str) else [*describe_form(dialog)]

        await show("leave, empty", process="leave", said="去看父母", has_choice=True)
        await show("leave, filled in", process="leave", values=leave)
        await show("leave, more", process="leave", values=leave, page=1, earlier=tuple(leave))
        await show("expense", process="expense")
        await show("a process that there is not", process="nothing")
        wrong = {"amount": "0.001", "category": "transport", "reason": "taxi", "approver": ZHANG.id}
        for title, values in (("wrong", wrong), ("not enough", {})):
            submitted = FormSubmission(id="V1", person=ZHANG.id, process="expense", values=values, page=1)
            answer = await forms.check_form(submitted)
            found[f"an expense that is {title}, {language}"] = [f"{one.field}: {one.text}" for one in answer.problems]
    compare_sections("forms.txt", found)
