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
from tests.harness.office import CHAT, GENERAL, LI, WANG, ZHANG, Office, found_request
from tests.stories.behind import choices_of, file_cleaner, hours_pass, request_of
from tests.tools.workflow.remote.company import world_of
from tests.tools.workflow.remote.proxy import LOGIN, PASSWORD

CLAIM = "报销 320 元打车费，去客户那里，审批人李四"


def shared(office: Office, channel: str) -> list[dict[str, Any]]:
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
    [file] = shown[0]["files"]
    assert shown[0]["thread_ts"] == task["ts"] and file["title"] == name
    assert desk.driver.ws.files[file["id"]].content == png("taxi"), "the approver sees the very bytes"
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
    card = read_message_text(await desk.card(desk.dm(ZHANG), "320.00"))
    assert desk.name_file(own) in card and desk.name_file(other, is_kept=False) not in card


async def test_a_file_is_free_again_when_its_card_is_cancelled_and_not_while_it_waits(desk: Office) -> None:
    receipt = desk.driver.upload_file(ZHANG, "r.png", png("r"))
    name = desk.name_file(receipt)
    await desk.says(ZHANG, CLAIM, files=[receipt])
    first = await desk.card(desk.dm(ZHANG))
    await desk.says(ZHANG, "报销 45 元停车费，去机场，审批人李四")
    second = await desk.card(desk.dm(ZHANG), "45.00")
    assert name not in read_message_text(second), "it is on the first card"
    await desk.press(ZHANG, first, "cancel")
    await desk.press(ZHANG, second, "cancel")
    await desk.quiet()
    await desk.says(ZHANG, "报销 80 元餐费，和客户吃饭，审批人李四")
    assert name in read_message_text(await desk.card(desk.dm(ZHANG), "80.00"))


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
    assert "太大" not in said
    assert all(one in said for one in ("不是我能收的类型", "是空文件", "里面有宏", "加了密码", "结构异常"))


async def test_a_file_that_cannot_be_had_or_kept_is_said_and_its_message_is_answered(desk: Office) -> None:
    """One stands with another service, one never comes, and one finds a file where its folder should be."""
    here = desk.dm(ZHANG)
    if CHAT == "slack":  # on Feishu such a file is a link in the text
        await desk.says(ZHANG, "", files=[desk.driver.upload_file(ZHANG, "elsewhere.png", png("e"), is_external=True)])
        await desk.until(lambda: "elsewhere.png：存放在别的服务上" in desk.said(here))
    desk.files_dir.parent.mkdir(parents=True, exist_ok=True)
    desk.files_dir.write_text("a file where the folder should be")
    for claim, amount, words in ((CLAIM, "320", "取到"), (CLAIM.replace("320", "45"), "45", "我这边暂时存不下文件")):
        receipt = desk.driver.upload_file(ZHANG, f"{amount}.png", png(amount))
        name = desk.name_file(receipt, is_kept=False)
        desk.driver.fail_next_call("files-pri", 500, times=50 if words == "取到" else 0)
        await desk.says(ZHANG, claim, files=[receipt])
        assert name not in read_message_text(await desk.card(here, amount))
        assert any(name in line and words in line for line in desk.said(here).splitlines())
        desk.driver.app.planned.clear()


async def test_more_files_than_are_fetched_at_once_are_said(desk: Office) -> None:
    files = [desk.driver.upload_file(ZHANG, f"r{number}.png", png(str(number))) for number in range(100)]
    await desk.says(ZHANG, "收据", files=files)
    await desk.until(lambda: desk.name_file(files[0]) in desk.said(desk.dm(ZHANG)))
    said = desk.said(desk.dm(ZHANG))
    names = [desk.name_file(one, is_kept=one in files[:20]) for one in files]
    assert "一次发得太多" in said and [name for name in names if name not in said] == []
    assert len(await waiting(desk, desk.dm(ZHANG))) == 20


async def test_forget_lets_go_of_what_waits(desk: Office) -> None:
    receipt = desk.driver.upload_file(ZHANG, "r.png", png("r"))
    name = desk.name_file(receipt)
    await desk.says(ZHANG, "", files=[receipt])
    await desk.until(lambda: name in desk.said(desk.dm(ZHANG)))
    await desk.answer(ZHANG, "清除")
    await desk.quiet()
    assert not await waiting(desk, desk.dm(ZHANG))
    await desk.says(ZHANG, CLAIM)
    assert name not in read_message_text(await desk.card(desk.dm(ZHANG), "320.00"))


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
    assert "相同的文件" not in desk.said(desk.dm(ZHANG)), "an author is not told of somebody else's claim"


@pytest.mark.slow
async def test_the_same_bytes_are_told_to_both_approvers_where_an_engine_outside_keeps_requests(
    empty: Office, start_engine: StartEngine
) -> None:
    async with world_of("operaton", start_engine("operaton")) as world:
        address = {"engine_url": world.url, "engine_user": LOGIN, "engine_password": SecretStr(PASSWORD)}
        async with empty.opened(workflow_engine="operaton", **address) as bot:
            again = empty.driver.upload_file(LI, "b.png", png("same"))
            first = await requested(empty, LI, "请明天到后天的病假，发烧，审批人王五", again, approver=WANG)
            note = empty.driver.upload_file(ZHANG, "a.png", png("same"))
            other = await requested(empty, ZHANG, "请明天到后天的病假，发烧，审批人李四", note)
            seen = read_message_text(await empty.card(empty.dm(LI), other))
            assert "相同的文件" in seen and first in seen and "李四" in seen
            await empty.until(lambda: "the same file as on" in empty.said(empty.dm(WANG)))
            empty.clock.offset += timedelta(days=31)
            assert await file_cleaner(bot).delete_due_files() == 0, "they are on requests"


async def test_nobody_puts_somebody_elses_file_on_their_request(desk: Office) -> None:
    secret = desk.driver.upload_file(LI, "secret.png", png("li"))
    await desk.says(LI, "", files=[secret])
    await desk.quiet()
    await desk.says(ZHANG, f"{CLAIM}，票据 {desk.find_file_id(secret)}")
    await desk.quiet()
    assert desk.said(desk.dm(ZHANG)), "there is an answer"
    assert desk.name_file(secret, is_kept=False) not in desk.said(desk.dm(ZHANG))


# Dialogs


def find_input(view: dict[str, Any], name: str) -> dict[str, Any] | None:
    return next((b["element"] for b in view["blocks"] if b["block_id"] == name and b["type"] == "input"), None)


async def test_a_file_chosen_in_a_form_is_on_its_card_and_what_could_not_be_taken_is_said(desk: Office) -> None:
    await desk.driver.run_slash_command(ZHANG, desk.dm(ZHANG), "/expense", "")
    view = await desk.until(lambda: desk.driver.find_top_view(ZHANG))
    element = find_input(view, "receipt")
    assert element is not None and element["type"] == "file_input"
    good = desk.driver.upload_file(ZHANG, "good.png", png("g"))
    bad = desk.driver.upload_file(ZHANG, "bad.png", b"MZ" + b"\0" * 40)
    values = {"amount": "320", "currency": "CNY", "category": "transport", "reason": "taxi", "receipt": [good, bad]}
    assert (await desk.driver.submit_view(ZHANG, view["id"], values)).ok
    card = await desk.card(desk.dm(ZHANG))
    assert "good.png（PNG" in read_message_text(card) and "bad.png" not in read_message_text(card)
    await desk.until(lambda: "bad.png" in desk.said(desk.dm(ZHANG)))
    await desk.press(ZHANG, card, "confirm")
    assert "good.png" in read_message_text(await desk.card(desk.dm(LI)))
    await desk.until(lambda: shared(desk, desk.dm(LI)))


async def test_a_message_with_a_receipt_is_made_an_expense_with_its_words_as_the_reason(desk: Office) -> None:
    receipt = desk.driver.upload_file(ZHANG, "lunch.png", png("l"))
    ts = await desk.driver.send_message(ZHANG, GENERAL, "taxi <b>to</b> the client, 84.50 @李四", files=[receipt])
    await desk.driver.use_shortcut(ZHANG, "cs:request:expense", GENERAL, ts)
    view = await desk.until(lambda: desk.driver.find_top_view(ZHANG))
    boxes = find_input(view, "receipt~2")
    assert boxes is not None and "lunch.png" in boxes["options"][0]["text"]["text"]
    reason = find_input(view, "reason")
    assert reason is not None and reason["initial_value"].startswith("taxi <b>to</b> the client, 84.50")
    await desk.driver.change_input(ZHANG, view["id"], "amount", "86")
    assert (await desk.driver.submit_view(ZHANG, view["id"], {"category": "meals"})).ok
    assert "lunch.png" in read_message_text(await desk.card(desk.dm(ZHANG), "taxi"))
    assert "lunch.png" not in desk.said(GENERAL)


async def test_edit_leaves_a_file_out_and_adds_another(desk: Office) -> None:
    await desk.says(ZHANG, CLAIM, files=[desk.driver.upload_file(ZHANG, "wrong.png", png("w"))])
    await desk.press(ZHANG, await desk.card(desk.dm(ZHANG)), "edit")
    view = await desk.until(lambda: desk.driver.find_top_view(ZHANG))
    boxes = find_input(view, "field_receipt~2")
    assert boxes is not None and "wrong.png" in boxes["options"][0]["text"]["text"]
    right = desk.driver.upload_file(ZHANG, "right.png", png("r"))
    values = {"field_receipt": [right], "field_receipt~2": []}
    assert (await desk.driver.submit_view(ZHANG, view["id"], values)).ok
    assert "wrong.png" not in read_message_text(await desk.card(desk.dm(ZHANG), "right.png"))


# Retention


async def test_files_go_when_their_time_is_over_and_their_names_stay(desk: Office) -> None:
    on, off = (desk.driver.upload_file(ZHANG, f"{name}.png", png(name)) for name in ("on", "off"))
    request = await requested(desk, ZHANG, CLAIM, on)
    await desk.says(ZHANG, "", files=[off])
    await desk.until(lambda: desk.name_file(off) in desk.said(desk.dm(ZHANG)))
    await desk.quiet()
    cleaner = file_cleaner(desk.bot)

    def count_files() -> int:
        return len([p for p in desk.files_dir.glob("*/*") if p.suffix != ".part"])

    assert await cleaner.delete_due_files() == 0 and count_files() == 2
    desk.clock.offset += timedelta(days=31)
    assert await cleaner.delete_due_files() == 1 and count_files() == 1, "what is on no request goes first"
    desk.clock.offset += timedelta(days=730)
    assert await cleaner.delete_due_files() == 1 and count_files() == 0
    assert request in await desk.answer(ZHANG, f"{request} 到哪了")
    [file] = (await request_of(desk, request)).filled.files
    assert file.name == desk.name_file(on) and file.sha256
