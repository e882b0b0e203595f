"""The bot without each of its features, and without all of them. A mail is sent and a request approved; a press on a
button of a missing feature is answered, and an item of that feature ends without an effect."""

from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.chat.messages import Button, FormAnswer, FormDialog, FormSubmission, HomePress, SentFile
from bot.core.i18n import translate
from bot.core.work_items import FormSubmitted
from bot.features.diagrams import RenderDiagram
from bot.features.shipped import FEATURES
from bot.storage.dead_letters import DeadLetterStore
from tests.harness.corpus import corpus
from tests.harness.files import png
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM
from tests.stories.script import DONE, calls, expense, mail
from tools.workflow.engine.state import Status

STUCK = [calls(("list_people", {}))] * 3
"""The run stops at the third."""
INVENTED = [ModelReply(text="L-0099 由王五审批，800 元。")] * 2
"""An answer that nothing supports. A model that is told of it says it once more."""
WITHOUT = {
    "nothing left out": FEATURES,
    **{one.__module__: tuple(other for other in FEATURES if other is not one) for one in FEATURES},
    "everything left out": (),
}


@corpus("left_out", *WITHOUT)
async def test_the_bot_works_without_a_feature(redis: Redis, left_out: str) -> None:
    bot = Bot(redis, [mail(), DONE, expense(), DONE, *STUCK, *INVENTED, DONE], features=WITHOUT[left_out])
    await bot.send("给李四发邮件")
    await bot.press(bot.chat.cards()[-1], "send")
    assert len(bot.mailer.mails) == 1
    await bot.send("报销500元差旅费，审批人李四", id="Ev2")
    await bot.press(bot.chat.cards()[-1], "confirm")
    await bot.press(bot.chat.cards("DU2")[-1], "approve", person="U2")
    [request] = [one.id for one in (await bot.engine.list_recent_requests("U1", 9)).requests]
    assert (await bot.engine.get_request(request)).status is Status.APPROVED
    await bot.send("看看", id="Ev3")
    said = len(bot.chat.ephemerals) + len(bot.chat.answers())
    await bot.put_button_press(Button("?", "anew", approval="R00gone", version=1), "U1", "old")
    await bot.work()
    assert len(bot.chat.ephemerals) + len(bot.chat.answers()) == said + 1, "a press is never ignored"
    await bot.send("报销呢？", id="Ev4")
    assert ("未经核实" in bot.chat.answers()[-1]) == _has(left_out, "grounding")
    bot.file_source.contents["F0RECEIPT"] = png("taxi")
    await bot.send("", id="Ev5", files=[SentFile(id="F0RECEIPT", name="taxi.png")])
    assert (translate("error.no_files", "zh") in bot.chat.texts()) != _has(left_out, "files")
    await bot.handle_work("diagram:U1", "d", RenderDiagram(person="U1", place=None, name=request))
    assert len(bot.chat.pictures) == _has(left_out, "diagrams")
    assert (await bot.ingress.build_home("U1", is_opened=True) is not None) == _has(left_out, "home")
    await bot.ingress.handle_home_press(HomePress(id="t", person="U1", action="settings", value=""))
    assert bool(await bot.ingress.welcome_person("U1", DM)) == _has(left_out, "welcome")
    form = await bot.ingress.build_form(FormSubmission(id="V1", person="U1", process="leave"))
    assert isinstance(form, FormDialog) == _has(left_out, "request_forms")
    late = FormSubmission(id="V2", person="U1", process="leave", values={"leave_type": "sick"})
    assert await bot.ingress.submit_form(late) != FormAnswer(), "what nobody keeps is not taken"
    dialog = FormSubmitted(dialog="V3", person="U1", process="leave", values={})
    await bot.handle_work("A00form", "form:U1:V3", dialog)
    assert (translate("form.off", "zh") in bot.chat.texts()) != _has(left_out, "request_forms")
    assert await DeadLetterStore(redis, bot.keys).list_dead_letters() == []


def _has(left_out: str, feature: str) -> bool:
    return left_out == "nothing left out" or (left_out != "everything left out" and feature not in left_out.split("."))
