"""Receives Feishu's events and presses by HTTP.

Every request is encrypted and signed with the app's Encrypt Key. Nothing of a request is parsed before its signature
over the raw bytes is verified. The check of the address (`url_verification`) alone comes without a signature: it has to
be encrypted with the key, and all other unsigned requests get one and the same refusal, from which nobody learns what
is in a message."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from typing import Any

from aiohttp import web
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from bot.chat.platform import IngressGate
from bot.core import logs
from bot.platforms.feishu.connection import Handle, handle_payload
from bot.platforms.http_mode import BODY_MAX, SKEW_S, BodyReader, admit_request, build_closing_response
from bot.platforms.shared import find_value, parse_object

log = logs.get_logger(__name__)

PATH = "/feishu/events"
CHALLENGE_MAX = 2_048
"""Most bytes of a check of the address."""
_BLOCK = 16
_STAMP, _NONCE, _SIGNATURE = re.compile(r"[0-9]{1,12}"), re.compile(r"[!-~]{1,128}"), re.compile(r"[0-9a-f]{64}")
_SIGNED_BY = ("X-Lark-Request-Timestamp", "X-Lark-Request-Nonce", "X-Lark-Signature")


def build_callback_app(handle: Handle, encrypt_key: str, token: str, gate: IngressGate) -> web.Application:
    """Build the web application of HTTP mode: `/feishu/events` for events and presses. `token` is the Verification
    Token, and may be empty."""
    if not encrypt_key:
        raise ValueError("without a key, nothing would be verified")
    bodies = BodyReader()

    async def receive(request: web.Request) -> web.Response:
        payload = await _read_payload(request, encrypt_key, token, time.time(), bodies)
        if isinstance(payload, web.Response):
            return payload
        if payload.get("type") == "url_verification":
            return web.json_response({"challenge": str(payload.get("challenge"))[:CHALLENGE_MAX]})
        with admit_request(gate) as ended:
            status, answer = await handle_payload(handle, payload)
            ended.name = "acknowledged" if status == 200 else "failed"
            return web.json_response(answer or {}, status=200 if status == 200 else 503)

    application = web.Application(client_max_size=BODY_MAX)
    application.router.add_post(PATH, receive)
    return application


async def _read_payload(
    request: web.Request, encrypt_key: str, token: str, now_s: float, bodies: BodyReader
) -> dict[str, Any] | web.Response:
    """Return the payload of a request of Feishu's, or the answer to any other one."""
    signed_by = [request.headers.get(name, "") for name in _SIGNED_BY]
    stamp, nonce, signature = signed_by
    is_signed = any(signed_by)
    if is_signed:
        is_whole = _STAMP.fullmatch(stamp) and _NONCE.fullmatch(nonce) and _SIGNATURE.fullmatch(signature)
        # Feishu sends plain UTF-8. Another encoding was added by somebody else, because headers are not signed.
        is_encoded = "Content-Encoding" in request.headers
        if not is_whole or is_encoded or abs(now_s - int(stamp)) > SKEW_S:
            return build_closing_response(401)
    elif (request.content_length or BODY_MAX) > CHALLENGE_MAX:
        return build_closing_response(401)
    body = await bodies.read_body(request)
    if isinstance(body, web.Response):
        return body
    signed = hashlib.sha256(f"{stamp}{nonce}{encrypt_key}".encode() + body)
    if is_signed and not hmac.compare_digest(signed.hexdigest(), signature):
        return build_closing_response(401)
    encrypted = (parse_object(body) or {}).get("encrypt")
    try:
        payload = parse_object(decrypt_text(encrypted, encrypt_key)) if isinstance(encrypted, str) else None
    except ValueError:
        payload = None
    if payload is None and is_signed:
        log.warning("feishu_odd_request", size=len(body))
        return web.Response()  # Feishu would only send it again
    is_challenge = payload is not None and payload.get("type") == "url_verification"
    if payload is None or not (is_signed or is_challenge):
        return build_closing_response(401)
    told = str(find_value(payload if is_challenge else payload.get("header"), "token"))
    if token and not hmac.compare_digest(token.encode(), told.encode("utf-8", "replace")):
        return build_closing_response(401)
    return payload


def decrypt_text(text: str, encrypt_key: str) -> bytes:
    """Decrypt AES-256-CBC in base64, by the hash of the key and with the first block as its beginning. Raises
    ValueError."""
    data = base64.b64decode(text, validate=True)
    if len(data) < 2 * _BLOCK or len(data) % _BLOCK:
        raise ValueError("the text has no whole blocks")
    key = hashlib.sha256(encrypt_key.encode()).digest()
    decryptor, unpadder = Cipher(AES(key), CBC(data[:_BLOCK])).decryptor(), PKCS7(8 * _BLOCK).unpadder()
    padded = decryptor.update(data[_BLOCK:]) + decryptor.finalize()
    return unpadder.update(padded) + unpadder.finalize()
