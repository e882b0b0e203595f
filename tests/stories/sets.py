"""Actions and look-ups of stories about sets of tasks that wait for Li Si."""

from typing import Any

from bot.dev.evaluation.shown_blocks import list_buttons
from tests.harness.office import LI, ZHANG, Office


async def start_claims(desk: Office, *amounts: int) -> list[str]:
    """Start claims of these amounts; return their numbers, in this order."""
    numbers = []
    for amount in amounts:
        form = {"amount": str(amount), "currency": "CNY", "category": "transport", "reason": "打车", "approver": LI}
        today = desk.bot.stores.clock.today()
        started = await desk.bot.resources.engine.start_request("expense", form, ZHANG, f"claim {amount}", today)
        numbers.append(started.request)
        await desk.card(desk.dm(LI), numbers[-1])
    return numbers


def boxes(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [e for b in message.get("blocks") or () for e in b.get("elements", ()) if e.get("type") == "checkboxes"]


def options(message: dict[str, Any]) -> list[str]:
    return [option["text"]["text"] for box in boxes(message) for option in box["options"]]


def labels(message: dict[str, Any]) -> list[str]:
    return [button["text"]["text"] for button in list_buttons(message)]


async def approve_several(desk: Office) -> dict[str, Any]:
    """Press *Decide Several* on Home; return the resulting message."""
    earlier = desk.driver.homes.get(LI)
    await desk.driver.open_home(LI)
    home = await desk.until(lambda: found if (found := desk.driver.homes.get(LI)) != earlier else None)
    assert (await desk.driver.click_view_button(LI, home["id"], "cs:several")).ok
    return (await desk.until(lambda: [m for m in desk.posts(desk.dm(LI)) if boxes(m)]))[-1]


async def tick(desk: Office, message: dict[str, Any], *numbers: int) -> None:
    """Tick these boxes of the first group, and no others."""
    block = next(b for b in message["blocks"] if any(e["type"] == "checkboxes" for e in b.get("elements", ())))
    values, place = [str(number) for number in numbers], (desk.dm(LI), message["ts"])
    assert (await desk.driver.click_button(LI, *place, "cs:tick", block_id=block["block_id"], value=values)).ok


def now(desk: Office, message: dict[str, Any]) -> dict[str, Any]:
    return next(m for m in desk.posts(desk.dm(LI)) if m["ts"] == message["ts"])
