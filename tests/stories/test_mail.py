"""Mail, told as people live it: nothing leaves before *Send*, and exactly what was shown arrives, once."""

from __future__ import annotations

import asyncio

import pytest

from bot.local.workspace.refused import WorkspaceError
from tests.harness.office import LI, ZHANG, ZHAO, Office, read_message_text
from tests.stories.behind import choices_of, facts_of, forged, kept, people_of, times_told, told_privately

FIRST = "本邮件由 Countersign 代张三（zhangsan@example.com）发送，直接回复即可回给本人。\n\n"
WORDS = "给李四发邮件，主题：项目进度，内容：请看一下 L-0001，谢谢"


async def test_c_mail_without_content_asks_for_it(desk: Office) -> None:
    answer = await desk.answer(ZHANG, "给李四发邮件")
    assert "写什么内容" in answer and "没有做任何改动" in answer
    assert not desk.cards(desk.dm(ZHANG)) and not desk.mails
    answer = await desk.answer(ZHAO, "mail Li Si")
    assert "What should the mail" in answer and "nothing was changed" in answer
    assert not desk.cards(desk.dm(ZHAO)) and not desk.mails


async def test_c_the_content_that_was_asked_for_becomes_a_preview(desk: Office) -> None:
    here = desk.dm(ZHANG)
    await desk.answer(ZHANG, "给李四发邮件")
    await desk.says(ZHANG, "请看一下 L-0001，谢谢")
    preview = await desk.card(here)
    assert facts_of(preview)["收件人"] == "李四"
    assert "请看一下 L-0001，谢谢" in read_message_text(preview)
    assert choices_of(preview) == {"send", "edit", "cancel"}
    assert not desk.mails, "nothing leaves before Send"
    await desk.press(ZHANG, preview, "send")
    await desk.until(lambda: desk.finals(here)[1:])
    assert [(m["to"], m["body"]) for m in desk.mails] == [(["lisi@example.com"], FIRST + "请看一下 L-0001，谢谢")]
    assert (
        FIRST.strip() in read_message_text(preview)
        and facts_of(preview)["回复至"] == "张三 &lt;zhangsan@example.com&gt;"
    )
    assert desk.mails[0]["reply_to"] == "张三 <zhangsan@example.com>"


async def test_c_edited_and_sent_exactly_the_edited_mail_arrives_once(desk: Office) -> None:
    here = desk.dm(ZHANG)
    await desk.says(ZHANG, WORDS)
    first = kept(await desk.card(here))
    await desk.press(ZHANG, first, "edit")
    dialog = await desk.until(lambda: desk.driver.find_top_view(ZHANG))
    assert [block["element"]["initial_value"] for block in dialog["blocks"] if "element" in block] == [
        "项目进度",
        "请看一下 L-0001，谢谢",
    ]
    assert (await desk.fill(ZHANG, subject="L-0001 进度", body="李四你好：\n麻烦看一下 L-0001 🙏\n张三")).ok
    second = kept(await desk.card(here, "麻烦看一下"))
    assert facts_of(second)["主题"] == "L-0001 进度"
    assert "请看一下 L-0001，谢谢" not in read_message_text(second), "the preview shows the new mail and no other"
    assert not desk.mails

    await desk.press(ZHANG, first, "send", force=True)
    await told_privately(desk, ZHANG, "这是旧的按钮")
    await desk.quiet()
    assert not desk.mails, "a button of the old preview sends nothing"

    await desk.press(ZHANG, second, "send")
    answer = await desk.until(lambda: desk.finals(here))
    assert "给李四发了邮件" in answer[0]
    await desk.quiet()
    (mail,) = desk.mails
    assert (mail["to"], mail["subject"]) == (["lisi@example.com"], "L-0001 进度")
    assert mail["body"] == FIRST + "李四你好：\n麻烦看一下 L-0001 🙏\n张三"
    assert not desk.cards(here)
    assert people_of(second)["收件人"] == [(LI, "\nlisi@example.com")], "who it goes to can be checked on the card"
    assert "lisi@example.com" not in "".join([*desk.steps(here), *answer]), "nowhere else is an address shown"


async def test_c_the_same_in_english(desk: Office) -> None:
    here = desk.dm(ZHAO)
    await desk.says(ZHAO, "mail Li Si: please look at E-0001")
    await desk.press(ZHAO, await desk.card(here), "edit")
    await desk.fill(ZHAO, subject="E-0001", body="Please look at E-0001 today.\nThank you")
    preview = await desk.card(here, "today")
    assert facts_of(preview) == {
        "To": "Li Si",
        "Subject": "E-0001",
        "Replies go to": "赵六 &lt;zhaoliu@example.com&gt;",
    }
    await desk.press(ZHAO, preview, "send")
    answer = await desk.until(lambda: desk.finals(here))
    assert "On record: mailed Li Si" in answer[0]
    await desk.quiet()
    first = "本邮件由 Countersign 代赵六（zhaoliu@example.com）发送，直接回复即可回给本人。"
    text = f"{first}\n\nPlease look at E-0001 today.\nThank you"
    assert [(m["subject"], m["body"]) for m in desk.mails] == [("E-0001", text)], "its first line is for its reader"


@pytest.mark.parametrize(
    ("field", "text", "said"),
    [("body", "  ", "还没有内容"), ("body", "[姓名]你好", "没填"), ("subject", "一\n二", "一行")],
)
async def test_an_edit_that_will_not_do_is_refused_in_the_dialog(
    desk: Office, field: str, text: str, said: str
) -> None:
    here = desk.dm(ZHANG)
    await desk.says(ZHANG, WORDS)
    await desk.press(ZHANG, await desk.card(here), "edit")
    dialog = await desk.until(lambda: desk.driver.find_top_view(ZHANG))
    values = {"subject": "项目进度", "body": "请看一下"} | {field: text}
    refused = await desk.driver.submit_view(ZHANG, dialog["id"], values, force=True)
    assert list(refused.errors) == [field] and said in refused.errors[field]
    assert "请看一下 L-0001，谢谢" in read_message_text(await desk.card(here)), "the mail is as it was"
    assert (await desk.fill(ZHANG, body="请看一下，谢谢")).ok
    await desk.card(here, "请看一下，谢谢")


async def test_nobody_else_sends_or_edits_my_mail(desk: Office) -> None:
    here = desk.dm(ZHANG)
    await desk.says(ZHANG, WORDS)
    preview = kept(await desk.card(here))
    for choice in ("send", "edit", "cancel"):
        await forged(desk, ZHAO, preview, choice)
    await told_privately(desk, ZHAO, "Zhang San", times=3)
    assert desk.driver.find_top_view(ZHAO) is None and not desk.mails
    await desk.press(ZHANG, preview, "send")
    await desk.until(lambda: desk.mails)


async def test_a_double_click_on_send_sends_once(desk: Office) -> None:
    here = desk.dm(ZHANG)
    await desk.says(ZHANG, WORDS)
    preview = kept(await desk.card(here))
    await asyncio.gather(*(desk.press(ZHANG, preview, "send", force=True) for _ in range(5)))
    await told_privately(desk, ZHANG, "已经处理过了", times=4)
    await desk.until(lambda: desk.finals(here))
    await desk.quiet()
    assert len(desk.mails) == 1
    assert await times_told(desk, "effect.done") == 1
    with pytest.raises(WorkspaceError):
        await desk.press(ZHANG, (await desk.until(lambda: desk.posts(here)))[-1], "send")


async def test_a_cancelled_mail_is_never_sent(desk: Office) -> None:
    here = desk.dm(ZHANG)
    await desk.says(ZHANG, WORDS)
    preview = kept(await desk.card(here))
    await desk.press(ZHANG, preview, "cancel")
    assert "没有做任何改动" in (await desk.until(lambda: desk.finals(here)))[0]
    await desk.press(ZHANG, preview, "send", force=True)
    await told_privately(desk, ZHANG, "您已取消")
    await desk.quiet()
    assert not desk.mails


async def test_what_the_mail_server_refuses_is_said_and_can_be_tried_again(desk: Office) -> None:
    here = desk.dm(ZHANG)
    await desk.says(ZHANG, WORDS)
    desk.mailbox.fail_next_mail("refuse_data")
    await desk.press(ZHANG, await desk.card(here), "send")
    failed = await desk.until(lambda: desk.finals(here))
    assert "没有做任何改动" in failed[0] and not desk.mails
    retry = await desk.card(here, "没有成功")
    assert choices_of(retry) == {"retry"}
    await desk.press(ZHANG, retry, "retry")
    await desk.until(lambda: desk.mails)
    await desk.quiet()
    assert len(desk.mails) == 1 and not desk.cards(here)
    assert desk.mails[0]["to"] == ["lisi@example.com"]
