"""One who types, a model that copies, an approver who answers: nobody is shown less than what is done."""

from __future__ import annotations

from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.chat.messages import Click
from bot.storage.approvals import derive_task_card_id
from tests.harness.lab import DM, Lab
from tests.harness.presses import started
from tests.stories.script import DONE, calls, mail
from tools.characters import has_invisible

HIDDEN = "\u200b\u2028\u061c\U000e0041"


async def test_the_model_reads_what_people_see(redis: Redis) -> None:
    here = Lab(redis, [calls(("list_people", {"name": f"李四{HIDDEN}"})), ModelReply(text=f"没有{HIDDEN}找到。")])
    await here.says(f"李四{HIDDEN}在吗？")
    await here.work()
    sent = [str(message["content"]) for request in here.model.requests for message in request if message.get("content")]
    assert any("李四⟨U+200B⟩⟨U+2028⟩⟨U+061C⟩⟨U+E0041⟩在吗" in text for text in sent)
    assert not any(has_invisible(text) for text in sent)


async def test_an_opinion_loses_them_and_the_decided_card_says_so(redis: Redis) -> None:
    here = await started(redis)
    await here.presses(here.wall.cards("DU2")[0], "reject", person="U2", form={"opinion": f"缺{HIDDEN}发票"})
    await here.work()
    approval = await here.approvals.load_approval(derive_task_card_id(here.keys, "L-0001-1"))
    assert approval is not None and approval.form["opinion"] == "缺发票" and approval.removed_characters == 4
    request = await here.engine.get_request("L-0001")
    assert request.opinions[-1].text == "缺发票"
    [shown] = [one.post.card for one in here.wall.said if one.place.channel == "DU2"]
    assert shown is not None and "有 4 个看不见的字符，已去掉" in shown.lead


async def test_an_opinion_of_nothing_else_is_no_opinion(redis: Redis) -> None:
    here = await started(redis)
    button = here.wall.cards("DU2")[0].buttons[0]
    click = Click(
        id="x", approval=button.approval, version=button.version, choice="reject", person="U2", place=DM, form={}
    )
    assert await here.dialogs.check_dialog(click.model_copy(update={"form": {"opinion": HIDDEN}}))
    assert not await here.dialogs.check_dialog(click.model_copy(update={"form": {"opinion": "缺发票"}}))


async def test_an_edited_mail_loses_them_with_a_note_and_is_sent_as_shown(redis: Redis) -> None:
    here = Lab(redis, [mail(), DONE])
    await here.says("给李四发邮件")
    await here.work()
    await here.presses(here.wall.cards()[0], "edit", form={"subject": "提醒", "body": f"麻烦{HIDDEN}看一下👩‍💻"})
    await here.work()
    [card] = here.wall.cards()
    assert card.body.endswith("\n\n麻烦看一下👩‍💻") and any("去掉了 4 个" in str(value) for _, value in card.facts)
    await here.presses(card, "send")
    await here.work()
    assert "麻烦看一下👩‍💻" in here.mailer.mails[0].body
