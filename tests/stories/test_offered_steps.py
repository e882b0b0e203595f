"""Buttons that the model offers under an answer: a form that opens filled in, or a sentence that a press says."""

from typing import Any

from bot.chat.messages import Click, FormDialog, FormSubmission, Place
from bot.dev.evaluation.shown_blocks import list_buttons, read_message_text
from bot.features.request_forms import TOOLS_BY_FORM
from tests.harness.office import LI, WANG, ZHANG, Office, found_request
from tests.stories.behind import facts_of, open_form, values_of
from tools.offer_steps.tool import TOOL_FORMS


async def ask(office: Office, text: str) -> dict[str, Any]:
    """Say something that leads to buttons; return the answer with them."""

    def list_answers() -> list[dict[str, Any]]:
        here = office.posts(office.dm(ZHANG))
        return [m for m in here if any("cs:form:open" in b["action_id"] for b in list_buttons(m))]

    before = len(list_answers())
    await office.says(ZHANG, text)
    await office.until(lambda: len(list_answers()) > before)
    await office.quiet()
    return list_answers()[-1]


async def test_a_vague_leave_ends_in_a_form_filled_with_what_was_said(desk: Office) -> None:
    answer = await ask(desk, "我奶奶去世了，想从周三请假到周五，李四审批")
    assert [b["text"]["text"] for b in list_buttons(answer)][:1] == ["填写请假表单…"]
    assert "按规则办事，不是模型" in read_message_text(answer)
    shown = values_of(await open_form(desk, answer))
    wanted = {"leave_type": "bereavement", "start_date": "2026-11-25", "end_date": "2026-11-27", "approver": LI}
    assert wanted.items() <= shown.items() and "奶奶" in shown["reason"]
    assert (await desk.fill(ZHANG)).ok
    card = await desk.card(desk.dm(ZHANG), "丧假")
    assert facts_of(card)["审批人"] == "李四"
    await desk.press(ZHANG, card, "confirm")
    await desk.until(lambda: found_request(desk.said(desk.dm(ZHANG))))


async def test_a_half_day_keeps_its_half_and_a_name_that_nobody_has_stays_empty(desk: Office) -> None:
    view = await open_form(desk, await ask(desk, "可能周五下午请半天假，审批人孙悟空"))
    assert not values_of(view).get("approver")
    await desk.fill(ZHANG, leave_type="personal", reason="搬家")
    assert "0.5 个工作日" in str(facts_of(await desk.card(desk.dm(ZHANG), "搬家")))


async def test_a_mail_and_a_stand_in_are_forms_too(desk: Office) -> None:
    assert {*TOOL_FORMS} == {*TOOLS_BY_FORM}, "every form that a model may offer opens"
    shown = values_of(await open_form(desk, await ask(desk, "给王五写封信")))
    assert shown == {"to": [WANG], "subject": "", "body": ""}
    assert "没填的内容" in str((await desk.fill(ZHANG, to=[WANG], subject="项目", body="【请填写内容】")).answer)
    assert (await desk.fill(ZHANG, to=[WANG], subject="项目", body="请看一下进度。")).ok
    await desk.press(ZHANG, await desk.card(desk.dm(ZHANG), "给王五发这封邮件"), "send")
    await desk.until(lambda: "发了邮件" in desk.said(desk.dm(ZHANG)))
    shown = values_of(await open_form(desk, await ask(desk, "12月7号到9号请人代理我的审批")))
    assert shown == {"start_date": "2026-12-07", "end_date": "2026-12-09", "deputy": ""}
    assert (await desk.fill(ZHANG, deputy=WANG)).ok
    assert await desk.card(desk.dm(ZHANG), "王五")


async def test_a_sentence_is_said_once_by_the_person_whom_the_answer_is_for(desk: Office) -> None:
    answer = await ask(desk, "放首歌听听")
    (button,) = [b for b in list_buttons(answer) if b["text"]["text"] == "我的待办"]
    run = str(button["value"]).partition(".")[0]
    place = Place(team="T0LOCAL", channel=desk.dm(WANG), direct=True)
    press = Click(id="p1", approval=run, version=1, choice="say_3", person=WANG, place=place)
    await desk.bot.ingress.accept_click(press)
    await desk.quiet()
    assert [one.text for one in await desk.journal() if one.kind == "run.refused"] == ["not_writer"]
    assert (await desk.driver.click_button(ZHANG, desk.dm(ZHANG), answer["ts"], "cs:say_3")).ok
    await desk.until(lambda: "没有等您处理的事" in desk.said(desk.dm(ZHANG)))
    await desk.bot.ingress.accept_click(press.model_copy(update={"id": "p2", "person": ZHANG}))
    await desk.quiet()
    [answered] = await desk.journal(kinds=["run.answered"])
    assert answered.text == "say_3", "the sentence is in no journal"


async def test_only_the_person_whom_the_answer_is_for_sees_what_they_said(desk: Office) -> None:
    answer = await ask(desk, "大概12月7号到9号请病假")
    run = str(next(list_buttons(answer))["value"]).partition(".")[0]
    for person, kind in ((ZHANG, "sick"), (LI, "")):
        form = FormSubmission(id="", person=person, process="", offer=f"{run}.0")
        dialog = await desk.bot.ingress.build_form(form)
        assert isinstance(dialog, FormDialog)
        assert next(one.field.value for one in dialog.inputs if one.field.name == "leave_type") == kind
    gone = await desk.bot.ingress.build_form(FormSubmission(id="", person=LI, process="", offer="R00gone.0"))
    assert isinstance(gone, FormDialog) and gone.choices, "an answer that is gone leads to the empty form"
