"""Payloads of any shape: nothing but the agreed errors comes out, and nothing in another person's name."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.core.errors import ChatError, StoreUnavailableError
from tests.harness.spoilt import list_paths, replace_part
from tests.platforms.feishu.ears_desk import LI, PAYLOADS, ZHANG, Ears, load_payload

NAMES = sorted(file.stem for file in PAYLOADS.glob("*.json"))
MESSAGES = [name for name in NAMES if load_payload(name)["header"]["event_type"].endswith("receive_v1")]
PRESSES = [name for name in NAMES if name.startswith("card_") and not name.endswith("_string_value")]


def test_each_payload_names_who_has_recorded_its_shape() -> None:
    read = [json.loads(file.read_text(encoding="utf-8")) for file in PAYLOADS.glob("*.json")]
    assert len(read) >= 30 and len({one["source"] for one in read}) >= 10
    assert all(set(one) == {"source", "payload"} and len(one["source"]) > 10 for one in read)


@pytest.mark.parametrize("name", MESSAGES)
async def test_feishus_own_models_read_the_payload_as_we_do(ears: Ears, name: str) -> None:
    from lark_channel.api.im.v1.model.p2_im_message_receive_v1 import P2ImMessageReceiveV1

    theirs = P2ImMessageReceiveV1(load_payload(name)).event
    await ears.listeners.handle_payload(load_payload(name))
    for message, _ in ears.inbox.messages:
        assert message.person == theirs.sender.sender_id.open_id
        assert (message.at, message.place.channel) == (theirs.message.message_id, theirs.message.chat_id)
        assert message.place.direct == (theirs.message.chat_type == "p2p")


@pytest.mark.parametrize("name", PRESSES)
async def test_feishus_own_models_read_the_press_as_we_do(ears: Ears, name: str) -> None:
    from lark_channel.event.callback.model.p2_card_action_trigger import P2CardActionTrigger

    payload = load_payload(name)
    theirs = P2CardActionTrigger(load_payload(name)).event
    await ears.listeners.handle_payload(payload)
    pressed = [one.person for one in (*ears.inbox.clicks, *ears.inbox.forms)]
    assert pressed == [theirs.operator.open_id]


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
    | st.sampled_from([LI, ZHANG, "x" * 300, "\ud800", "{", "[" * 2_000, '{"text":5}', "@_user_1", "p2p", "text"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


def find_senders(payload: Any) -> set[str]:
    """The person whom a payload names where Feishu puts its sender or presser. Everything else names nobody."""
    event, found = payload.get("event"), list[Any]()
    for path in (("sender", "sender_id"), ("operator",), ("operator", "operator_id"), ("operator_id",)):
        where: Any = event
        for name in path:
            where = where.get(name) if isinstance(where, dict) else None
        found += [where.get("open_id")] if isinstance(where, dict) else []
    return {one for one in found if isinstance(one, str)}


def list_people(ears: Ears) -> set[str]:
    inbox = ears.inbox
    taken = [*(one for one, _ in inbox.messages), *(one for one, _ in inbox.changes), *inbox.clicks, *inbox.forms]
    return {one.person for one in taken} | {one for one, _ in inbox.welcomed}


@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_no_payload_raises_or_speaks_for_somebody_else(ears: Ears, data: st.DataObject) -> None:
    """Control: `test_negative_control_a_whole_payload_is_taken`."""
    for taken in (ears.inbox.messages, ears.inbox.changes, ears.inbox.clicks, ears.inbox.forms, ears.inbox.welcomed):
        taken.clear()
    ears.listeners._recent.clear()
    ears.feishu.pages[f"im/v1/messages/om_{4:032x}"] = {"items": []}
    payload = load_payload(data.draw(st.sampled_from(NAMES)))
    for _ in range(data.draw(st.integers(1, 3))):
        payload = replace_part(payload, data.draw(st.sampled_from(list_paths(payload))), data.draw(ODD))
    try:
        answer = await ears.listeners.handle_payload(payload if isinstance(payload, dict) else {"odd": payload})
        assert answer is None or set(answer) <= {"toast", "card"}
        json.dumps(answer)
    except (StoreUnavailableError, ChatError):
        pass
    assert list_people(ears) <= (find_senders(payload) if isinstance(payload, dict) else set())


async def test_negative_control_a_whole_payload_is_taken(ears: Ears) -> None:
    ears.feishu.pages[f"im/v1/messages/om_{4:032x}"] = {"items": []}
    for name in NAMES:
        await ears.listeners.handle_payload(load_payload(name))
    assert len(ears.inbox.messages) >= 14 and len(ears.inbox.clicks) == 3 and len(ears.inbox.forms) == 1
    assert ears.inbox.changes and list_people(ears) == {ZHANG, LI}
