"""Boxes to tick: what is sent of them, and what is read from the payloads of a press. The payloads have the shape that
Slack publishes for `block_actions` (docs.slack.dev/reference/interaction-payloads)."""

from typing import Any

from slack_sdk.models.blocks import Block

from bot.chat.messages import Button, Card, Dialog, FormInput, Place, Post, TickList, TickOption
from bot.core.work_items import TICKED
from bot.platforms.slack.blocks import render_post
from bot.platforms.slack.dialogs import parse_submission, render_modal
from tests.platforms.slack.conftest import Desk
from tests.platforms.slack.doubles import dispatch, pressed
from tools.spec import DialogField

SET = "set:U02LI:0f3a"
GROUP = f"cs:{SET}.3:ticks:"


def state(*values: str, group: int = 0) -> dict[str, Any]:
    chosen = [{"text": {"type": "plain_text", "text": "x"}, "value": one} for one in values]
    return {f"{GROUP}{group}": {"cs:tick": {"type": "checkboxes", "selected_options": chosen}}}


async def read(desk: Desk, choice: str, values: Any, **action: Any) -> Any:
    body = pressed(choice, f"{SET}.3", state={"values": values})
    body["actions"][0] |= action
    assert (await dispatch(desk.app, body)).status == 200
    return desk.inbox.clicks


async def test_a_press_brings_what_is_ticked_in_all_groups(desk: Desk) -> None:
    """A changed tick says which set it belongs to; boxes of another version of the card are not read."""
    boxes = {"type": "checkboxes", "block_id": f"{GROUP}0", "value": None, "selected_options": []}
    other = {name.replace(".3:", ".2:"): value for name, value in state("0").items()}
    for choice, values, action, form in (
        ("set_approve", state("0", "2") | state("11", group=1), {}, {TICKED: "0,2,11"}),
        ("tick", state(), boxes, {TICKED: ""}),
        ("set_approve", other, {}, None),
    ):
        desk.inbox.clicks.clear()
        (click,) = await read(desk, choice, values, **action)
        assert (click.approval, click.version, click.choice, click.form) == (SET, 3, choice, form)


async def test_what_has_not_slacks_shape_ticks_nothing(desk: Desk) -> None:
    odd = {"selected_options": [1, None, {"value": 3}, {"value": "x" * 999}]}
    groups: tuple[Any, ...] = ("x", {"cs:tick": []}, {"cs:tick": {"selected_options": "012"}}, {"cs:tick": odd})
    for values in (*({f"{GROUP}0": one} for one in groups), [], "0"):
        desk.inbox.clicks.clear()
        (click,) = await read(desk, "set_approve", values)
        assert click.form in (None, {TICKED: ""}), values


def test_boxes_are_groups_of_ten_and_what_does_not_fit_stands_above_in_full() -> None:
    long = "x" * 200
    options = tuple(TickOption(str(n), f"E-{n} <@U1>", long if n == 3 else "why", n != 5) for n in range(20))
    card = Card("20", ticks=TickList(SET, 3, options), buttons=(Button("Approve", "set_approve", SET, 3, "primary"),))
    (page,) = render_post(Post("20", card=card))
    Block.parse_all(list(page.blocks))
    boxes = [e for b in page.blocks for e in b.get("elements", ()) if e["type"] == "checkboxes"]
    assert [len(box["options"]) for box in boxes] == [10, 10]
    assert [len(box["initial_options"]) for box in boxes] == [9, 10]
    assert all(one in box["options"] for box in boxes for one in box["initial_options"]), "as Slack asks"
    assert any(long in str(block.get("text")) for block in page.blocks)
    assert "<@U1>" not in str(boxes), "a name in a box mentions nobody"
    none = Card("1", ticks=TickList(SET, 3, (TickOption("0", "a", is_ticked=False),)))
    assert "initial_options" not in str(render_post(Post("1", card=none))), "an empty list is refused by Slack"


def test_a_dialog_returns_what_it_was_opened_for() -> None:
    dialog = Dialog(
        title="Reject", submit="Reject", cancel="Close", approval=SET, version=3, choice="set_reject",
        place=Place(team="T0", channel="D02LI", direct=True), kept=((TICKED, "0,2"),),
        inputs=(FormInput(DialogField(name="opinion", label="opinion", kind="long"), "Opinion"),),
    )  # fmt: skip
    view = render_modal(dialog)
    values = {"opinion": {"cs:input": {"type": "plain_text_input", "value": "no receipt"}}}
    body = {"view": {**view, "id": "V1", "state": {"values": values}}, "user": {"id": "U02LI"}}
    click = parse_submission(body)
    assert click is not None and click.form == {"opinion": "no receipt", TICKED: "0,2"}
