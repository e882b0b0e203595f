"""No secret is read anywhere: the installation's own in every spelling, sixty shapes of others', on every way out."""

import asyncio
import base64
import gc
import io
import json
import logging
import string
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from redis.asyncio import Redis

from bot.agent.tool_executor import format_bounded_json
from bot.app import mcp_file
from bot.app.mcp_file import load_mcp_servers
from bot.app.settings import Settings
from bot.core import logs, redaction
from bot.core.i18n import load_sentences
from bot.core.redaction import (
    MASK,
    MIN_SECRET_LENGTH,
    forget_secrets,
    is_account_number,
    is_card_number,
    is_identity_number,
    read_url_secrets,
    redact_text,
    remember_secrets,
    spell_secret,
)
from bot.ops import log_output
from bot.ops.cli import print_redacted
from bot.ops.cli.console import sanitize_for_terminal
from bot.ops.log_output import configure_logging
from bot.queue.keys import Keys
from bot.storage.journal import Journal
from bot.tracing.lines import _redact_json
from tests.harness.secrets import FURTHER, HARMLESS, LEAKS, PERSONAL

OURS = "p@ss w0rd/é&+,7"
"""A password with everything in it that encodings change."""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    forget_secrets()
    yield
    forget_secrets()


def test_a_shape_is_not_read(subtests: pytest.Subtests) -> None:
    for name, (said, secret) in (LEAKS | FURTHER).items():
        with subtests.test(name):
            assert secret in said, "control"
            for text in (said, f"before {said} after", written({"a": said, "n": 1}), written(written([said]))):
                shown = redact_text(text)
                assert secret not in shown and written(secret)[1:-1] not in shown
                assert redact_text(shown) == shown, "once is enough"
            assert json.loads(redact_text(json.dumps({"a": said, "c": 1})))["c"] == 1
            assert not said.startswith('{"') or json.loads(redact_text(said))


def written(value: object) -> str:
    """As our logs write JSON."""
    return json.dumps(value, ensure_ascii=False)


def test_what_is_no_secret_stays_and_so_do_the_words_of_the_product() -> None:
    sentences = [both.values() for key, both in load_sentences().items() if not key.startswith("page.")]
    ours = [text for both in sentences for text in both if "@" not in text and "sk-" not in text]
    assert len(ours) > 500
    assert [text for text in ours if redact_text(text) != text] == []
    for personal in (False, True):
        remember_secrets([OURS], personal=personal)
        texts = [*HARMLESS, *(written({"said": text}) for text in HARMLESS)]
        assert [text for text in texts if redact_text(text) != text] == []


def test_personal_numbers_are_kept_out_by_setting(subtests: pytest.Subtests) -> None:
    for name, (said, number) in PERSONAL.items():
        forget_secrets()
        with subtests.test(name):
            assert redact_text(said) == said, "control: without the setting they stay"
            remember_secrets([], personal=True)
            assert number not in redact_text(said) and number not in redact_text(json.dumps({"a": said}))
    assert is_identity_number("11010519491231002X") and not is_identity_number("110105194912310021")
    assert is_card_number("4111 1111 1111 1111") and not is_card_number("4111 1111 1111 1112")
    assert is_account_number("DE89370400440532013000") and not is_account_number("DE88370400440532013000")


SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "quoted for an address": lambda one: quote(one, safe=""),
    "quoted for a path": quote,
    "quoted for a form": quote_plus,
    "quoted for one segment of a path (RFC 3986)": lambda one: quote(one, safe="!$&'()*+,;=:@-._~"),
    "in lower case": lambda one: "".join(c.lower() if n else c for n, c in enumerate(quote(one, safe=""))),
    "as JSON": lambda one: json.dumps({"x": one}),
    "as JSON in JSON": lambda one: json.dumps(json.dumps([one])),
    "as JSON in UTF-8": lambda one: json.dumps({"x": one}, ensure_ascii=False),
    "as Python": lambda one: repr([one]),
    "base64": lambda one: base64.b64encode(one.encode()).decode(),
    "a login": lambda one: base64.b64encode(f"user:{one}".encode()).decode(),
    "a login of another length": lambda one: base64.b64encode(f"u:{one}:x".encode()).decode(),
    "base64 for addresses": lambda one: base64.urlsafe_b64encode(f"ab{one}c".encode()).decode(),
}


def leaks(shown: str, secret: str) -> bool:
    """True when the secret, or nearly all of it, can be read or decoded from what is shown."""
    pieces = [shown, *(part for part in shown.replace('"', " ").replace("'", " ").split())]
    decoded = []
    for piece in pieces:
        for pad in ("", "=", "=="):
            for cut in range(4):
                try:
                    decoded.append(base64.b64decode(piece[cut:] + pad, altchars=b"-_").decode("latin-1"))
                except ValueError:
                    continue
    return any(secret in text or secret.encode().decode("latin-1") in text for text in (shown, *decoded))


def test_a_known_secret_is_found_however_it_is_spelled(subtests: pytest.Subtests) -> None:
    secrets = (OURS, "tulip-secret", "abcdef", "中文密钥一二三", 'quo"te\\s', "p:s/w@rd!")
    for (name, spell), secret in product(SPELLINGS.items(), secrets):
        forget_secrets()
        with subtests.test(name, secret=secret):
            text = f"it says {spell(secret)} there"
            assert redaction.redact_known_secrets(text) == text, "control: without knowing it, it stays"
            remember_secrets([secret])
            shown = redact_text(text)
            assert "***" in shown and spell(secret) not in shown and not leaks(shown, secret)


@settings(max_examples=200)
@given(st.text(string.printable, min_size=MIN_SECRET_LENGTH, max_size=24), st.binary(max_size=5), st.binary(max_size=5))
@example("abcdef", b"", b"")
def test_inside_base64_wherever_it_begins(secret: str, before: bytes, after: bytes) -> None:
    encoded = base64.b64encode(before + secret.encode() + after).decode()
    assert any(one in encoded for one in spell_secret(secret))


def test_a_secret_that_is_too_short_is_found_by_its_shape_only() -> None:
    remember_secrets(["abc"])
    assert redact_text("abc of the alphabet") == "abc of the alphabet"
    assert redact_text("redis://user:abc@host password=abc") == "redis://user:***@host password=***"


def test_a_secret_that_contains_another_one_is_redacted_whole() -> None:
    for secrets in (("tulip77", "tulip77-rose88"), ("tulip77-rose88", "tulip77"), ("rose88", "a-rose88")):
        forget_secrets()
        for one in secrets:
            remember_secrets([one])
        assert redact_text(f"say {max(secrets, key=len)} and {min(secrets, key=len)}") == "say *** and ***"


def test_what_was_known_stays_known_and_the_mask_is_no_secret() -> None:
    assert len(MASK) < MIN_SECRET_LENGTH
    remember_secrets(["tulip-77"], personal=True)
    remember_secrets([MASK, "x" * (MIN_SECRET_LENGTH - 1)])
    assert redact_text(f"tulip-77 {'x' * (MIN_SECRET_LENGTH - 1)}") == f"*** {'x' * (MIN_SECRET_LENGTH - 1)}"
    assert "13912345678" not in redact_text("13912345678"), "nor is the setting forgotten"
    remember_secrets(["x" * MIN_SECRET_LENGTH], personal=False)
    assert redact_text(f"tulip-77 {'x' * MIN_SECRET_LENGTH} 13912345678") == "*** *** 13912345678"
    forget_secrets()
    assert redact_text("tulip-77 13912345678") == "tulip-77 13912345678"


MASKED = [line.split("\t") for line in Path(__file__).with_name("masked.tsv").read_text(encoding="utf-8").splitlines()]


def test_what_is_masked_is_the_value_all_of_it_and_nothing_else(subtests: pytest.Subtests) -> None:
    assert len(MASKED) == 89
    for said, shown in MASKED:
        with subtests.test(said):
            assert redact_text(said) == shown == redact_text(shown) and redact_text(f"a {said}") == f"a {shown}"


def everything() -> Settings:
    return Settings(
        _env_file=None,  # type: ignore[call-arg]
        slack_bot_token=SecretStr("bot-token-1"), slack_app_token=SecretStr("app-token-2"),
        slack_signing_secret=SecretStr("signing-3"), openai_api_key=SecretStr("openai-key-4"),
        openai_fallback_api_key=SecretStr("fallback-5"), engine_password=SecretStr("engine-6 with blanks"),
        files_bucket_secret_key=SecretStr("bucket-14"), feishu_app_secret=SecretStr("feishu-15"),
        feishu_encrypt_key=SecretStr("encrypt-16"), feishu_verification_token=SecretStr("verify-17"),
        smtp_url=SecretStr("smtp://lisi:smtp%2Fpass-7@mail.example.com:587"),
        redis_url="redis+sentinel://u:redis-pass-8@host/service/0?sentinel_password=sentinel-9",
        openai_base_url="https://api-user:base-pass-10@models.example.com/v1?api-version=1&key=query-key-11",
        otel_exporter_otlp_headers=SecretStr("x-honeycomb-team=otel-12,Authorization=Bearer%20otel-13-token"),
    )  # fmt: skip


EVERY = [
    *("bot-token-1", "app-token-2", "signing-3", "openai-key-4", "fallback-5", "engine-6 with blanks", "smtp/pass-7"),
    *("smtp%2Fpass-7", "redis-pass-8", "sentinel-9", "base-pass-10", "query-key-11", "otel-12", "otel-13-token"),
    *("bucket-14", "feishu-15", "encrypt-16", "verify-17"),
]


def test_every_secret_of_the_settings_is_known() -> None:
    assert set(EVERY) <= everything().secrets
    hidden = [name for name, value in everything() if isinstance(value, SecretStr)]
    assert len(hidden) == sum("SecretStr" in str(field.annotation) for field in Settings.model_fields.values())


def test_every_secret_of_the_servers_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mcp.toml"
    file.write_text(
        '[servers.wiki]\ncommand = ["wiki", "--api-key", "cli-key-77", "--token=cli-token-78"]\n'
        'env = { WIKI_TOKEN = "${T}", MODE = "readonly", DB = "postgres://u:db-pass-79@h/x", X = "r4nd0m-mixed-80" }\n'
        '[servers.crm]\nurl = "https://crm.example.com/mcp?key=url-key-81"\n'
        'headers = { Authorization = "Bearer hdr-82" }\n',
        encoding="utf-8",
    )  # fmt: skip
    monkeypatch.setattr(mcp_file, "load_environment", lambda: {"T": "filled-in-83"})
    load_mcp_servers(Settings(_env_file=None, mcp_file=file))  # type: ignore[call-arg]
    for secret in (
        *("cli-key-77", "cli-token-78", "filled-in-83", "db-pass-79", "r4nd0m-mixed-80", "url-key-81", "hdr-82"),
    ):
        assert redact_text(f"he said {secret}, then") == "he said ***, then"
    assert redact_text("it is readonly") == "it is readonly", "a plain word of the file is no secret"


# --- every way out --------------------------------------------------------------------------------------------------

SAID = [said for said, _ in LEAKS.values()] + [f"own: {one}" for one in EVERY]
SECRETS = [secret for _, secret in LEAKS.values()] + EVERY


def assert_unread(text: str) -> None:
    assert [one for one in SECRETS if one in text or json.dumps(one)[1:-1] in text] == []
    assert "***" in text, "something was written"


@pytest.fixture
def known() -> None:
    remember_secrets(everything().secrets)


@pytest.mark.parametrize("as_json", [True, False])
def test_no_log_line_has_one(stream: io.StringIO, known: None, as_json: bool) -> None:
    configure_logging("DEBUG", json=as_json, stream=stream)
    foreign, ours = logging.getLogger("aiohttp.access"), logs.get_logger("bot.conversation.turn")
    for said in SAID:
        foreign.warning("GET %s HTTP/1.1", said, extra={"more": {"inner": [said]}})
        ours.warning("event", text=said, nested={"deep": [{"x": said}]})
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(f"careful: {said}", RuntimeWarning, stacklevel=1)
        try:
            raise ValueError(said) from KeyError(said)
        except ValueError:
            foreign.exception("it broke: %s", said)
            ours.exception("ours broke")
            ours.error("quietly", exc_info=True)
    assert_unread(stream.getvalue())


async def test_no_task_that_nobody_waited_for_says_one(stream: io.StringIO, known: None) -> None:
    configure_logging("INFO", json=True, stream=stream)

    async def fail(said: str) -> None:
        local = f"{said}"
        raise ValueError(local)

    tasks = [asyncio.create_task(fail(said)) for said in SAID]
    await asyncio.wait(tasks)
    del tasks
    gc.collect()
    assert "never retrieved" in stream.getvalue()
    assert_unread(stream.getvalue())


def test_no_uncaught_error_says_one(known: None, capsys: pytest.CaptureFixture[str]) -> None:
    for said in SAID:
        try:
            raise RuntimeError(said)
        except RuntimeError:
            print_redacted(*sys.exc_info())  # type: ignore[arg-type]
    assert_unread(capsys.readouterr().err)


async def test_no_record_of_the_journal_has_one(redis: Redis, known: None) -> None:
    journal = Journal(redis, Keys(partitions=1))
    for said in SAID:
        await journal.append_record("R1", "step", run="R1", text=said, args={"x": said}, more=[said])
    kept = [f"{record.text} {json.dumps(record.more, ensure_ascii=False)}" async for record in journal.stream_records()]
    assert len(kept) == len(SAID)
    assert_unread("\n".join(kept))


def test_nothing_that_commands_print_exports_or_spans_carry_has_one(known: None) -> None:
    for said in SAID:
        assert_unread(sanitize_for_terminal(said))
        assert json.loads(sanitize_for_terminal(json.dumps({"text": said, "n": 1})))["n"] == 1
        assert_unread(json.dumps(_redact_json({"messages": [{"content": said}]}), ensure_ascii=False))


def test_no_observation_repeats_one_of_ours(known: None) -> None:
    for secret in EVERY:
        assert secret not in format_bounded_json({"error": f"401: {secret}"})


def test_negative_control_without_redaction_they_are_read(
    stream: io.StringIO, known: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_output, "redact_text", lambda text: text)
    configure_logging("INFO", json=False, stream=stream)
    logging.getLogger("x").warning("%s", SAID[0])
    with pytest.raises(AssertionError):
        assert_unread(stream.getvalue())


# Signs: a text in which none stands is left alone at once. So each has to let through what it is for.

PREFIXES = (
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "glrt-", "gldt-", "glcbt-", "glptt-", "glsoat-"),
    *("npm_", "dckr_pat_", "hf_", "r8_", "whsec_", "shpat_", "dop_v1_", "dor_v1_", "doo_v1_", "figd_", "ntn_"),
    *("GOCSPX-", "ya29.", "AIza", "pypi-Ag", "SG.", "hvs.", "hvb.", "hvr.", "ATATT", "xai-", "pplx-", "sgp_"),
    *("LTAI", "AKID", "sk_live_", "rk_live_", "pk_live_", "glsa_", *redaction._PREFIXES),
)
WORD, NUMBER = "4eC39HqLyjWDarjtT1zdp7dc", "IOSFODNN7EXAMPLE"
TOKENS = [
    *((f"it said {prefix}{WORD} twice", WORD) for prefix in PREFIXES),
    *((f"it said {one}{NUMBER} twice", NUMBER) for one in ("AKIA", "ASIA", "AGPA", "AIDA", "AROA", "ANPA", "ANVA")),
    ("Private-Lines: 1\\nGdRSnBRG27XiFWm", "GdRSnBRG27XiFWm"),  # cut off
]


def test_a_token_is_known_by_its_beginning() -> None:
    assert [said for said, secret in TOKENS if secret in redact_text(said)] == []


def test_each_sign_lets_a_secret_be_found_that_no_other_does(subtests: pytest.Subtests) -> None:
    texts = [said for said, _ in (*MASKED, *TOKENS)]
    for sign in redaction._SIGNS:
        with subtests.test(sign), pytest.MonkeyPatch.context() as without:
            masked = {said: redact_text(said) for said in texts if sign in said.casefold()}
            without.setattr(redaction, "_SIGNS", tuple(one for one in redaction._SIGNS if one != sign))
            assert [said for said, shown in masked.items() if redact_text(said) == said != shown]


# Names, and what stands under them

NAMES = (
    *("password", "passwd", "passphrase", "pwd", "secret", "token", "signature", "credential", "credentials"),
    *("secret_key", "access-key", "api_key", "private-key", "signing_key", "account_key", "encryption_key"),
    *("master_key", "subscription-key", "license_key", "authKey", "sessionId", "ticket"),
    *("密码", "口令", "密钥", "令牌"),
)


def test_what_stands_under_the_name_of_a_secret_is_not_read(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            for said in (f"our_{name}=aB3dE5fG7h", f"their-{name}=aB3dE5fG7h&n=1"):
                assert "aB3dE5fG7h" not in redact_text(said)


def test_a_password_may_have_blanks_and_be_a_short_number(subtests: pytest.Subtests) -> None:
    for name in ["password", "passwd", "passphrase", "pwd", "secret", "密码", "口令"]:
        with subtests.test(name=name):
            assert "battery" not in redact_text(f"its {name}: correct horse battery staple")
            assert "1234" not in redact_text(f"{name}=1234")
            assert redact_text("its token=1234") == "its token=1234", "control: that is a number of tokens"


def test_a_token_in_an_address_is_not_read_where_addresses_are() -> None:
    assert set(read_url_secrets("https://0123456789@host/x?token=t0k3n&lang=zh")) == {"0123456789", "t0k3n"}
    assert list(read_url_secrets("http://[bad")) == []
    said = "https://0123456789abcdef0123@git.example.com/x.git, lisi@example.com"
    assert redact_text(said, addresses=False) == "https://***@git.example.com/x.git, lisi@example.com"
