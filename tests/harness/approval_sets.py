"""Sets of tasks that wait for Li Si, and presses on them."""

from typing import Any

from bot.chat.messages import Click, MessageRef
from bot.core.records import Approval
from bot.core.work_items import ButtonPressed, build_set_id
from bot.storage.approvals import derive_task_card_id
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM
from tests.tools.company import LI, ZHANG

SET = build_set_id(LI.id, "x")


async def start_claims(bot: Bot, *amounts: int, reason: str = "taxi", category: str = "transport") -> list[str]:
    """Start claims that wait for Li Si, with open cards."""
    started = []
    for amount in amounts:
        form = {"amount": str(amount), "currency": "CNY", "category": category, "reason": reason, "approver": LI.id}
        made = await bot.engine.start_request("expense", form, ZHANG.id, f"s{amount}", bot.today())
        started.append(made.request)
    await bot.work()
    return started


async def press(bot: Bot, choice: str, *click: Any, **more: Any) -> None:
    """Put a press (see `put_press`) and work."""
    await put_press(bot, choice, *click, **more)
    await bot.work()


async def put_press(
    bot: Bot, choice: str, person: str = LI.id, id_: str = "p1", version: int = 1, form: dict[str, str] | None = None,
    lane: str = SET, at: MessageRef | None = None,
) -> None:  # fmt: skip
    click = Click(id=id_, approval=lane, version=version, choice=choice, person=person, place=DM, form=form, card=at)
    await bot.lanes.enqueue(lane, id_, ButtonPressed(click=click).model_dump_json())


async def card_of(bot: Bot, number: str) -> Approval:
    task = (await bot.engine.get_request(number)).open_tasks[0].id
    return await bot.load_approval(derive_task_card_id(bot.keys, task))


def find_set_beside(bot: Bot, card: Approval, *, near: bool = False) -> str:
    """Find the id of a set of Li Si's in another partition than the card's, or in the same one."""
    home = bot.keys.get_partition(card.id)
    names = (build_set_id(LI.id, f"s{n}") for n in range(100))
    return next(one for one in names if (bot.keys.get_partition(one) == home) is near)
