"""Actions and look-ups of stories about sets of tasks."""

from typing import Any

from bot.dev.evaluation.shown_blocks import list_buttons
from tests.harness.office import LI, ZHANG, Office


async def start_claims(desk: Office, *amounts: int, person: str = ZHANG, reason: str = "打车") -> list[str]:
    """Start claims of these amounts, all waiting for Li Si; return their numbers, in this order."""
    assert desk.bot is not None
    engine = desk.bot.ingress.features.forms.core.tool_services.engine
    clock = desk.bot.ingress.features.forms.core.stores.clock
    numbers = []
    for amount in amounts:
        form = {"amount": str(amount), "currency": "CNY", "category": "transport", "reason": reason, "approver": LI}
        numbers.append(
            (await engine.start_request("expense", form, person, f"{person}{amount}", clock.today())).request
        )
        await desk.card(desk.dm(LI), numbers[-1])
    return numbers


def sets(desk: Office, person: str = LI) -> list[dict[str, Any]]:
    """List messages with boxes, oldest first."""
    return [m for m in desk.posts(desk.dm(person)) if boxes(m)]


def boxes(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [e for b in message.get("blocks") or () for e in b.get("elements", ()) if e.get("type") == "checkboxes"]


def options(message: dict[str, Any]) -> list[str]:
    return [option["text"]["text"] for box in boxes(message) for option in box["options"]]


def ticked(message: dict[str, Any]) -> list[str]:
    return [option["text"]["text"] for box in boxes(message) for option in box.get("initial_options", ())]


def labels(message: dict[str, Any]) -> list[str]:
    return [button["text"]["text"] for button in list_buttons(message)]


async def approve_several(desk: Office, person: str = LI) -> dict[str, Any]:
    """Press *Approve Several* on Home; return the resulting message."""
    before, earlier = len(sets(desk, person)), desk.driver.homes.get(person)
    await desk.driver.open_home(person)
    home = await desk.until(lambda: found if (found := desk.driver.homes.get(person)) != earlier else None)
    assert home is not None
    assert (await desk.driver.click_view_button(person, home["id"], "cs:several")).ok
    return (await desk.until(lambda: sets(desk, person)[before:]))[-1]


async def tick(desk: Office, message: dict[str, Any], *numbers: int, person: str = LI, group: int = 0) -> None:
    """Tick these boxes of a group, and no others."""
    block = [b for b in message["blocks"] if any(e["type"] == "checkboxes" for e in b.get("elements", ()))][group]
    values = [str(number) for number in numbers]
    done = await desk.driver.click_button(
        person, desk.dm(person), message["ts"], "cs:tick", block_id=block["block_id"], value=values
    )
    assert done.ok


def now(desk: Office, message: dict[str, Any], person: str = LI) -> dict[str, Any]:
    return next(m for m in desk.posts(desk.dm(person)) if m["ts"] == message["ts"])
