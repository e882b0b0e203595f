"""HTTP mode against those who are not Feishu, with the SDK's own verification beside ours."""

import base64
import gzip
import hashlib
import io
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7
from hypothesis import given
from hypothesis import strategies as st
from lark_channel.core.model import RawRequest
from lark_channel.core.utils.decryptor import AESCipher
from lark_channel.event.dispatcher_handler import EventDispatcherHandler

from bot.chat.platform import IngressGate
from bot.core.errors import StoreUnavailableError
from bot.platforms import http_mode
from bot.platforms.feishu.callbacks import PATH, build_callback_app, decrypt_text
from bot.platforms.http_mode import SKEW_S
from tests.harness.serving import serve_app
from tests.platforms.feishu.frame_server import build_event

KEY, TOKEN = "test key", "v"
CHALLENGE = {"challenge": "ajls384kdjx98XX", "token": TOKEN, "type": "url_verification"}


def encrypt(content: bytes | dict[str, Any], key: str = KEY) -> bytes:
    data = content if isinstance(content, bytes) else json.dumps(content, ensure_ascii=False).encode()
    padder, start = PKCS7(128).padder(), os.urandom(16)
    encryptor = Cipher(AES(hashlib.sha256(key.encode()).digest()), CBC(start)).encryptor()
    encrypted = encryptor.update(padder.update(data) + padder.finalize()) + encryptor.finalize()
    return json.dumps({"encrypt": base64.b64encode(start + encrypted).decode()}).encode()


def sign(body: bytes, key: str = KEY, *, at: float | None = None, nonce: str = "n0n3e") -> dict[str, str]:
    stamp = str(int(time.time() if at is None else at))
    signature = hashlib.sha256(f"{stamp}{nonce}{key}".encode() + body).hexdigest()
    return {"X-Lark-Request-Timestamp": stamp, "X-Lark-Request-Nonce": nonce, "X-Lark-Signature": signature}


class Receiver:
    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.answer: Any = None
        self.failed: Exception | None = None
        self.gate, self.url = IngressGate(), ""

    async def handle(self, payload: dict[str, Any]) -> Any:
        if self.failed:
            raise self.failed
        self.got.append(payload)
        return self.answer

    async def post(self, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
        data = io.BytesIO(body)
        async with ClientSession() as session, session.post(self.url, data=data, headers=headers) as response:
            return response.status, await response.text()


@asynccontextmanager
async def serve(token: str = TOKEN) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    app = build_callback_app(receiver.handle, KEY, token, receiver.gate)
    async with serve_app(http_mode.build_http_runner(app)) as address:
        receiver.url = f"{address}{PATH}"
        yield receiver


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with serve() as receiver:
        yield receiver


def ask_sdk(body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    """Ask the SDK what it says to a request."""
    handler = (
        EventDispatcherHandler.builder(KEY, TOKEN).register_p2_customized_event("thing.happened_v1", print).build()
    )
    request = RawRequest()
    request.uri, request.body, request.headers = PATH, body, headers
    answer = handler.do(request)
    return answer.status_code, answer.content


def test_the_official_example_is_decrypted() -> None:
    assert decrypt_text("P37w+VZImNgPEO1RBhJ6RtKl7n6zymIbEG1pReEzghk=", "test key") == b"hello world"


@given(st.binary(max_size=300), st.text(min_size=1, max_size=40))
def test_texts_are_decrypted_as_the_sdk_decrypts_them(content: bytes, key: str) -> None:
    text = json.loads(encrypt(content, key))["encrypt"]
    assert decrypt_text(text, key) == content == AESCipher(key).decrypt(base64.b64decode(text))


@given(st.text(max_size=100) | st.binary(max_size=100).map(lambda one: base64.b64encode(one).decode()))
def test_anything_else_is_refused_with_one_kind_of_error(text: str) -> None:
    try:
        decrypt_text(text, KEY)
    except ValueError:
        return


async def test_a_signed_event_is_handed_in_and_a_press_answered_in_the_body(receiver: Receiver) -> None:
    events = [build_event(1, text="请假"), build_event(2, "card.action.trigger")]
    for event, answer in zip(events, (None, {"toast": {"type": "info", "content": "已收到"}}), strict=True):
        receiver.answer, body = answer, encrypt(event)
        status, text = await receiver.post(body, sign(body))
        assert (status, text if answer is None else json.loads(text)) == (200, answer or "{}")
    assert receiver.got == events and receiver.gate.coming == 0
    for receiver.failed in (StoreUnavailableError("away"), ValueError("?")):
        assert (await receiver.post(body, sign(body)))[0] == 503, "nothing is acknowledged that is not durable"


async def test_the_address_is_verified_without_a_signature_and_another_token_gets_401(receiver: Receiver) -> None:
    body = encrypt(CHALLENGE)
    for headers in ({}, sign(body)):
        status, text = await receiver.post(body, headers)
        assert status == 200 and json.loads(text) == {"challenge": "ajls384kdjx98XX"}
    assert (await receiver.post(json.dumps(CHALLENGE).encode(), {}))[0] == 401, "a plain one is refused"
    assert not receiver.got
    event = build_event(1)
    event["header"]["token"] = "another"
    body = encrypt(event)
    assert (await receiver.post(body, sign(body)))[0] == 401
    assert (await receiver.post(encrypt(CHALLENGE | {"token": "w"}), {}))[0] == 401
    async with serve(token="") as untold:
        assert (await untold.post(body, sign(body)))[0] == 200


WRONG = {
    "another key signs": lambda body: sign(body, "another key"),
    "another body is signed": lambda body: sign(body + b" "),
    "too old": lambda body: sign(body, at=time.time() - SKEW_S - 5),
    "too new": lambda body: sign(body, at=time.time() + SKEW_S + 60),
    "no signature": lambda body: {},
    "a header is missing": lambda body: {k: v for k, v in sign(body).items() if "Nonce" not in k},
    "the time is none": lambda body: {**sign(body), "X-Lark-Request-Timestamp": "soon"},
    "capitals": lambda body: {**sign(body), "X-Lark-Signature": sign(body)["X-Lark-Signature"].upper()},
    "compressed": lambda body: {**sign(body), "Content-Encoding": "gzip"},
}


async def test_a_request_of_somebody_else_gets_401(receiver: Receiver, subtests: pytest.Subtests) -> None:
    body = encrypt(build_event(1))
    for wrong, build_headers in WRONG.items():
        with subtests.test(wrong):
            sent = gzip.compress(body) if wrong == "compressed" else body
            assert (await receiver.post(sent, build_headers(body)))[0] == 401
    assert not receiver.got


async def test_unsigned_requests_get_one_and_the_same_refusal(receiver: Receiver) -> None:
    """Whoever changes a captured message, bit by bit, learns nothing from our answers."""
    text = json.loads(encrypt(build_event(1)))["encrypt"]
    data = bytearray(base64.b64decode(text))
    answers = set()
    for at in range(0, len(data), 7):
        data[at] ^= 1
        answers.add(await receiver.post(json.dumps({"encrypt": base64.b64encode(data).decode()}).encode(), {}))
    assert answers == {(401, "")}


async def test_a_signed_request_that_cannot_be_read_is_not_sent_again_and_none_is_too_large(receiver: Receiver) -> None:
    for body in (b"", b"{}", b"[]", b'{"encrypt":1}', b'{"encrypt":"QQ=="}', b"[" * 9_999):
        assert (await receiver.post(body, sign(body)))[0] == 200, body[:20]
    assert not receiver.got
    large = b"x" * (http_mode.BODY_MAX + 1)
    assert (await receiver.post(large, sign(large)))[0] == 413
    assert (await receiver.post(b"x" * 5_000, {}))[0] == 401  # unsigned: not even read


@pytest.mark.parametrize("wrong", [None, "another key signs", "another body is signed"])
async def test_the_sdk_says_the_same(receiver: Receiver, wrong: str | None) -> None:
    body = encrypt(build_event(1, "thing.happened_v1"))
    headers = WRONG[wrong](body) if wrong else sign(body)
    ours, theirs = (await receiver.post(body, headers))[0], ask_sdk(body, headers)[0]
    assert (ours == 200) == (theirs == 200) == (wrong is None)
    challenge = encrypt(CHALLENGE)
    assert json.loads(ask_sdk(challenge, sign(challenge))[1]) == json.loads(
        (await receiver.post(challenge, sign(challenge)))[1]
    )


async def test_negative_control_without_a_key_nothing_is_served() -> None:
    with pytest.raises(ValueError, match="without a key"):
        build_callback_app(Receiver().handle, "", TOKEN, IngressGate())
