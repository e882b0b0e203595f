"""Files of a message: who has sent them is proved by the message, as Feishu has it."""

from typing import Any

import pytest

from bot.chat.messages import Place, SentFile
from bot.core.errors import ChatUnavailableError, FileRefusedError
from bot.platforms.feishu.files import FeishuFileSource
from tests.platforms.feishu.ears_desk import DM, LI, ZHANG, Ears, build_message
from tests.platforms.feishu.message_server import TENANT

MESSAGE, KEY = f"om_{10:032x}", "file_v3_00ab_12345678-90ab-cdef-1234-567890abcdeg"
FILE = SentFile(id=f"{MESSAGE}/file/{KEY}", name="评审纪要.docx")
PLACE = Place(platform="feishu", team=TENANT, channel=DM, direct=True)


def tell(ears: Ears, content: str = f'{{"file_key":"{KEY}","file_name":"评审纪要.docx"}}', **changes: Any) -> None:
    ears.feishu.pages |= {
        f"im/v1/messages/{MESSAGE}": {"items": [build_message(MESSAGE, "file", content, **changes)]},
        f"im/v1/messages/{MESSAGE}/resources/{KEY}": b"PK\x03\x04 a document",
    }


async def fetch(ears: Ears, file: SentFile = FILE, only_from: str = ZHANG, max_bytes: int = 1_000) -> str:
    try:
        found = await FeishuFileSource(ears.client).fetch_file(file, max_bytes, only_from)
    except FileRefusedError as refused:
        return refused.reason
    assert found.content == b"PK\x03\x04 a document"
    return found.uploader


async def test_a_file_is_fetched_for_its_sender(ears: Ears) -> None:
    tell(ears)
    assert await fetch(ears) == ZHANG
    assert await fetch(ears, only_from="") == ZHANG
    assert ears.feishu.asked[-1] == (f"im/v1/messages/{MESSAGE}/resources/{KEY}", {"type": "file"})
    assert await fetch(ears, max_bytes=5) == "too_large"
    source, elsewhere = FeishuFileSource(ears.client), PLACE.model_copy(update={"channel": "oc_other"})
    assert await source.list_message_files(PLACE, MESSAGE) == (FILE,)
    assert await source.list_message_files(elsewhere, MESSAGE) == ()
    ears.feishu.is_away = True
    with pytest.raises(ChatUnavailableError):  # an outage is no refusal
        await source.fetch_file(FILE, 1_000, ZHANG)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sender": {"id": LI, "id_type": "open_id", "sender_type": "user"}}, "not_yours"),
        ({"sender": {"id": ZHANG, "id_type": "app_id", "sender_type": "app"}}, "not_yours"),
        ({"sender": None}, "not_yours"),
        ({"deleted": True}, "gone"),
        ({"message_id": "om_another"}, "gone"),
        ({"content": '{"file_key":"file_v3_another"}'}, "gone"),
        ({"content": "no json"}, "gone"),
    ],
    ids=["another person", "an app", "nobody", "recalled", "another message", "another key", "no content"],
)
async def test_a_file_that_its_message_does_not_prove(ears: Ears, changes: dict[str, Any], reason: str) -> None:
    """Control in the test above."""
    tell(ears, **changes)
    assert await fetch(ears) == reason
    assert ears.feishu.count_asked(KEY) == 0, "nothing is fetched"


async def test_what_is_no_id_of_a_file_asks_nobody(ears: Ears) -> None:
    for id in ("", "F0123456", f"{MESSAGE}/file/../x", f"{MESSAGE}/exe/{KEY}", f"{MESSAGE}/file/{KEY}?"):
        assert await fetch(ears, SentFile(id=id)) == "gone" and not ears.feishu.asked, id


@pytest.mark.parametrize("path", ["", f"/resources/{KEY}"], ids=["message", "file"])
@pytest.mark.parametrize(
    ("code", "reason"), [(230110, "gone"), (99991672, "no_scope"), (234003, "gone"), (234037, "too_large")]
)
async def test_a_refused_file_says_why(ears: Ears, path: str, code: int, reason: str) -> None:
    tell(ears)
    ears.feishu.pages[f"im/v1/messages/{MESSAGE}{path}"] = code
    assert await fetch(ears) == reason
