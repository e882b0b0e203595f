"""Presses in: durable before they are answered, and answered within the 3 s of Feishu."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from bot.chat.messages import (
    Acceptance,
    Click,
    Dialog,
    FormAnswer,
    FormDialog,
    FormInput,
    FormProblem,
    HomeAnswer,
    HomeDialog,
    HomeView,
    MessageRef,
    PersonPicker,
    Place,
    Post,
)
from bot.core.errors import StoreUnavailableError
from bot.core.work_items import TICKED
from bot.platforms.feishu import press_listeners, values
from tests.platforms.feishu.ears_desk import LI, OTHER, ZHANG, Ears, load_payload
from tests.platforms.feishu.message_server import TENANT
from tests.platforms.slack.doubles import CARD, eventually
from tools.spec import DialogField

GROUP = "oc_e" + "0" * 31
ROOT = f"om_{0x61:032x}"
PLACE = Place(platform="feishu", team=TENANT, channel=GROUP, thread=ROOT)
APPROVE = values.PressValue(approval="A1b2c3", version=2, choice="approve", seal="0123456789ab", thread=ROOT)
REASON = FormInput(DialogField(name="reason", label="Reason"), "Reason")
WHO = FormInput(DialogField(name="who", label="Who", kind="person"), "Who")
ABOUT: dict[str, Any] = {"approval": "A1b2c3", "version": 2, "choice": "reject", "place": PLACE}
DIALOG = Dialog(title="Reject", submit="Send", cancel="Cancel", inputs=(REASON,), **ABOUT)
SUBMIT = values.DialogValue(**ABOUT, card=MessageRef(channel=GROUP, ts="om_1"))
PAGE = FormDialog(title="Leave", submit="Send", cancel="Cancel", process="leave", page=0, inputs=(REASON,))
URGE = HomeDialog(title="Urge", cancel="Cancel", submit="Send", action="urge")
OWN_CHAT = "oc_dm_li"
CONTACTS = "contact/v3/departments/0/children"


def build_press(value: values.Value | str, context: dict[str, str] | None = None, **action: Any) -> dict[str, Any]:
    payload = dict(load_payload("card_press"))
    carried = value if isinstance(value, str) else values.build_value(value)
    payload["event"]["action"] |= {"value": carried, **action}
    payload["event"]["context"] |= context or {}
    return payload


async def press(
    ears: Ears, value: values.Value, context: dict[str, str] | None = None, **action: Any
) -> dict[str, Any]:
    answer = await ears.listeners.handle_payload(build_press(value, context, **action))
    assert answer is not None
    return answer


def show(answer: Any) -> str:
    return json.dumps(answer, ensure_ascii=False)


# Cards


@pytest.mark.parametrize("name", ["card_press", "card_press_ids_beside"])
async def test_a_press_becomes_the_one_click_of_its_presser(ears: Ears, name: str) -> None:
    answer = await ears.hear(name)
    await ears.hear(name)
    [click] = ears.inbox.clicks
    assert (click.person, click.approval, click.version, click.choice) == (LI, "A1b2c3", 2, "approve")
    assert (click.place, click.seal, click.form) == (PLACE, "0123456789ab", None)
    assert click.card is not None and click.card.channel == GROUP and click.card.ts.startswith("om_")
    assert click.id == click.card.ts[3:]
    assert answer["toast"] == {"type": "info", "content": "Got it."}


async def test_what_a_press_carries_comes_with_its_click(ears: Ears) -> None:
    """The place of its card, ticked boxes, a picked person; a press on Home names no message."""
    shared, on_page = {"direct": True, "shared": True}, {"on_page": True, "direct": True, "thread": ""}
    ticks = {"form_value": {"tick~T1": True, "tick~T2": False, "tick~T3": True}}
    home = Place(platform="feishu", team=TENANT, channel=GROUP, direct=True)
    for changes, action, place, form in (
        (shared, {}, PLACE.model_copy(update=shared), None),
        ({}, ticks, PLACE, {TICKED: "T1,T3"}),
        (on_page, {}, home, None),
    ):
        ears.inbox.clicks.clear()
        await press(ears, APPROVE.model_copy(update=changes), **action)
        [click] = ears.inbox.clicks
        assert (click.place, click.form, click.card is None) == (place, form, changes is on_page)
    await ears.hear("card_person_picked")
    assert ears.inbox.clicks[-1].form == {"person": ZHANG}
    ears.inbox.clicks.clear()
    ears.feishu.hear(GROUP, ROOT)
    first = await ears.channel.post_message(PLACE, CARD, key="k")
    await press(ears, APPROVE, {"open_message_id": first.ts})
    assert ears.inbox.clicks[0].card == first, "also on a card that was posted anew"


async def test_a_press_is_answered_with_its_notice_or_new_card(ears: Ears, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(press_listeners, "RESULT_S", 30.0)
    after, words = {"schema": "2.0", "body": {"elements": []}}, "Somebody else has decided this."
    for is_told in (False, True):
        ears.inbox.clicks.clear()
        handling = asyncio.create_task(press(ears, APPROVE))
        await eventually(lambda: ears.inbox.clicks)
        card = ears.inbox.clicks[0].card
        assert card is not None
        if is_told:
            assert ears.channel.presses.give_notice(GROUP, LI, words)
            assert (await handling)["toast"]["content"] == words
        else:
            ears.channel.presses.give_card(card, after)
            assert (await handling)["card"] == {"type": "raw", "data": after}


# Who presses


async def test_only_members_press(ears: Ears) -> None:
    for tenant in (OTHER, "", None):
        payload = build_press(APPROVE)
        payload["event"]["operator"]["tenant_key"] = tenant
        answer = await ears.listeners.handle_payload(payload)
        assert answer is not None and "card" not in answer
        assert answer["toast"]["type"] == "error" and "only work for members" in answer["toast"]["content"]
    assert await ears.hear("card_press_string_value") == {}, "a value that is a text is nothing of ours"
    assert not ears.inbox.clicks and not ears.inbox.log
    await ears.hear("card_press")
    assert ears.inbox.clicks, "control"


@pytest.mark.parametrize("where", ["value", "form_value", "option", "name"])
async def test_nothing_that_is_typed_or_carried_names_the_presser(ears: Ears, where: str) -> None:
    """Control: the same press by Zhang is Zhang's."""
    forged = {"open_id": ZHANG, "person": ZHANG, "operator": {"open_id": ZHANG}}
    action: dict[str, Any] = {} if where == "value" else {where: ZHANG if where in ("option", "name") else forged}
    payload = build_press(APPROVE, **action)
    if where == "value":
        payload["event"]["action"]["value"] |= {"person": ZHANG}
    payload |= {"open_id": ZHANG}
    payload["event"] |= {"open_id": ZHANG}
    await ears.listeners.handle_payload(payload)
    assert {click.person for click in ears.inbox.clicks} <= {LI}
    assert len(ears.inbox.clicks) == (where != "value"), "a value with more in it is not ours"
    payload = build_press(APPROVE)
    payload["header"]["event_id"], payload["event"]["operator"]["open_id"] = "another", ZHANG
    await ears.listeners.handle_payload(payload)
    assert ears.inbox.clicks[-1].person == ZHANG


# Acceptance


async def test_a_press_that_is_not_durable_is_not_called_so(ears: Ears) -> None:
    async def refuse(click: Click) -> None:
        raise StoreUnavailableError("no Redis")

    ears.inbox.accept_click = refuse  # type: ignore[method-assign]
    for ears.inbox.withdrawn, text in (
        (Acceptance.NOT_TAKEN, "nothing has happened"),
        (Acceptance.TAKEN, "I have it"),
        (Acceptance.UNKNOWN, "I do not know yet"),
    ):
        toast = (await press(ears, APPROVE))["toast"]
        assert toast["type"] == "error" and text in toast["content"]


async def test_without_a_store_nothing_is_taken_and_a_form_can_be_sent_again(ears: Ears) -> None:
    ears.inbox.down = True
    for value in (APPROVE, values.FormValue(process="leave")):
        answer = await press(ears, value)
        assert answer["toast"]["type"] == "error" and "card" not in answer and not ears.inbox.clicks


async def test_a_slow_store_does_not_keep_feishu_waiting(ears: Ears, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(press_listeners, "ANSWER_S", 0.05)
    ears.inbox.moving.clear()
    toast = (await press(ears, APPROVE))["toast"]
    assert toast["type"] == "error" and "do not know yet" in toast["content"]
    ears.inbox.moving.set()
    await eventually(lambda: ears.feishu.in_chat(OWN_CHAT))
    assert "That took longer" in show(ears.feishu.in_chat(OWN_CHAT)[0].content), "and is told what became of it"
    assert len(ears.inbox.clicks) == 1


async def test_a_late_form_shows_that_it_was_taken(ears: Ears, monkeypatch: pytest.MonkeyPatch) -> None:
    ears.inbox.form_page = PAGE
    await press(ears, values.OpenFormValue())
    [form] = ears.feishu.in_chat(OWN_CHAT)
    monkeypatch.setattr(press_listeners, "ANSWER_S", 0.05)
    ears.inbox.moving.clear()
    context = {"open_message_id": form.id, "open_chat_id": form.chat}
    answer = await press(ears, values.FormValue(process="leave"), context, form_value={"reason": "x"})
    assert "现在还不能确定" in show(answer), "known since the form was opened"
    ears.inbox.moving.set()
    await eventually(lambda: "已提交" in show(form.content))


# Dialogs


async def test_a_dialog_is_a_form_in_the_pressers_own_chat(ears: Ears) -> None:
    ears.inbox.dialogs["approve"] = DIALOG
    answer = await press(ears, APPROVE)
    assert answer["toast"]["content"] == "表单已发到我们的私信里，请在那里填写。" and "card" not in answer
    [form] = ears.feishu.in_chat(OWN_CHAT)
    assert "Reject" in show(form.content) and not ears.inbox.clicks and not ears.feishu.in_chat(GROUP)
    direct = APPROVE.model_copy(update={"direct": True, "thread": ""})
    answer = await press(ears, direct, {"open_chat_id": OWN_CHAT})
    assert answer["toast"]["content"] == "请填写下方的表单。"
    assert len(ears.feishu.in_chat(OWN_CHAT)) == 1, "the press is the same"


@pytest.mark.parametrize("has_contacts", [True, False])
async def test_a_member_is_picked_by_their_id_or_typed_without_contacts(ears: Ears, has_contacts: bool) -> None:
    """Without them, Feishu would offer the person and the bot in a chat with one person: there is no picker then."""
    if not has_contacts:
        ears.feishu.pages[CONTACTS] = 99991672
    ears.inbox.dialogs["approve"] = replace(DIALOG, inputs=(WHO,))
    await press(ears, APPROVE)
    post = Post("Who?", picker=PersonPicker("Choose", "pick", "A1", 1))
    await ears.channel.post_message(await ears.channel.open_dm(LI), post, key="k")
    form, question = (show(one.content) for one in ears.feishu.in_chat(OWN_CHAT))
    assert ("select_person" in form, "select_person" in question) == (has_contacts, has_contacts)
    if has_contacts:
        assert show([{"value": LI}, {"value": ZHANG}])[1:-1] in form and ZHANG in question and LI in question
    else:
        assert "e-mail address" in form


async def test_a_submitted_dialog_is_a_click_with_its_form_in_our_company(ears: Ears) -> None:
    elsewhere = PLACE.model_copy(update={"team": OTHER, "platform": "slack"})
    value = SUBMIT.model_copy(update={"values": {"first": "1"}, "kept": {"hidden": "2"}, "place": elsewhere})
    answer = await press(ears, value, form_value={"reason": "too long", "hidden": "3"})
    [click] = ears.inbox.clicks
    assert click.form == {"first": "1", "reason": "too long", "hidden": "2"}
    assert (click.person, click.choice, click.place, click.card) == (LI, "reject", PLACE, value.card)
    assert "Submitted" in show(answer["card"]) and '"callback"' not in show(answer["card"])


async def test_problems_of_a_dialog_and_its_next_page_stand_in_its_place(ears: Ears) -> None:
    ears.inbox.wrong, ears.inbox.dialogs["reject"] = {"reason": "Please say more."}, DIALOG
    answer = await press(ears, SUBMIT, form_value={"reason": "no"})
    assert answer["toast"] == {"type": "error", "content": "Please say more."}
    shown = show(answer["card"])
    assert "Please say more." in shown and '"no"' in shown and '"callback"' in shown
    inputs = tuple(FormInput(DialogField(name=f"f{n}", label=f"F{n}"), f"Field {n}") for n in range(30))
    ears.inbox.dialogs["reject"] = replace(DIALOG, inputs=inputs, more="More")
    more = SUBMIT.model_copy(update={"is_more": True})
    shown = show((await press(ears, more, form_value={"f0": "typed on the first page"}))["card"])
    assert "typed on the first page" in shown and "Field 0" not in shown and not ears.inbox.clicks


async def test_a_cancelled_form_says_so(ears: Ears) -> None:
    answer = await press(ears, values.CancelValue(title="Reject"))
    assert "Reject" in show(answer["card"]) and "Cancelled" in show(answer["card"]) and "toast" not in answer
    assert not ears.inbox.log


# Forms


async def test_a_button_opens_a_form_or_says_why_there_is_none(ears: Ears) -> None:
    answer = await press(ears, values.OpenFormValue())
    assert answer["toast"] == {"type": "error", "content": "no form"} and not ears.feishu.in_chat(OWN_CHAT)
    ears.inbox.form_page = PAGE
    answer = await press(ears, values.OpenFormValue(offer="R1.2"))
    form = ears.inbox.forms[-1]
    assert (form.person, form.offer, form.has_choice) == (LI, "R1.2", False)
    assert "私信" in answer["toast"]["content"] and "Leave" in show(ears.feishu.in_chat(OWN_CHAT)[0].content)
    answer = await press(ears, values.OpenFormValue(is_menu=True), option="expense")
    form = ears.inbox.forms[-1]
    assert (form.process, form.has_choice) == ("expense", True), "the menu of a form changes its process"
    assert "Leave" in show(answer["card"])


async def test_a_submitted_form_is_the_input_of_its_presser(ears: Ears) -> None:
    answer = await ears.hear("card_form")
    [form] = ears.inbox.forms
    assert (form.person, form.process, form.has_choice, form.page) == (LI, "leave", True, 0)
    assert form.id == f"om_{24:032x}", "the form itself, so that two submissions make one card"
    assert form.values["reason"] == "家里有事" and form.values["deputy"] == ZHANG
    assert form.values["cc"] == f"{ZHANG},{LI}"
    assert "Submitted" in show(answer["card"])


async def test_problems_of_a_form_and_its_next_page_stand_in_its_place(ears: Ears) -> None:
    ears.inbox.form_page = PAGE
    ears.inbox.form_answer = FormAnswer(problems=(FormProblem("reason", "Reason", "Please say more."),))
    answer = await press(ears, values.FormValue(process="leave"), form_value={"reason": "no"})
    assert answer["toast"] == {"type": "error", "content": "Please say more."}
    assert "Please say more." in show(answer["card"]) and '"no"' in show(answer["card"])
    more = values.FormValue(process="leave", values={"first": "1"}, is_more=True)
    answer = await press(ears, more, form_value={"reason": "x"})
    form = ears.inbox.forms[-1]
    assert (form.page, form.earlier, form.values) == (1, ("first", "reason"), {"first": "1", "reason": "x"})
    assert "toast" not in answer and "Leave" in show(answer["card"])
    ears.inbox.form_answer = FormAnswer(next_page=PAGE)
    assert "Leave" in show((await press(ears, values.FormValue(process="leave")))["card"])


# Home


async def test_a_button_of_home_changes_the_page_or_opens_a_dialog(ears: Ears) -> None:
    ears.inbox.homes[LI], ears.inbox.home_dialogs["urge"] = HomeView("Home", ()), URGE
    assert await press(ears, values.HomeValue(action="skip", value="T1")) == {}
    assert ears.homes == [(LI, HomeView("Home", ()))]
    answer = await press(ears, values.HomeValue(action="urge"))
    assert "私信" in answer["toast"]["content"] and len(ears.homes) == 1
    assert "Urge" in show(ears.feishu.in_chat(OWN_CHAT)[0].content)


async def test_a_dialog_of_home_belongs_to_the_pressers_own_chat(ears: Ears) -> None:
    value = values.HomeDialogValue(action="urge", value="T1", form={"a": "1"}, seal="s")
    answer = await press(ears, value, form_value={"note": "x"})
    assert "Submitted" in show(answer["card"])
    [submission] = ears.inbox.home_submissions
    assert submission.place == Place(platform="feishu", team=TENANT, channel=OWN_CHAT, direct=True)
    assert (submission.person, submission.form, submission.seal) == (LI, {"a": "1", "note": "x"}, "s")
    ears.inbox.home_answer = HomeAnswer(problems=(FormProblem("note", "Note", "Please say more."),))
    answer = await press(ears, values.HomeDialogValue(action="urge"))
    assert answer == {"toast": {"type": "error", "content": "Please say more."}}
    ears.inbox.home_answer = HomeAnswer(dialog=URGE)
    assert "Urge" in show((await press(ears, values.HomeDialogValue(action="urge")))["card"])
