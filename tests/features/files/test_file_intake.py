"""Files between a message and its request: killed anywhere, each is kept and attached once, and none is lost."""

import asyncio
import os
import time
from datetime import timedelta
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.agent.model import Messages, ModelReply
from bot.chat.messages import Card, FormSubmission, Message, SentFile
from bot.conversation import endings, turn_context
from bot.core.errors import ChatRefusedError, FilesUnavailableError
from bot.core.i18n import translate
from bot.core.work_items import ExpireCard, FormSubmitted
from bot.features.files import feature as files
from bot.features.files.file_bytes import FolderBytes
from bot.features.files.file_store import SMALLEST, FileStore
from bot.features.shipped import FEATURES
from bot.ops.personal_data import PersonalData
from bot.queue.keys import Keys
from bot.storage.runs import build_waiting_files_key
from tests.harness.corpus import corpus
from tests.harness.files import pdf, png
from tests.harness.memory_bot import Bot, every_edge
from tests.harness.memory_platform import DM, MemoryFileBytes
from tests.stories.script import DONE, calls, expense, mail
from tests.tools.company import LI, LIN
from tools.spec import AttachedFile
from tools.workflow.engine.commands import CcCommand, TransferCommand

SENT = (SentFile(id="F0RECEIPT1", name="taxi.png"), SentFile(id="F0RECEIPT2", name="hotel.pdf"))
CONTENT = {"F0RECEIPT1": png("taxi"), "F0RECEIPT2": pdf("hotel")}


async def answer(messages: Messages) -> ModelReply:
    """The same, however often it is asked."""
    return ModelReply(text="好的。") if any(one["role"] == "tool" for one in messages) else expense()


async def test_killed_anywhere_both_files_are_on_one_request(redis: Redis) -> None:
    async for edges in every_edge(redis, more_than=10):
        kept = MemoryFileBytes()
        bot = Bot(redis, [answer] * 50, file_bytes=kept)
        bot.file_source.contents |= CONTENT
        kept.edge = edges
        bot.end_at(edges)
        await bot.send("报销 500 元差旅费", files=SENT)
        await bot.press(bot.chat.cards()[-1], "confirm")
        [request] = await bot.engine.list_own_requests("U1")
        assert [one.name for one in request.filled.files] == ["taxi.png", "hotel.pdf"]
        assert sorted(kept.contents.values()) == sorted(CONTENT.values()), "each once, whatever happened"
        assert not await redis.hgetall(build_waiting_files_key(bot.keys, DM.conversation)), "nothing waits any more"


@corpus("count", 2, 1)
async def test_deciders_are_told_of_files_whose_bytes_are_gone_also_when_all_are(redis: Redis, count: int) -> None:
    """A store that was restored without its folder of files has lost them before their time."""
    kept = MemoryFileBytes()
    bot = Bot(redis, [answer] * 4, file_bytes=kept)
    bot.file_source.contents |= CONTENT
    await bot.send("报销 500 元差旅费", files=SENT[:count])
    kept.contents = {sha256: content for sha256, content in kept.contents.items() if content != CONTENT["F0RECEIPT1"]}
    await bot.press(bot.chat.cards()[-1], "confirm")
    told = [*bot.chat.comments, *bot.chat.texts(f"D{LI.id}")]
    [gone] = [text for text in told if "taxi.png" in text]
    assert "丢失" in gone


async def test_deciders_are_told_of_files_that_the_platform_refuses(redis: Redis) -> None:
    bot = Bot(redis, [answer] * 4)
    bot.file_source.contents |= CONTENT
    bot.chat.fails[f"upload D{LI.id}"] = [ChatRefusedError("storage_limit_reached", "files.upload")] * 9
    await bot.send("报销 500 元差旅费", files=SENT)
    await bot.press(bot.chat.cards()[-1], "confirm")
    last = bot.chat.texts(f"D{LI.id}")[-1]
    assert "没能发给您" in last and "taxi.png" in last and "E-0001 " in last


@pytest.mark.parametrize("is_buried", [False, True])
@pytest.mark.parametrize("is_model_asked", [False, True])
async def test_the_files_of_a_run_that_was_given_up_after_its_card_can_be_used_again(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, is_model_asked: bool, is_buried: bool
) -> None:
    async def fail(*_: object, **__: object) -> ModelReply:
        raise RuntimeError("a mistake of ours")

    bot = Bot(redis, [expense(), *[fail] * 9])
    bot.file_source.contents |= CONTENT
    await bot.send("报销 500 元差旅费", files=SENT)
    with monkeypatch.context() as patch:
        if is_buried:
            patch.setattr(endings, "post_failure", fail)
        if not is_model_asked:
            patch.setattr(turn_context, "refresh_start_tools", fail)
        await bot.press(bot.chat.cards()[0], "cancel")
    assert "试了几次" in bot.chat.texts()[-1]
    bot.model.script[:] = [expense(), ModelReply(text="好的。")]
    await bot.send("再报销一次", id="Ev2")
    await bot.press(bot.chat.cards()[0], "confirm")
    [request] = await bot.engine.list_own_requests("U1")
    assert [one.name for one in request.filled.files] == ["taxi.png", "hotel.pdf"]


async def test_a_run_whose_history_cannot_be_read_is_given_up_and_its_files_are_free(redis: Redis) -> None:
    bot = Bot(redis, [expense()])
    bot.file_source.contents |= CONTENT
    await bot.send("报销 500 元差旅费", files=SENT)
    await redis.lpush(bot.handlers.turns.stores.history.build_history_key(DM.conversation), "1:1|of no version")
    await bot.press(bot.chat.cards()[0], "cancel")
    assert "试了几次" in bot.chat.texts()[-1]
    waiting = await redis.hgetall(build_waiting_files_key(bot.keys, DM.conversation))
    assert len(waiting) == 2 and not any('"run":"R' in one for one in waiting.values())


async def test_the_files_of_a_run_stay_with_its_second_card(redis: Redis) -> None:
    bot = Bot(redis, [expense(), expense(amount="400"), expense(amount="300"), ModelReply(text="好的。")])
    bot.file_source.contents |= CONTENT
    await bot.send("报销 500 元差旅费", files=SENT)
    await bot.press(bot.chat.cards()[0], "cancel")
    await bot.send("再报销一次", id="Ev2")
    await bot.press(bot.chat.cards()[-1], "confirm")
    [request] = await bot.engine.list_own_requests("U1")
    assert request.filled.values["amount"] == "300.00" and not request.filled.files, "another run cannot use them"


@pytest.mark.parametrize("how", ["an offered step", "a retry"])
async def test_a_button_under_an_answer_brings_no_file_back_that_is_on_a_request(redis: Redis, how: str) -> None:
    offer = calls(("offer_steps", {"steps": [{"say": "再报销一次"}]}))
    rest = [offer, ModelReply(text="好的。")] if how == "an offered step" else [calls(("list_people", {}))] * 3
    bot = Bot(redis, [expense(), *rest, ModelReply(text="好的。")])
    bot.file_source.contents |= CONTENT
    await bot.send("报销 500 元差旅费", files=SENT)
    await bot.press(bot.chat.cards()[0], "confirm")
    await bot.press_retry(bot.chat.buttons()[-1])
    assert len(bot.model.requests) == len(rest) + 2, "the control: the press is a message"
    assert not await redis.hgetall(build_waiting_files_key(bot.keys, DM.conversation))


async def test_a_message_that_is_read_again_brings_no_file_back_that_is_on_a_request(redis: Redis) -> None:
    bot = Bot(redis, [expense(), mail(), ModelReply(text="好的。")])
    bot.file_source.contents |= CONTENT
    await bot.send("报销 500 元差旅费，再写信", files=SENT)
    await bot.press(bot.chat.cards()[0], "confirm")
    changed = Message(id="changed", place=DM, person="U1", text="报销 500 元差旅费，改天再写信", at="1.Ev1", files=SENT)
    await bot.ingress.accept_change(changed, is_deleted=False)
    await bot.work()
    await bot.press_retry(next(one for one in bot.chat.buttons() if one.choice == "read_again"))
    assert len(bot.model.requests) == 3, "the control: it is read again"
    assert not await redis.hgetall(build_waiting_files_key(bot.keys, DM.conversation))


async def test_a_file_says_whose_it_is_and_ends_as_the_picture_that_it_is(redis: Redis) -> None:
    """Some were in other people's messages, and some are programs by their names."""
    bot = Bot(redis, [answer] * 5)
    others = {"F0RECEIPT3": png("3"), "F0RECEIPT4": png("4")}
    bot.file_source.contents |= CONTENT | others
    bot.file_source.uploaders = {"F0RECEIPT1": LI.id, "F0RECEIPT2": "U9STRANGER", "F0RECEIPT4": LI.id}
    programs = [SentFile(id="F0RECEIPT3", name="train.png.hta"), SentFile(id="F0RECEIPT4", name="bus.png.hta")]
    await bot.send("报销 500 元差旅费", files=[*SENT, *programs])
    await bot.press(bot.chat.cards()[-1], "confirm")
    [request] = await bot.engine.list_own_requests("U1")
    assert [one.name for one in request.filled.files] == [
        f"taxi ({LI.name}).png", "hotel (U9STRANGER).pdf", "train.png", f"bus ({LI.name}).png",
    ]  # fmt: skip


@pytest.mark.parametrize("uploader", ["U1", LI.id])
async def test_only_ones_own_file_is_taken_from_a_dialog(redis: Redis, uploader: str) -> None:
    bot = Bot(redis)
    bot.file_source.contents |= CONTENT
    bot.file_source.uploaders = {"F0RECEIPT1": uploader}
    await bot.files.announce_files("U1", SENT)
    form = {"amount": "86", "category": "transport", "reason": "taxi", "approver": LI.id, "receipt": "F0RECEIPT1"}
    submitted = FormSubmitted(dialog="V1", person="U1", process="expense", values=form)
    await bot.handle_work("A00form", "form:V1", submitted.model_dump_json())
    assert ("taxi.png" in str(bot.chat.cards()[-1].facts)) == (uploader == "U1")
    assert any("不是您上传的" in text for text in bot.chat.texts()) == (uploader != "U1")


async def test_without_the_feature_neither_a_form_nor_a_card_takes_a_file_and_both_say_so(redis: Redis) -> None:
    bot = Bot(redis, [answer] * 5, features=[one for one in FEATURES if one is not files.build])
    bot.file_source.contents |= CONTENT
    await bot.send("报销 500 元差旅费", files=SENT)
    card, told = bot.chat.cards()[-1], translate("error.no_files", "zh")
    assert "taxi.png" not in str(card.facts) and bot.chat.texts().count(told) == 1
    await bot.press(card, "edit", form={"field_receipt": "F0RECEIPT1"})
    assert bot.chat.ephemerals[-1] == ("U1", told) and len(bot.chat.cards()) == 1
    kept = FormSubmission(id="V1", person="U1", process="expense", kept=("F0RECEIPT1",))
    assert await bot.ingress.build_form(kept) == told
    form = {"amount": "86", "category": "transport", "reason": "taxi", "approver": LI.id, "receipt": "F0RECEIPT1"}
    await bot.handle_work("A00form", "f", FormSubmitted(dialog="V1", person="U1", process="expense", values=form))
    assert "taxi" in str(bot.chat.cards()[-1].facts) and "F0RECEIPT1" not in str(bot.chat.cards()[-1].facts)
    assert bot.chat.texts().count(told) == 2


def build_store(redis: Redis, folder: Path) -> FileStore:
    return FileStore(redis, Keys(partitions=2), DM.team, FolderBytes(folder))


async def test_the_same_bytes_under_two_ids_are_kept_once_and_go_with_the_last(redis: Redis, tmp_path: Path) -> None:
    """Bytes that were changed on the disk are nobody's."""
    store = build_store(redis, tmp_path)
    one = await store.keep_file("U1", AttachedFile(id="F1", name="a.png"), png("same"), 1)
    two = await store.keep_file("U2", AttachedFile(id="F2", name="b.png"), png("same"), 2)
    [path] = tmp_path.glob("*/*")
    assert one.sha256 == two.sha256
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    await store.delete_file("U1:F1")
    assert await store.load_content(two.sha256) == png("same")
    assert not await store.find_files("U1", ["F1", "F2"]), "nobody finds somebody else's"
    path.write_bytes(png("forged"))
    assert await store.load_content(two.sha256) is None
    await store.delete_file("U2:F2")
    assert await store.load_content(two.sha256) is None and not list(tmp_path.glob("*/*"))


def count_refused(bot: Bot) -> int:
    return sum("今天发的文件已到上限" in text for text in bot.chat.texts())


async def test_one_person_may_send_only_so_much_in_a_day(redis: Redis) -> None:
    bot = Bot(redis, files_mb_per_day=2.5 * SMALLEST / 1e6)
    bot.file_source.contents |= {f"F{number}": png(f"{number}") for number in range(6)}
    sent = [SentFile(id=f"F{number}", name=f"{number}.png") for number in range(6)]
    await bot.send("", files=sent[:3])
    assert count_refused(bot) == 1 and len(bot.files.file_bytes.contents) == 2, "the third is not kept"
    bot = Bot(redis, files_mb_per_day=2.5 * SMALLEST / 1e6, file_bytes=bot.files.file_bytes)
    bot.file_source.contents |= {"F3": png("3"), "F4": png("4"), "F5": png("5")}
    await bot.send("", id="Ev2", files=sent[3:4])
    assert count_refused(bot) == 1, "a restart changes nothing"
    await bot.send("", person="U2", id="Ev3", files=sent[4:5])
    assert count_refused(bot) == 1, "somebody else may"
    bot.now_offset += timedelta(days=1)
    await bot.send("", id="Ev4", files=sent[5:])
    assert count_refused(bot) == 1 and len(bot.files.file_bytes.contents) == 4, "the next day they may again"


async def test_a_file_taken_again_counts_once_and_a_race_never_exceeds_the_day(redis: Redis, tmp_path: Path) -> None:
    store, most = build_store(redis, tmp_path), 3 * SMALLEST
    assert [await store.count_file("U1", "F1", 1, most, 0) for _ in range(9)] == [True] * 9
    assert sum(await asyncio.gather(*(store.count_file("U1", f"G{n}", 1, most, 0) for n in range(9)))) <= 2
    assert not await store.count_file("U1", "LARGE", most, most, 0), "a large one has no room"
    assert await store.count_file("U1", "LARGE", most, most, 24 * 3_600_000)
    exported = [one async for one in PersonalData(redis, Keys(partitions=2), "U1").stream_records()]
    assert sum("LARGE" in one.data["value"] for one in exported) == 1 and all(one.erase for one in exported)
    [first, second] = sorted(await redis.keys("*:day:*"))
    assert first != second and 0 < await redis.pttl(first) <= 2 * 24 * 3_600_000, "it goes by itself"


async def test_files_leave_room_on_the_disk_for_the_store(tmp_path: Path) -> None:
    full = FolderBytes(tmp_path, reserve=10**18)
    with pytest.raises(FilesUnavailableError, match="nearly full"):
        await full.save_bytes("0" * 64, b"x")
    with pytest.raises(FilesUnavailableError, match="nearly full"):
        full.check_writable()
    assert not list(tmp_path.rglob("*.part")) and not list(tmp_path.glob("*/*"))
    await FolderBytes(tmp_path).save_bytes("0" * 64, b"x")
    await full.save_bytes("0" * 64, b"x")  # it is there already, and takes no room


async def test_what_a_killed_process_has_left_is_swept(redis: Redis, tmp_path: Path) -> None:
    store = build_store(redis, tmp_path)
    await store.keep_file("U1", AttachedFile(id="F1", name="a.png"), png("kept"), 1)
    await store.file_bytes.save_bytes("0" * 64, b"no record knows of it")
    (tmp_path / "00" / f"{'0' * 64}.1.part").write_bytes(b"half")
    for file in tmp_path.glob("*/*"):
        os.utime(file, (time.time(), time.time()))  # written now, by the clock that the store reads
    assert await store.delete_orphans(3_600) == 0, "it may be on its way"
    assert await store.delete_orphans(-1) == 1 and len(list(tmp_path.glob("*/*"))) == 1


@corpus("name", "../../etc/passwd", "", "F" * 64, "0" * 63)
async def test_only_a_hash_becomes_a_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a SHA-256"):
        await FolderBytes(tmp_path).save_bytes(name, b"x")


async def claim_twice(redis: Redis) -> tuple[Bot, Card]:
    """A bot whose model asks for the card of the second of two claims with one file, which are of Li Si and of Zhang
    San; and this card, which Li Si has."""
    asked = calls(("decide_task", {"task": "E-0002-1"}))
    bot = Bot(redis, [expense(approver="王五"), DONE, expense(), DONE, asked, DONE])
    bot.file_source.contents |= {"F0RECEIPT1": png("taxi"), "F0RECEIPT2": png("taxi")}
    bot.file_source.uploaders = {"F0RECEIPT1": LI.id}
    theirs = DM.model_copy(update={"channel": "DU2"})
    await bot.send("报销 500 元差旅费", LI.id, place=theirs, files=SENT[:1])
    await bot.press(bot.chat.cards("DU2")[-1], "confirm", LI.id)
    await bot.send("报销 500 元差旅费", id="Ev2", files=SENT[1:])
    await bot.press(bot.chat.cards()[-1], "confirm", id="mine")
    card = bot.chat.cards("DU2")[-1]
    assert "E-0001" in str(card.facts), "the control"
    return bot, card


async def test_a_card_that_its_author_asks_for_tells_its_approver_of_the_same_file_on_somebody_elses_claim(
    redis: Redis,
) -> None:
    """The author is not told of it."""
    bot, card = await claim_twice(redis)
    await bot.handle_work(card.buttons[0].approval, "expire", ExpireCard(version=1))
    own = bot.chat.cards("DU1")[-1]
    assert own.buttons[0].choice == "again" and "E-0001" not in str(own)
    await bot.send("请李四看一下", id="Ev3")
    again = bot.chat.cards("DU2")[-1]
    assert again.buttons and again != card
    assert "E-0001" in str(again.facts)
    assert "E-0001" not in str(bot.model.requests[-1])
    assert "E-0001" not in str([one for one in bot.chat.posts if one.place.channel == "DU1"])
    assert "E-0001" not in str(bot.chat.cards("DU1"))


@pytest.mark.parametrize("is_expired", [True, False])
async def test_who_has_a_copy_and_asks_for_the_card_learns_of_no_other_claim_with_the_same_file(
    redis: Redis, is_expired: bool
) -> None:
    bot, card = await claim_twice(redis)
    await bot.engine.execute_command(CcCommand(request="E-0002", actor="U1", people=(LIN.id,)), "cc", bot.today())
    if is_expired:
        await bot.handle_work(card.buttons[0].approval, "expire", ExpireCard(version=1))
    bot.model.script += [DONE]
    theirs = DM.model_copy(update={"channel": "DU5"})
    for id in ("Ev3", "Ev4"):
        await bot.send("请李四看一下", LIN.id, id=id, place=theirs)
    told = str(bot.model.requests[-1])
    assert "decide_task" in told and "E-0002" in told and "E-0001" not in told
    if is_expired:
        assert "E-0001" in str(bot.chat.cards("DU2")[-1].facts), "its approver does"


@corpus(("handed_over", "told"), (False, "U3"), (True, "U5"))
async def test_only_who_decides_the_other_claim_or_has_decided_it_is_told_of_the_same_file(
    redis: Redis, handed_over: bool, told: str
) -> None:
    bot = Bot(redis, [expense(approver="王五"), DONE, expense(), DONE])
    bot.file_source.contents |= {"F0RECEIPT1": png("taxi"), "F0RECEIPT2": png("taxi")}
    bot.file_source.uploaders = {"F0RECEIPT1": LI.id}
    await bot.send("报销 500 元差旅费", LI.id, place=DM.model_copy(update={"channel": "DU2"}), files=SENT[:1])
    await bot.press(bot.chat.cards("DU2")[-1], "confirm", LI.id)
    if handed_over:
        command = TransferCommand(task="E-0001-1", actor="U3", person="U5")
        await bot.engine.execute_command(command, "hand over", bot.today())
    await bot.send("报销 500 元差旅费", id="Ev2", files=SENT[1:])
    await bot.press(bot.chat.cards()[-1], "confirm", id="mine")
    heard = {one.place.channel for one in bot.chat.posts if "E-0002" in one.post.text and "E-0001" in one.post.text}
    assert heard == {f"D{told}"}
