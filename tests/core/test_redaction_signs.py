"""A text in which no sign of a secret stands is left alone at once. So each sign has to let through what it is for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bot.core import redaction
from bot.core.redaction import forget_secrets, redact_text

WORD = "4eC39HqLyjWDarjtT1zdp7dc"
ALONE: dict[str, tuple[str, str]] = {
    "xox": ("xoxb-123-456-abcDEF", "456-abcDEF"),
    "xapp": ("xapp-1-A0-99-abc", "A0-99"),
    "sk-": ("sent sk-Ab_c-123456 to it", "Ab_c-123456"),
    "bearer": ("Bearer abc.def-ghi", "abc.def"),
    "basic": ("Basic bGlzaTpodW50ZXIy", "bGlzaTpodW50ZXIy"),
    "://": ('{"url": "wss://link/", "ticket": "abc-1"}', "abc-1"),
    "hooks.slack": ("hooks.slack.com/services/T1/B2/abcXYZ", "abcXYZ"),
    "ticket=": ("/link?ticket=abc-1&app_id=2", "abc-1"),
    "token": ("its token: 9f8e7d6c5b", "9f8e7d6c5b"),
    "secret": ('{"client_secret": "c1i3nt,s3cr3t"}', "s3cr3t"),
    "signature": ("/o?X-Amz-Signature=deadbeef01", "deadbeef01"),
    "password": ('{"password": "correct horse battery"}', "horse"),
    "passwd": ("{'passwd': 'pa,ss/wo rd'}", "ss/wo"),
    "passphrase": ("passphrase: correct horse battery", "battery"),
    "pwd": ("Server=db;Uid=sa;Pwd=Xy-7!9;Encrypt=yes", "Xy-7!9"),
    "api": ("/open-apis/bot/v2/hook/0d1e2f3a-77", "0d1e2f3a"),
    "key": ("AccountKey=Eby8vdM02xNO+Q==;x=1", "Eby8vdM02"),
    "@": ("mail to lisi@example.com", "lisi"),
    "eyj": ("got eyJhbGciOiJI.eyJzdWIiOiJs.SflKxwRJSMeK back", "SflKxwRJ"),
    "authorization": ("Authorization: Negotiate YIIJvwYG", "YIIJvwYG"),
    "cookie": ("Cookie: sid=abc77; csrf=zzz88", "zzz88"),
    "credential": ("/o?X-Amz-Credential=AKxy/2026&a=1", "AKxy/2026"),
    "session": ("/s?session=s3ss10n77", "s3ss10n77"),
    "webhook": ("webhook.office.com/a1b2/IncomingOf/c3d4", "c3d4"),
    "response=": ('response="6629fae49393a0539745"', "6629fae4"),
    "code=": ("GET /callback?code=4/0AX4XfWh&state=1", "0AX4XfWh"),
    "sig=": ("/c/f?sv=2022&sig=mP7%2Bq%3D&se=1", "mP7%2Bq"),
    "sas=": ("/c/f?sas=mP7%2Bq%3D&se=1", "mP7%2Bq"),
    "auth=": ("/c/f?auth=mP7%2Bq%3D&se=1", "mP7%2Bq"),
    "assertion=": ("/c/f?assertion=mP7%2Bq%3D&se=1", "mP7%2Bq"),
    "密码": ("密码：小白兔77", "小白兔77"),
    "口令": ("口令：小白兔77", "小白兔77"),
    "密钥": ("密钥：小白兔77", "小白兔77"),
    "令牌": ("令牌：小白兔77", "小白兔77"),
    **{
        prefix.casefold(): (f"it said {prefix}{rest}{WORD} twice", WORD)
        for prefix, rest in (
            *(("ghp_", ""), ("gho_", ""), ("ghu_", ""), ("ghs_", ""), ("ghr_", ""), ("github_pat_", "")),
            *(("glpat-", ""), ("glrt-", ""), ("gldt-", ""), ("glcbt-", ""), ("glptt-", ""), ("glsoat-", "")),
            *(("npm_", ""), ("dckr_", "pat_"), ("hf_", ""), ("r8_", ""), ("whsec_", ""), ("shp", "at_")),
            *(("dop_v1", "_"), ("dor_v1", "_"), ("doo_v1", "_"), ("figd_", ""), ("ntn_", ""), ("GOCSPX", "-")),
            *(("ya29", "."), ("AIza", ""), ("pypi-", "Ag"), ("SG.", ""), ("hvs.", ""), ("hvb.", ""), ("hvr.", "")),
            *(("ATATT", ""), ("xai-", ""), ("pplx-", ""), ("sgp_", ""), ("LTAI", ""), ("AKID", "")),
            *(("sk_", "live_"), ("rk_", "live_"), ("pk_", "live_"), ("glsa_", "")),
        )
    },
    **{
        prefix.casefold(): (f"it said {prefix}IOSFODNN7EXAMPLE twice", "IOSFODNN7")
        for prefix in ("AKIA", "ASIA", "AGPA", "AIDA", "AROA", "ANPA", "ANVA")
    },
}
"""A sign → a text that has no other one, and what of it may not be read."""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    forget_secrets()
    yield
    forget_secrets()


def test_every_sign_has_a_text_of_its_own() -> None:
    assert sorted(ALONE) == sorted(redaction._SIGNS)


@pytest.mark.parametrize("sign", ALONE)
def test_each_sign_alone_lets_a_secret_be_found(sign: str) -> None:
    said, secret = ALONE[sign]
    assert [one for one in redaction._SIGNS if one in said.casefold()] == [sign]
    assert secret in said and secret not in redact_text(said)


@pytest.mark.parametrize("sign", ALONE)
def test_negative_control_without_its_sign_it_is_read(sign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said, secret = ALONE[sign]
    monkeypatch.setattr(redaction, "_SIGNS", tuple(one for one in redaction._SIGNS if one != sign))
    assert secret in redact_text(said)


# Names, and what stands under them

NAMES = (
    *("password", "passwd", "passphrase", "pwd", "secret", "token", "signature", "credential", "credentials"),
    *("secret_key", "access-key", "api_key", "private-key", "signing_key", "account_key", "encryption_key"),
    *("master_key", "subscription-key", "license_key", "authKey", "sessionId", "ticket"),
    *("密码", "口令", "密钥", "令牌"),
)


@pytest.mark.parametrize("name", NAMES)
def test_what_stands_under_the_name_of_a_secret_is_not_read(name: str) -> None:
    for said in (f"our_{name}=aB3dE5fG7h", f"their-{name}=aB3dE5fG7h&n=1"):
        assert "aB3dE5fG7h" not in redact_text(said)


@pytest.mark.parametrize("name", ["password", "passwd", "passphrase", "pwd", "secret", "密码", "口令"])
def test_a_password_may_have_blanks_and_be_a_short_number(name: str) -> None:
    assert "battery" not in redact_text(f"its {name}: correct horse battery staple")
    assert "1234" not in redact_text(f"{name}=1234")
    assert redact_text("its token=1234") == "its token=1234", "control: that is a number of tokens"


def test_a_key_of_a_mail_service_is_not_read() -> None:
    assert redact_text("sent with key-0123456789abcdef0123456789abcdef") == "sent with key-***"


def test_a_token_in_an_address_is_not_read_where_addresses_are() -> None:
    said = "https://0123456789abcdef0123@git.example.com/x.git, lisi@example.com"
    assert redact_text(said, addresses=False) == "https://***@git.example.com/x.git, lisi@example.com"
