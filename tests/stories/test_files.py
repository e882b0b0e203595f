"""Files: a sent file belongs to its sender's request, is seen by the decider, and is never dropped."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from bot.dev.evaluation.shown_blocks import read_message_text
from bot.queue.keys import Keys
from bot.storage.runs import build_waiting_files_key
from tests.harness.engines import StartEngine
from tests.harness.files import HTML, archive, office, pdf, png
from tests.harness.office import CHAT, GENERAL, LI, WANG, ZHANG, ZHAO, Office, found_request
from tests.stories.behind import choices_of, file_cleaner, hours_pass
from tests.tools.workflow.remote.company import world_of
from tests.tools.workflow.remote.proxy import LOGIN, PASSWORD
from tools.workflow.remote.api import EngineName

CLAIM = "报销 320 元打车费，去客户那里，审批人李四"


def shared(office: Office, channel: str) -> list[dict[str, object]]:
    """List the bot's messages with files in a channel."""
    return [m for m in office.posts(channel) if m.get("files")]


async def requested(office: Office, person: str, text: str, *files: str, approver: str = LI) -> str:
    """Go from a message with files to a request that waits for its approver; return its number."""
    before = len(office.cards(office.dm(approver)))
    await office.says(person, text, files=files)
    await office.press(person, await office.card(office.dm(person), text.split("，")[1]), "confirm")
    await office.until(lambda: len(office.cards(office.dm(approver))) > before)
    await office.quiet()
    return found_request(office.said(office.dm(person)))


async def waiting(office: Office, channel: str) -> dict[str, str]:
    """Load the files that wait in a conversation."""
    assert office.bot is not None
    key = build_waiting_files_key(Keys(), f"{CHAT}:{office.driver.ws.app.team}:{channel}")
    return dict(await office.bot.stores.redis.hgetall(key))


# On the request, with the approver


async def test_a_receipt_sent_with_the_message_is_on_the_card_and_with_the_approver(desk: Office) -> None:
    receipt = desk.driver.upload_file(ZHANG, "打车票.png", png("taxi"))
    name = desk.name_file(receipt)
    await desk.says(ZHANG, CLAIM, files=[receipt])
    card = await desk.card(desk.dm(ZHANG))
    assert f"{name}（PNG" in read_message_text(card)
    await desk.press(ZHANG, card, "confirm")
    task = await desk.card(desk.dm(LI))
    assert f"{name}（PNG" in read_message_text(task)
    shown = await desk.until(lambda: shared(desk, desk.dm(LI)))
    assert shown[0]["thread_ts"] == task["ts"] and shown[0]["files"][0]["title"] == name  # type: ignore[index]
    copy = desk.driver.ws.files[shown[0]["files"][0]["id"]]  # type: ignore[index]
    assert copy.content == png("taxi"), "the approver sees the very bytes"
    await desk.quiet()
    assert not await waiting(desk, desk.dm(ZHANG)), "it is on the request"
    assert not any(shared(desk, channel) for channel in desk.channels() if channel != desk.dm(LI))


async def test_asked_again_the_approver_has_the_receipt_below_the_new_card(desk: Office) -> None:
    """The card expires. The requester gets it with a button to ask again, and needs no copy of their own file."""
    here, there = desk.dm(ZHANG), desk.dm(LI)
    await requested(desk, ZHANG, CLAIM, desk.driver.upload_file(ZHANG, "r.png", png("taxi")))
    await hours_pass(desk, 400)
    told = await desk.card(here, "李四到期前没有决定")
    await desk.quiet()
    assert not shared(desk, here), "it is their own"
    await desk.press(ZHANG, told, "again")
    renewed = (await desk.until(lambda: [c for c in desk.cards(there) if "approve" in choices_of(c)]))[-1]
    await desk.quiet()
    assert [m["thread_ts"] for m in shared(desk, there)][1:] == [renewed["ts"]]


async def test_a_mention_carries_no_files_so_the_message_is_looked_up(desk: Office) -> None:
    receipt = desk.driver.upload_file(ZHANG, "r.png", png("r"))
    name = desk.name_file(receipt)
    mentions_only = desk.driver.ws.setup.events - {"message.channels"}
    object.__setattr__(desk.driver.ws.setup, "events", mentions_only)
    await desk.driver.mention_bot(ZHANG, GENERAL, CLAIM, files=[receipt])
    assert name in read_message_text(await desk.card(desk.dm(ZHANG)))
    assert name not in desk.said(GENERAL), "nothing of it is said in the channel"


async def test_a_file_in_a_thread_of_a_channel_belongs_to_its_sender_alone(desk: Office) -> None:
    thread = await desk.driver.mention_bot(ZHANG, GENERAL, "报销打车费，去客户那里")
    await desk.until(lambda: "表单" in desk.said(GENERAL) + desk.said(desk.dm(ZHANG)))
    other = desk.driver.upload_file(WANG, "private.png", png("wang"))
    await desk.driver.send_message(WANG, GENERAL, "看看这个", thread, files=[other])
    await desk.quiet()
    own = desk.driver.upload_file(ZHANG, "own.png", png("zhang"))
    await desk.driver.send_message(ZHANG, GENERAL, "320 元，审批人李四", thread, files=[own])
    card = read_message_text(await desk.card(desk.dm(ZHANG), "320"))
    assert desk.name_file(own) in card and desk.name_file(other, is_kept=False) not in card


async def test_a_file_is_free_again_when_its_card_is_cancelled_and_not_while_it_waits(desk: Office) -> None:
    receipt = desk.driver.upload_file(ZHANG, "r.png", png("r"))
    name = desk.name_file(receipt)
    await desk.says(ZHANG, CLAIM, files=[receipt])
    first = await desk.card(desk.dm(ZHANG))
    await desk.says(ZHANG, "报销 45 元停车费，去机场，审批人李四")
    second = await desk.card(desk.dm(ZHANG), "45")
    assert name not in read_message_text(second), "it is on the first card"
    await desk.press(ZHANG, first, "cancel")
    await desk.press(ZHANG, second, "cancel")
    await desk.quiet()
    await desk.says(ZHANG, "报销 80 元餐费，和客户吃饭，审批人李四")
    assert name in read_message_text(await desk.card(desk.dm(ZHANG), "80"))


# Files named by people


ODD: tuple[tuple[str, bytes], ...] = (
    ("program.png", b"MZ\x90\x00" + b"\0" * 60),
    ("page.pdf", HTML),
    ("picture.svg", b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"),
    ("archive.zip", archive("a.txt")),
    ("macros.docx", office(parts={"word/evil.bin": "application/vnd.ms-office.vbaProject"})),
    ("locked.pdf", pdf() + b"<</Encrypt 5 0 R>>"),
    ("empty.png", b""),
    ("text.txt", b"pay me"),
    ("broken.zip", b"PK\x03\x04" + b"\0" * 30),
    ("late.pdf", b"x" * 900 + b"%PDF-1.4"),
)


@pytest.mark.slow
async def test_of_a_hundred_odd_files_none_is_dropped_silently(desk: Office) -> None:
    """Every single file is on the card, or named among the kept or the refused ones, with the reason."""
    names = list[str]()

    def list_unsaid() -> list[str]:
        said = desk.said(desk.dm(ZHANG))
        return [name for name in names if name not in said]

    for batch in range(10):
        files = list[str]()
        for number in range(10):
            kind, content = ODD[(batch + number) % len(ODD)] if number % 3 else ("fine.png", png(f"{batch} {number}"))
            name = f"n{batch}{number}x{kind}"
            files.append(desk.driver.upload_file(ZHANG, name, content))
        names += [desk.name_file(one) for one in files]
        await desk.says(ZHANG, "收据" if batch % 2 else "", files=files)
        await desk.until(lambda: not list_unsaid())
    said = desk.said(desk.dm(ZHANG))
    assert (
        "太大" not in said
        and "不是我能收的类型" in said
        and "是空文件" in said
        and "里面有宏" in said
        and "加了密码" in said
    )
    assert "结构异常" in said


async def test_a_file_that_is_stored_with_another_service_is_said(desk: Office) -> None:
    elsewhere = desk.driver.upload_file(ZHANG, "elsewhere.png", png("e"), is_external=True)
    await desk.says(ZHANG, "", files=[elsewhere])
    await desk.until(lambda: "elsewhere.png：存放在别的服务上" in desk.said(desk.dm(ZHANG)))


async def test_more_files_than_are_fetched_at_once_are_said(desk: Office) -> None:
    files = [desk.driver.upload_file(ZHANG, f"r{number}.png", png(str(number))) for number in range(100)]
    await desk.says(ZHANG, "收据", files=files)
    await desk.until(lambda: desk.name_file(files[0]) in desk.said(desk.dm(ZHANG)))
    said = desk.said(desk.dm(ZHANG))
    names = [desk.name_file(one, is_kept=one in files[:20]) for one in files]
    assert "一次发得太多" in said and [name for name in names if name not in said] == []
    assert len(await waiting(desk, desk.dm(ZHANG))) == 20


async def test_a_folder_that_takes_nothing_holds_up_nothing_else(desk: Office) -> None:
    desk.files_dir.parent.mkdir(parents=True, exist_ok=True)
    desk.files_dir.write_text("a file where the folder should be")
    receipt = desk.driver.upload_file(ZHANG, "r.png", png("r"))
    name = desk.name_file(receipt, is_kept=False)
    await desk.says(ZHANG, CLAIM, files=[receipt])
    assert name not in read_message_text(await desk.card(desk.dm(ZHANG)))
    assert f"{name}：我这边暂时存不下文件" in desk.said(desk.dm(ZHANG))


async def test_forget_lets_go_of_what_waits(desk: Office) -> None:
    receipt = desk.driver.upload_file(ZHANG, "r.png", png("r"))
    name = desk.name_file(receipt)
    await desk.says(ZHANG, "", files=[receipt])
    await desk.until(lambda: name in desk.said(desk.dm(ZHANG)))
    await desk.answer(ZHANG, "清除")
    await desk.quiet()
    assert not await waiting(desk, desk.dm(ZHANG))
    await desk.says(ZHANG, CLAIM)
    assert name not in read_message_text(await desk.card(desk.dm(ZHANG), "320"))


# The same bytes


async def test_the_same_bytes_on_another_claim_are_told_to_both_approvers(desk: Office) -> None:
    """The second file has another name, another id, another sender and another approver."""
    again = desk.driver.upload_file(LI, "b.png", png("same"))
    first = await requested(desk, LI, "报销 320 元打车费，见客户，审批人王五", again, approver=WANG)
    other = await requested(desk, ZHANG, CLAIM, desk.driver.upload_file(ZHANG, "a.png", png("same")))
    assert first != other
    seen = read_message_text(await desk.card(desk.dm(LI), other))
    assert "相同的文件" in seen and first in seen and "李四" in seen
    told = await desk.until(lambda: [t for t in desk.said(desk.dm(WANG)).splitlines() if other in t and first in t])
    assert desk.name_file(again) in told[0] and "the same file as on" in told[0]
    await desk.quiet()
    assert len([m for m in desk.posts(desk.dm(WANG)) if "the same file as on" in read_message_text(m)]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["operaton", "flowable"])
async def test_the_same_bytes_are_told_to_both_approvers_where_an_engine_outside_keeps_requests(
    empty: Office, kind: EngineName, start_engine: StartEngine
) -> None:
    async with world_of(kind, start_engine(kind)) as world:
        address = {"engine_url": world.url, "engine_user": LOGIN, "engine_password": SecretStr(PASSWORD)}
        async with empty.opened(workflow_engine=kind, **address) as bot:
            again = empty.driver.upload_file(LI, "b.png", png("same"))
            first = await requested(empty, LI, "请明天到后天的病假，发烧，审批人王五", again, approver=WANG)
            note = empty.driver.upload_file(ZHANG, "a.png", png("same"))
            other = await requested(empty, ZHANG, "请明天到后天的病假，发烧，审批人李四", note)
            seen = read_message_text(await empty.card(empty.dm(LI), other))
            assert "相同的文件" in seen and first in seen and "李四" in seen
            told = await empty.until(
                lambda: [t for t in empty.said(empty.dm(WANG)).splitlines() if other in t and first in t]
            )
            assert empty.name_file(again) in told[0] and "the same file as on" in told[0]
            empty.clock.offset += timedelta(days=31)
            assert await file_cleaner(bot).delete_due_files() == 0, "they are on requests"


async def test_an_author_is_not_told_of_somebody_elses_claim(desk: Office) -> None:
    await requested(desk, ZHANG, CLAIM, desk.driver.upload_file(ZHANG, "a.png", png("same")))
    await desk.says(ZHAO, CLAIM, files=[desk.driver.upload_file(ZHAO, "b.png", png("same"))])
    await desk.quiet()
    assert "相同的文件" not in desk.said(desk.dm(ZHAO))


async def test_nobody_puts_somebody_elses_file_on_their_request(desk: Office) -> None:
    secret = desk.driver.upload_file(LI, "secret.png", png("li"))
    await desk.says(LI, "", files=[secret])
    await desk.quiet()
    await desk.says(ZHANG, f"{CLAIM}，票据 {desk.find_file_id(secret)}")
    await desk.quiet()
    assert desk.name_file(secret, is_kept=False) not in desk.said(desk.dm(ZHANG))


async def test_a_file_that_never_comes_is_said_and_its_message_is_answered(desk: Office) -> None:
    desk.driver.fail_next_call("files-pri", 500, times=50)
    receipt = desk.driver.upload_file(ZHANG, "r.png", png("r"))
    await desk.says(ZHANG, CLAIM, files=[receipt])
    card, name = await desk.card(desk.dm(ZHANG)), desk.name_file(receipt, is_kept=False)
    assert name not in read_message_text(card) and "取到" in desk.said(desk.dm(ZHANG))


# Dialogs


async def open_dialog(office: Office, person: str, command: str) -> dict[str, Any]:
    await office.driver.run_slash_command(person, office.dm(person), command, "")
    return await office.until(lambda: office.driver.find_top_view(person))


def find_input(view: dict[str, Any], name: str) -> dict[str, Any] | None:
    return next((b["element"] for b in view["blocks"] if b["block_id"] == name and b["type"] == "input"), None)


EXPENSE = {"amount": "320", "currency": "CNY", "category": "transport", "reason": "taxi"}


async def test_a_file_chosen_in_a_form_is_on_its_card(desk: Office) -> None:
    view = await open_dialog(desk, ZHANG, "/expense")
    element = find_input(view, "receipt")
    assert element is not None and element["type"] == "file_input"
    receipt = desk.driver.upload_file(ZHANG, "taxi.png", png("t"))
    values = {**EXPENSE, "receipt": [receipt]}
    assert (await desk.driver.submit_view(ZHANG, view["id"], values)).ok
    card = await desk.card(desk.dm(ZHANG))
    assert "taxi.png（PNG" in read_message_text(card)
    await desk.press(ZHANG, card, "confirm")
    assert "taxi.png" in read_message_text(await desk.card(desk.dm(LI)))
    await desk.until(lambda: shared(desk, desk.dm(LI)))


async def test_what_a_form_could_not_take_is_said_and_its_card_comes_without_it(desk: Office) -> None:
    view = await open_dialog(desk, ZHANG, "/expense")
    good = desk.driver.upload_file(ZHANG, "good.png", png("g"))
    bad = desk.driver.upload_file(ZHANG, "bad.png", b"MZ" + b"\0" * 40)
    await desk.driver.submit_view(ZHANG, view["id"], {**EXPENSE, "receipt": [good, bad]})
    card = read_message_text(await desk.card(desk.dm(ZHANG)))
    assert "good.png" in card and "bad.png" not in card
    await desk.until(lambda: "bad.png" in desk.said(desk.dm(ZHANG)))


async def test_a_message_with_a_receipt_is_made_an_expense(desk: Office) -> None:
    receipt = desk.driver.upload_file(ZHANG, "lunch.png", png("l"))
    ts = await desk.driver.send_message(ZHANG, GENERAL, "和客户吃饭", files=[receipt])
    await desk.driver.use_shortcut(ZHANG, "cs:request:expense", GENERAL, ts)
    view = await desk.until(lambda: desk.driver.find_top_view(ZHANG))
    boxes = find_input(view, "receipt~2")
    assert boxes is not None and "lunch.png" in boxes["options"][0]["text"]["text"]
    await desk.driver.change_input(ZHANG, view["id"], "amount", "86")
    assert (await desk.driver.submit_view(ZHANG, view["id"], {"category": "meals"})).ok
    assert "lunch.png" in read_message_text(await desk.card(desk.dm(ZHANG)))
    assert "lunch.png" not in desk.said(GENERAL)


async def test_edit_leaves_a_file_out_and_adds_another(desk: Office) -> None:
    await desk.says(ZHANG, CLAIM, files=[desk.driver.upload_file(ZHANG, "wrong.png", png("w"))])
    card = await desk.card(desk.dm(ZHANG))
    await desk.press(ZHANG, card, "edit")
    view = await desk.until(lambda: desk.driver.find_top_view(ZHANG))
    boxes = find_input(view, "field_receipt~2")
    assert boxes is not None and "wrong.png" in boxes["options"][0]["text"]["text"]
    right = desk.driver.upload_file(ZHANG, "right.png", png("r"))
    values = {"field_receipt": [right], "field_receipt~2": []}
    assert (await desk.driver.submit_view(ZHANG, view["id"], values)).ok
    changed = read_message_text(await desk.card(desk.dm(ZHANG), "right.png"))
    assert "wrong.png" not in changed


# Retention


async def test_files_go_when_their_time_is_over_and_their_names_stay(desk: Office) -> None:
    on, off = (desk.driver.upload_file(ZHANG, f"{name}.png", png(name)) for name in ("on", "off"))
    request = await requested(desk, ZHANG, CLAIM, on)
    await desk.says(ZHANG, "", files=[off])
    await desk.until(lambda: desk.name_file(off) in desk.said(desk.dm(ZHANG)))
    await desk.quiet()
    assert desk.bot is not None
    cleaner = file_cleaner(desk.bot)
    assert await cleaner.delete_due_files() == 0 and count_files(desk) == 2
    desk.clock.offset += timedelta(days=31)
    assert await cleaner.delete_due_files() == 1 and count_files(desk) == 1, "what is on no request goes first"
    desk.clock.offset += timedelta(days=730)
    assert await cleaner.delete_due_files() == 1 and count_files(desk) == 0
    told = await desk.answer(ZHANG, f"{request} 到哪了")
    assert request in told
    found = await desk.bot.ingress.features.forms.core.tool_services.engine.get_request(request)
    assert [one.name for one in found.filled.files] == [desk.name_file(on)] and found.filled.files[0].sha256


def count_files(office: Office) -> int:
    return len([p for p in office.files_dir.glob("*/*") if p.suffix != ".part"])
