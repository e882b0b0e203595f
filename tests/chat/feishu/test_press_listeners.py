"""Presses in: durable before they are answered, and answered within the 3 s of Feishu."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from bot.chat.feishu import press_listeners
from bot.chat.feishu.values import (
    CancelValue,
    DialogValue,
    FormValue,
    HomeDialogValue,
    HomeValue,
    OpenFormValue,
    PressValue,
    Value,
    build_value,
)
from bot.chat.messages import (
    Acceptance,
    Button,
    Card,
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
from tests.chat.feishu.ears_desk import LI, OTHER, TENANT, ZHANG, Ears, load_payload
from tests.chat.slack.doubles import eventually
from tools.spec import DialogField

GROUP = "oc_e" + "0" * 31
ROOT = f"om_{0x61:032x}"
PLACE = Place(platform="feishu", team=TENANT, channel=GROUP, thread=ROOT)
APPROVE = PressValue(approval="A1b2c3", version=2, choice="approve", seal="0123456789ab", thread=ROOT)
REASON = DialogField(name="reason", label="Reason")
DIALOG = Dialog(
    title="Reject",
    submit="Send",
    cancel="Cancel",
    approval="A1b2c3",
    version=2,
    choice="reject",
    place=PLACE,
    inputs=(FormInput(REASON, "Reason"),),
)
PAGE = FormDialog(
    title="Leave",
    submit="Send",
    cancel="Cancel",
    process="leave",
    page=0,
    inputs=(FormInput(REASON, "Reason"),),
)


def build_press(value: Value | str, name: str = "card_press", /, **action: Any) -> dict[str, Any]:
    payload = dict(load_payload(name))
    carried = value if isinstance(value, str) else build_value(value)
    payload["event"]["action"] |= {"value": carried, **action}
    return payload


async def press(ears: Ears, value: Value | str, **action: Any) -> dict[str, Any]:
    answer = await ears.listeners.handle_payload(build_press(value, **action))
    assert answer is not None
    return answer


def show(answer: Any) -> str:
    return json.dumps(answer, ensure_ascii=False)


# Cards


@pytest.mark.parametrize("name", ["card_press", "card_press_ids_beside"])
async def test_a_press_becomes_the_click_of_its_presser(ears: Ears, name: str) -> None:
    answer = await ears.hear(name)
    [click] = ears.inbox.clicks
    assert (click.person, click.approval, click.version, click.choice) == (LI, "A1b2c3", 2, "approve")
    assert (click.place, click.seal, click.form) == (PLACE, "0123456789ab", None)
    assert click.card is not None and click.card.channel == GROUP and click.card.ts.startswith("om_")
    assert click.id == click.card.ts[3:]
    assert answer["toast"] == {"type": "info", "content": "Got it."}


async def test_the_place_of_a_press_is_that_of_its_card(ears: Ears) -> None:
    about = {"direct": True, "shared": True}
    await press(ears, APPROVE.model_copy(update=about))
    assert [one.place for one in ears.inbox.clicks] == [PLACE.model_copy(update=about)]


async def test_a_press_that_comes_twice_is_one_click(ears: Ears) -> None:
    await ears.hear("card_press")
    await ears.hear("card_press")
    assert len(ears.inbox.clicks) == 1


async def test_a_picked_person_and_ticked_boxes_come_with_the_press(ears: Ears) -> None:
    await ears.hear("card_person_picked")
    await press(ears, APPROVE, form_value={"tick~T1": True, "tick~T2": False, "tick~T3": True})
    assert [one.form for one in ears.inbox.clicks] == [{"person": ZHANG}, {TICKED: "T1,T3"}]


async def test_a_press_is_answered_with_the_card_as_it_is_now(ears: Ears, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(press_listeners, "RESULT_S", 30.0)
    after = {"schema": "2.0", "body": {"elements": []}}
    pressed = ears.listeners.handle_payload(build_press(APPROVE))
    handling = asyncio.create_task(pressed)
    await eventually(lambda: ears.inbox.clicks)
    card = ears.inbox.clicks[0].card
    assert card is not None
    ears.channel.presses.give_card(card, after)
    answer = await handling
    assert answer is not None and answer["card"] == {"type": "raw", "data": after}


async def test_the_presser_is_told_by_the_toast(ears: Ears, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(press_listeners, "RESULT_S", 30.0)
    handling = asyncio.create_task(ears.listeners.handle_payload(build_press(APPROVE)))
    await eventually(lambda: ears.inbox.clicks)
    assert ears.channel.presses.give_notice(GROUP, LI, "Somebody else has decided this.")
    assert (await handling or {})["toast"]["content"] == "Somebody else has decided this."


async def test_a_press_on_a_card_that_was_posted_anew_is_one_on_the_first(ears: Ears) -> None:
    post = Post(text="Please", card=Card("Leave", buttons=(Button("Confirm", "confirm", "A1", 1),)))
    ears.feishu.hear(GROUP, ROOT)
    first = await ears.channel.post_message(PLACE, post, key="k")
    payload = build_press(APPROVE)
    payload["event"]["context"]["open_message_id"] = first.ts
    await ears.listeners.handle_payload(payload)
    assert ears.inbox.clicks[0].card == first


async def test_a_press_on_home_names_no_message(ears: Ears) -> None:
    await press(ears, APPROVE.model_copy(update={"on_page": True, "direct": True, "thread": ""}))
    [click] = ears.inbox.clicks
    assert click.card is None and click.place == Place(platform="feishu", team=TENANT, channel=GROUP, direct=True)


async def test_a_thumb_rates_the_run(ears: Ears) -> None:
    await press(ears, PressValue(approval="R1", version=1, choice="feedback_good"))
    [click] = ears.inbox.clicks
    assert (click.approval, click.version, click.choice, click.person) == ("R1", 1, "feedback_good", LI)


# Who presses


async def test_only_members_press(ears: Ears) -> None:
    for tenant in (OTHER, "", None):
        payload = build_press(APPROVE)
        payload["event"]["operator"]["tenant_key"] = tenant
        answer = await ears.listeners.handle_payload(payload)
        assert answer is not None and "card" not in answer
        assert answer["toast"]["type"] == "error" and "only work for members" in answer["toast"]["content"]
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


async def test_a_value_that_is_a_text_is_nothing_of_ours(ears: Ears) -> None:
    assert await ears.hear("card_press_string_value") == {}
    assert not ears.inbox.log


# Acceptance


@pytest.mark.parametrize(
    ("withdrawn", "text"),
    [
        (Acceptance.NOT_TAKEN, "nothing has happened"),
        (Acceptance.TAKEN, "I have it"),
        (Acceptance.UNKNOWN, "I do not know yet"),
    ],
)
async def test_a_press_that_is_not_durable_is_not_called_so(ears: Ears, withdrawn: Acceptance, text: str) -> None:
    async def refuse(click: Click) -> None:
        raise StoreUnavailableError("no Redis")

    ears.inbox.withdrawn = withdrawn
    ears.inbox.accept_click = refuse  # type: ignore[method-assign]
    toast = (await press(ears, APPROVE))["toast"]
    assert toast["type"] == "error" and text in toast["content"]


async def test_a_press_without_a_store_is_not_taken(ears: Ears) -> None:
    ears.inbox.down = True
    toast = (await press(ears, APPROVE))["toast"]
    assert toast["type"] == "error" and not ears.inbox.clicks


async def test_a_slow_store_does_not_keep_feishu_waiting(ears: Ears, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(press_listeners, "ANSWER_S", 0.05)
    ears.inbox.moving.clear()
    toast = (await press(ears, APPROVE))["toast"]
    assert toast["type"] == "error" and "do not know yet" in toast["content"]
    ears.inbox.moving.set()
    await eventually(lambda: ears.feishu.in_chat("oc_dm_li"))
    assert "That took longer" in show(ears.feishu.in_chat("oc_dm_li")[0].content), "and is told what became of it"
    assert len(ears.inbox.clicks) == 1


async def test_a_late_form_shows_that_it_was_taken(ears: Ears, monkeypatch: pytest.MonkeyPatch) -> None:
    form = await open_form(ears)
    monkeypatch.setattr(press_listeners, "ANSWER_S", 0.05)
    ears.inbox.moving.clear()
    payload = build_press(FormValue(process="leave"), form_value={"reason": "x"})
    payload["event"]["context"] |= {"open_message_id": form.ts, "open_chat_id": form.channel}
    assert "现在还不能确定" in show(await ears.listeners.handle_payload(payload)), "known since the form was opened"
    ears.inbox.moving.set()
    await eventually(lambda: "已提交" in show(ears.feishu.said[form.ts].content))


# Dialogs


async def test_a_dialog_is_a_form_in_the_pressers_own_chat(ears: Ears) -> None:
    ears.inbox.dialogs["approve"] = DIALOG
    answer = await press(ears, APPROVE)
    assert answer["toast"]["content"] == "表单已发到我们的单聊里，请在那里填写。" and "card" not in answer
    [form] = ears.feishu.in_chat("oc_dm_li")
    assert "Reject" in show(form.content) and not ears.inbox.clicks and not ears.feishu.in_chat(GROUP)
    await press(ears, APPROVE)
    assert len(ears.feishu.in_chat("oc_dm_li")) == 1, "the press is the same"


async def test_in_the_pressers_own_chat_the_toast_points_below(ears: Ears) -> None:
    ears.inbox.dialogs["approve"] = DIALOG
    payload = build_press(APPROVE.model_copy(update={"direct": True, "thread": ""}))
    payload["event"]["context"]["open_chat_id"] = "oc_dm_li"
    answer = await ears.listeners.handle_payload(payload)
    assert answer is not None and answer["toast"]["content"] == "请填写下方的表单。"


async def test_a_form_offers_the_members_by_their_ids(ears: Ears) -> None:
    who = FormInput(DialogField(name="who", label="Who", kind="person"), "Who")
    ears.inbox.dialogs["approve"] = replace(DIALOG, inputs=(who,))
    await press(ears, APPROVE)
    [form] = ears.feishu.in_chat("oc_dm_li")
    assert show([{"value": LI}, {"value": ZHANG}])[1:-1] in show(form.content) and "select_person" in show(form.content)


async def test_a_picker_in_a_chat_with_one_person_offers_the_members(ears: Ears) -> None:
    """Control: without contacts, Feishu would offer the person and the bot, so there is no picker."""
    chat, post = await ears.channel.open_dm(LI), Post("Who?", picker=PersonPicker("Choose", "pick", "A1", 1))
    children = "contact/v3/departments/0/children"
    ears.feishu.pages[children] = 99991672
    await ears.channel.post_message(chat, post, key="without")
    del ears.feishu.pages[children]
    await ears.channel.post_message(chat, post, key="with")
    without, offered = (show(one.content) for one in ears.feishu.in_chat("oc_dm_li"))
    assert "select_person" not in without and ZHANG in offered and LI in offered


async def test_without_contacts_a_person_is_typed(ears: Ears) -> None:
    """The negative control."""
    ears.feishu.pages["contact/v3/departments/0/children"] = 99991672
    who = FormInput(DialogField(name="who", label="Who", kind="person"), "Who")
    ears.inbox.dialogs["approve"] = replace(DIALOG, inputs=(who,))
    await press(ears, APPROVE)
    [form] = ears.feishu.in_chat("oc_dm_li")
    assert "select_person" not in show(form.content) and "email address" in show(form.content)


SUBMIT = DialogValue(
    approval="A1b2c3", version=2, choice="reject", place=PLACE, card=MessageRef(channel=GROUP, ts="om_1")
)


async def test_a_submitted_dialog_is_a_click_with_its_form(ears: Ears) -> None:
    value = SUBMIT.model_copy(update={"values": {"first": "1"}, "kept": {"hidden": "2"}})
    answer = await press(ears, value, form_value={"reason": "too long", "hidden": "3"})
    [click] = ears.inbox.clicks
    assert click.form == {"first": "1", "reason": "too long", "hidden": "2"}
    assert (click.person, click.choice, click.place, click.card) == (LI, "reject", PLACE, value.card)
    assert "Submitted" in show(answer["card"]) and '"callback"' not in show(answer["card"])


async def test_the_place_of_a_dialog_is_in_our_company(ears: Ears) -> None:
    elsewhere = PLACE.model_copy(update={"team": OTHER, "platform": "slack"})
    await press(ears, SUBMIT.model_copy(update={"place": elsewhere}))
    assert ears.inbox.clicks[0].place == PLACE


async def test_problems_of_a_dialog_are_shown_with_the_input(ears: Ears) -> None:
    ears.inbox.wrong, ears.inbox.dialogs["reject"] = {"reason": "Please say more."}, DIALOG
    answer = await press(ears, SUBMIT, form_value={"reason": "no"})
    assert answer["toast"] == {"type": "error", "content": "Please say more."} and not ears.inbox.clicks
    shown = show(answer["card"])
    assert "Please say more." in shown and '"no"' in shown and '"callback"' in shown


async def test_the_next_page_of_a_dialog_replaces_the_first(ears: Ears) -> None:
    inputs = tuple(FormInput(DialogField(name=f"f{n}", label=f"F{n}"), f"Field {n}") for n in range(30))
    long = replace(DIALOG, inputs=inputs, more="More")
    ears.inbox.dialogs["reject"] = long
    more = SUBMIT.model_copy(update={"is_more": True})
    answer = await press(ears, more, form_value={"f0": "typed on the first page"})
    shown = show(answer["card"])
    assert "typed on the first page" in shown and "Field 0" not in shown and not ears.inbox.clicks


async def test_a_cancelled_form_says_so(ears: Ears) -> None:
    answer = await press(ears, CancelValue(title="Reject"))
    assert "Reject" in show(answer["card"]) and "Cancelled" in show(answer["card"]) and "toast" not in answer
    assert not ears.inbox.log


# Forms


async def open_form(ears: Ears) -> MessageRef:
    ears.inbox.form_page = PAGE
    await press(ears, OpenFormValue(offer="R1.2"))
    [form] = ears.feishu.in_chat("oc_dm_li")
    ears.inbox.forms.clear()
    return MessageRef(channel=form.chat, ts=form.id)


async def test_a_button_opens_a_form(ears: Ears) -> None:
    ears.inbox.form_page = PAGE
    answer = await press(ears, OpenFormValue(offer="R1.2"))
    [form] = ears.inbox.forms
    assert (form.person, form.offer, form.has_choice) == (LI, "R1.2", False)
    assert "单聊" in answer["toast"]["content"] and "Leave" in show(ears.feishu.in_chat("oc_dm_li")[0].content)


async def test_a_person_without_forms_is_told_why(ears: Ears) -> None:
    answer = await press(ears, OpenFormValue())
    assert answer["toast"] == {"type": "error", "content": "no form"} and not ears.feishu.in_chat("oc_dm_li")


async def test_the_menu_of_a_form_changes_its_process(ears: Ears) -> None:
    ears.inbox.form_page = PAGE
    answer = await press(ears, OpenFormValue(is_menu=True), option="expense")
    [form] = ears.inbox.forms
    assert (form.process, form.has_choice) == ("expense", True) and "Leave" in show(answer["card"])


async def test_a_submitted_form_is_the_input_of_its_presser(ears: Ears) -> None:
    answer = await ears.hear("card_form")
    [form] = ears.inbox.forms
    assert (form.person, form.process, form.has_choice, form.page) == (LI, "leave", True, 0)
    assert form.id == f"om_{24:032x}", "the form itself, so that two submissions make one card"
    assert form.values["reason"] == "家里有事" and form.values["deputy"] == ZHANG
    assert form.values["cc"] == f"{ZHANG},{LI}"
    assert "Submitted" in show(answer["card"])


async def test_problems_of_a_form_are_shown_with_the_input(ears: Ears) -> None:
    ears.inbox.form_page = PAGE
    ears.inbox.form_answer = FormAnswer(problems=(FormProblem("reason", "Reason", "Please say more."),))
    answer = await press(ears, FormValue(process="leave"), form_value={"reason": "no"})
    assert answer["toast"] == {"type": "error", "content": "Please say more."}
    assert "Please say more." in show(answer["card"]) and '"no"' in show(answer["card"])


async def test_pages_of_a_form_follow_each_other(ears: Ears) -> None:
    ears.inbox.form_page = PAGE
    more = FormValue(process="leave", values={"first": "1"}, is_more=True)
    answer = await press(ears, more, form_value={"reason": "x"})
    [form] = ears.inbox.forms
    assert (form.page, form.earlier, form.values) == (1, ("first", "reason"), {"first": "1", "reason": "x"})
    assert "toast" not in answer and "Leave" in show(answer["card"])
    ears.inbox.form_answer = FormAnswer(next_page=PAGE)
    assert "Leave" in show((await press(ears, FormValue(process="leave")))["card"])


async def test_a_form_without_a_store_can_be_sent_again(ears: Ears) -> None:
    ears.inbox.down = True
    answer = await press(ears, FormValue(process="leave"))
    assert answer["toast"]["type"] == "error" and "card" not in answer


# Home


async def test_a_button_of_home_changes_the_page(ears: Ears) -> None:
    ears.inbox.homes[LI] = HomeView("Home", ())
    assert await press(ears, HomeValue(action="skip", value="T1")) == {}
    assert ears.homes == [(LI, HomeView("Home", ()))]


async def test_a_button_of_home_opens_a_dialog(ears: Ears) -> None:
    ears.inbox.home_dialogs["urge"] = HomeDialog(title="Urge", cancel="Cancel", submit="Send", action="urge")
    answer = await press(ears, HomeValue(action="urge"))
    assert "单聊" in answer["toast"]["content"]
    assert "Urge" in show(ears.feishu.in_chat("oc_dm_li")[0].content)


async def test_a_dialog_of_home_belongs_to_the_pressers_own_chat(ears: Ears) -> None:
    value = HomeDialogValue(action="urge", value="T1", form={"a": "1"}, seal="s")
    answer = await press(ears, value, form_value={"note": "x"})
    assert "Submitted" in show(answer["card"])
    [submission] = ears.inbox.home_submissions
    assert submission.place == Place(platform="feishu", team=TENANT, channel="oc_dm_li", direct=True)
    assert (submission.person, submission.form, submission.seal) == (LI, {"a": "1", "note": "x"}, "s")


async def test_a_dialog_of_home_shows_its_problems_or_the_next_one(ears: Ears) -> None:
    ears.inbox.home_answer = HomeAnswer(problems=(FormProblem("note", "Note", "Please say more."),))
    answer = await press(ears, HomeDialogValue(action="urge"))
    assert answer == {"toast": {"type": "error", "content": "Please say more."}}
    ears.inbox.home_answer = HomeAnswer(dialog=HomeDialog(title="Urge", cancel="Cancel", submit="Send", action="urge"))
    assert "Urge" in show((await press(ears, HomeDialogValue(action="urge")))["card"])
