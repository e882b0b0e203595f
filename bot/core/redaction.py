"""Removes secrets from text: the known secrets of this installation, and everything that looks like one.

The secrets of the settings and of the file of MCP servers are known exactly. This module finds them as they are,
URL-encoded, JSON-escaped and inside base64. Patterns find what other programs print, and numbers that identify a
person. Every pattern is linear: it begins with a fixed word or at the start of a run of characters, and never
backtracks into what it has matched."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from bot.core.i18n import shorten_text

MIN_SECRET_LENGTH = 6
"""Length in characters of the shortest secret that is searched for by itself. A shorter secret is found only by its
context (`:pass@host`, `password=…`): searched for by itself, it would remove every such word from the logs."""
MIN_TOKEN_LENGTH = 16
"""Length in characters of the shortest word of only letters and digits that may be a token."""
MASK = "***"
"""The replacement of a secret. Shorter than `MIN_SECRET_LENGTH`, so never taken for a secret itself."""
_ENDINGS = (
    *("password", "passwd", "passphrase", "pwd", "secret", "token", "signature", "credential", "credentials"),
    *("secretkey", "accesskey", "apikey", "privatekey", "signingkey", "accountkey", "encryptionkey", "masterkey"),
    *("subscriptionkey", "licensekey", "authkey", "sessionid", "ticket", "密码", "口令", "密钥", "令牌"),
)
"""Endings of the names of secrets, without `_` and `-`."""
_PASSWORDS = ("password", "passwd", "passphrase", "pwd", "secret", "密码", "口令")
_HEADERS = ("authorization", "cookie")
"""Names whose value is the rest of the line or quotation."""
_QUERY = frozenset({"key", "sig", "sas", "code", "auth", "session", "assertion"})
"""Last words of further secret names in the query of an address."""
_SECRET_WORDS = re.compile(r"(?i)token|secret|pass|pwd|key|auth|credential|cookie|session|signature|private")
_NAME = re.compile(
    r"(?:(?<=\\[nrt])|(?<![\w-]))(?P<name>[\w-]{2,60}+)(?P<end>\\{0,7}[\"'])?"
    r"\s{0,4}(?P<sign>=>|[:=：]|,\s?(?=b\\{0,7}[\"']))\s{0,4}(?:b(?=\\{0,7}[\"']))?"
)
_VALUE = re.compile(
    r"(?P<quote>[\"'])(?:(?!(?P=quote)(?:[\s,}\])>;:&'\"\\|.]|$))(?:\\.|[^\\\r\n]))*+"
    r"|(?P<escaped>\\{1,7}[\"'])(?:(?!(?<!\\)(?P=escaped))[^\r\n])*+"
    r"|(?:[^\s\"'\\,;&}\])<>#]|,(?=[^\s\"'\\]))++"
)
"""A quoted value up to its quote, with blanks and commas, or one word. A quote followed by a letter belongs to the
value: the text was escaped in another way."""
_AS_NAME = re.compile(r"\\{0,7}[\"']\s{0,4}:\s{0,4}")
"""The end of another name where the value should be: the value was cut short, and the next text begins here and ends
with its own quote. The value of that name is removed too."""
_REST = re.compile(r"(?i)(?P<quote>\\{0,7}[\"'])?(?!(?:bearer|basic) {1,8}\*\*\*)[^\s\"'\\][^\r\n\"'\\]*+")
"""The rest of the line or of the quotation."""
_SENTENCE = re.compile(r"(?i)(?:input should|should|must|field|value|is|was|not|none|null)\b")
_WORDLESS = re.compile(r"(?i)null|none|true|false|undefined")
_LIKE_A_KEY = re.compile(r"(?<![\w-])(?=[A-Za-z_-]{0,40}\d)[\w-]{16,}+")
_LIKE_BASE64 = re.compile(r"\\{0,7}[\"'][\w+/]{16,}+={0,2}\\{0,7}[\"']")
_HASH = re.compile(r"\\{0,7}\"?[0-9a-fA-F]{16,}")
_MASKED = re.compile(r"(?<![\w.-])[\w.-]{0,40}+\*\*\*(?:@[\w.-]++)?")
"""A value that a pattern has already masked and that shows its kind."""
_ESCAPED = r"(?<=\\[nrt])|(?<=\\u[0-9a-fA-F]{4})"
"""The place after a JSON escape: a new line, or a letter of another script."""
_BEGINNING = rf"(?:(?<![A-Za-z0-9])|{_ESCAPED})"
"""The start of a word."""
_PREFIXES = (
    *("gloas-", "glagent-", "glimt-", "glffct-", "glft-", "GR1348941", "sk_org_live_", "sk_org_test_", "lsv2_pt_"),
    *("lsv2_sk_", "nvapi-", "tvly-", "fw_", "pa-", "api_org_", "lin_oauth_", "ATCTT", "ATBB", "HRKU-", "pul-"),
    *("dp.st.", "dp.pt.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit.", "ops_eyJ", "dckr_oat_", "rubygems_", "glc_eyJ"),
    *("NRAK-", "sntrys_", "sntryu_", "xkeysib-", "xsmtpsib-", "sq0csp-", "sq0atp-", "access_token$production$"),
    *("pscale_tkn_", "pscale_oauth_", "pscale_pw_", "sbp_", "sb_secret_", "vercel_blob_rw_", "napi_", "phx_"),
    *("CLOJARS_", "AKCp", "cmVmdGtuOj", "STS.", "AKLT", "sess-", "CCIPAT_", "CCIPRJ_", "bkua_", "EZAK", "EZTK"),
    *("duffel_live_", "duffel_test_", "fo1_", "fm1a_", "fm1r_", "fm2_", "tfp_", "pat-na1-", "pat-eu1-", "dG9rOj"),
    *("aio_", "pnu_", "rdme_", "shippo_live_", "shippo_test_", "fio-u-", "dt0c01.", "PMAK-", "CFPAT-", "AQVN"),
    *("sha256~", "AQ.Ab"),
)
"""Prefixes of tokens that have a digit and are at least 16 characters longer than the prefix."""
_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"(?s)-----? ?BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?) ?-----?"
            r".*?(?:-----? ?END [A-Z0-9 ]{0,60}-----?|\Z)"
        ),
        r"-----\1 ***-----",
    ),
    (re.compile(r"(?s)(Private-Lines:).*?(?=Private-MAC:|\Z)"), r"\1 *** "),
    (re.compile(r"(xox[a-z]|xapp)(?:\.xox[a-z])?-[\w.-]++"), r"\1-***"),
    (re.compile(_BEGINNING + r"sk-[\w-]{6,}+"), "sk-***"),
    (re.compile(rf"(?:(?<![\w-])|{_ESCAPED})" + r"(eyJ)[\w-]{5,}+\.(?:[\w-]{5,}+|(?=\.))(?:\.[\w-]*+){0,4}"), r"\1***"),
    (
        re.compile(
            _BEGINNING + r"(gh[pousr]_|github_pat_|gl(?:pat|rt|dt|cbt|ptt|soat)-|npm_|dckr_pat_|hf_|gsk_|r8_|"
            r"do[opr]_v1_|(?:sk|rk|pk)_(?:live|test)_|whsec_|shp(?:at|ca|pa|ss)_|lin_api_|figd_|ntn_|GOCSPX-|ya29\.|"
            r"AIza|pypi-Ag|SG\.|hv[sbr]\.|ATATT|dapi|xai-|pplx-|AGE-SECRET-KEY-|glsa_|sgp_|tskey-|LTAI|AKID)"
            r"[\w.-]{16,}+"
        ),
        r"\1***",
    ),
    (  # recognizable even if a text was cut in the middle of one
        re.compile(_BEGINNING + r"(gh[pousr]_|github_pat_|glpat-|(?:sk|rk|pk)_(?:live|test)_|GOCSPX-)[\w.-]{6,}+"),
        r"\1***",
    ),
    (
        re.compile(_BEGINNING + f"({'|'.join(map(re.escape, _PREFIXES))})" + r"(?=[\w.$-]{0,60}\d)[\w.$-]{16,}+"),
        r"\1***",
    ),
    (re.compile(_BEGINNING + r"(IQoJb3JpZ2lu|FwoGZXIvYXdz|ABSKQmVkcm9ja|bce-v3/ALTAK-)[\w+/=-]{16,}+"), r"\1***"),
    (re.compile(_BEGINNING + r"(secret_)[A-Za-z0-9]{43}(?!\w)"), r"\1***"),
    (re.compile(_BEGINNING + r"(A(?:KIA|SIA|GPA|IDA|ROA|NPA|NVA))[A-Z0-9]{16}(?![A-Z0-9])"), r"\1***"),
    (re.compile(_BEGINNING + r"(key-)[0-9a-f]{32}(?![\w-])"), r"\1***"),
    (re.compile(r"(?i)" + _BEGINNING + r"(bearer)(?:[ \t]{1,8}|%20|\\{1,7}(?:t|u0020))[\w.~+/=-]{6,}+"), r"\1 ***"),
    (
        re.compile(_BEGINNING + r"((?i:basic)) {1,8}(?=[\w+/]{0,40}[\d=]|[\w+/]{0,40}[a-z][A-Z])[\w.~+/=-]{6,}+"),
        r"\1 ***",
    ),
    (
        re.compile(
            r"(?i)("
            + _BEGINNING
            + r"(?:set-)?cookie\\{0,7}[\"']?\s{0,4}[:=,]\s{0,4}(?:b(?=\\{0,7}[\"']))?\\{0,7}[\"']?)"
            r"(?!\*\*\*)[^\s\"'\\][^\r\n\"'\\]*+"
        ),
        r"\1***",
    ),
    (
        re.compile(
            r"(://[^\s:@/\"'\\]{0,256}):(?!\d{1,5}(?:[/\"'\s]|$))"
            r"(?:(?:[^\s/\"'\\]|[\"'](?=\w)|\\{1,4}[\"'\w](?=[\w@])){1,256}@|[^\s\"'\\]{1,64}@)"
        ),
        r"\1:***@",
    ),
    (re.compile(r"(?<=://)[^\s:@/\"'\\]{16,256}+(?=@)"), MASK),
    (re.compile(r"(hooks\.slack(?:-gov)?\.com/\w{1,40})/[\w/-]++"), r"\1/***"),
    (
        re.compile(
            r"((?:/open-apis/bot/v2/hook|/api/webhooks/\d{1,30}|webhook\.office\.com|hooks\.zapier\.com/hooks/catch)/)"
            r"[\w@/.-]++"
        ),
        r"\1***",
    ),
    (re.compile(r"(?i)(<[\w:.-]{0,40}(?:password|passwd|secret|token|api-?key)>)[^<]{1,256}"), r"\1***"),
    (
        re.compile(
            r"(?i)(\bname=\\{0,7}[\"'][\w.-]{0,40}(?:password|passwd|secret|token)\\{0,7}[\"']\s{1,4}value=\\{0,7}[\"'])"
            r"[^\"'\\]{1,256}"
        ),
        r"\1***",
    ),
    (
        re.compile(
            r"(?i)\b((?:login \S{1,64} password|requirepass|masterauth) |identified by \\{0,7}['\"])[^\s'\"\\]++"
        ),
        r"\1***",
    ),
    (re.compile(r"((?:(?<!\S)|(?<=\\[nrt]))(?:-u|--user)[ =]{1,2}[\w.@+-]{1,64}:)[^\s'\"\\]++"), r"\1***"),
    (re.compile(r"(?:(?<!\S)|(?<=\\[nrt]))(--[\w-]{0,40}(?:password|token|secret|key)) (?!-)\S++"), r"\1 ***"),
)
_WORDLESS_TOKENS = re.compile(
    r"(?:(?<![\w:])|(?<=\\[nrt]))((?:bot)?\d{8,10}:|AC[0-9a-f]{32}:|[012]/\d{16}:|oauth:)"
    r"(?:[\w-]{35}|[0-9a-f]{32}|[0-9a-z]{30})(?![\w-])|"
    rf"(?:(?<![\w.~+/-])|{_ESCAPED})(?:(?=[MNO])[\w-]{{24,28}}\.[\w-]{{6}}\.[\w-]{{27,40}}|"
    r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}|[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,70}|[0-9a-f]{32}\.[A-Za-z0-9]{16}|"
    r"[0-9a-f]{32}-(?:us\d{1,2}|[0-9a-f]{8}-[0-9a-f]{8})|SK[0-9a-f]{32}|SEC[0-9a-f]{64}|s\.[A-Za-z0-9]{24}|"
    r"v1\.0-[0-9a-f]{24}-[0-9a-f]{146}|[\w.~-]{3}[0-9]Q~[\w.~-]{31,34}|[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}|"
    r"[A-Za-z0-9+/]{76}\+ASt[A-Za-z0-9+/]{6}==|oy2[a-z0-9]{43}|cio[A-Za-z0-9]{32}|re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}|"
    r"(?:1//0|4/0A)[\w-]{40,120}|EAA[A-Z][\w-]{56,255}|[tu]-(?=[A-Za-z0-9]{0,12}\d)[A-Za-z0-9]{36,48})(?![\w-])"
)
"""Tokens without a telling word, of Telegram, Twilio, Asana, Twitch; of Discord, Airtable, Terraform, Zhipu, Mailchimp,
Mailgun, Twilio, DingTalk, Vault, Cloudflare, Azure, NuGet, crates.io, Resend, Google, Meta, Feishu."""
_ADDRESS = re.compile(r"(?<![\w.+%-])([\w.+%-])[\w.+%-]*+@([\w-]++(?:\.[\w-]++)++)")
_SIGNS: tuple[str, ...] = (
    *("xox", "xapp", "sk-", "bearer", "basic", "://", "hooks.slack", "ticket=", "token", "secret", "signature"),
    *("password", "passwd", "passphrase", "pwd", "api", "key", "@", "eyj", "authorization", "cookie", "credential"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "glrt-", "gldt-", "glcbt-", "glptt-", "glsoat-"),
    *("npm_", "dckr_", "hf_", "r8_", "dop_v1", "dor_v1", "doo_v1", "whsec_", "shp", "figd_", "ntn_", "akia", "asia"),
    *("akid", "gocspx", "ya29", "aiza", "pypi-", "sg.", "hvs.", "hvb.", "hvr.", "atatt", "xai-", "pplx-", "sgp_"),
    *("ltai", "agpa", "aida", "aroa", "anpa", "anva", "session", "webhook", "response=", "code=", "sig=", "sas="),
    *("auth=", "assertion=", "密码", "口令", "密钥", "令牌", "sk_", "rk_", "pk_", "glsa_", "private-lines"),
    *("requirepass", "masterauth", "identified by", "--user", "-u ", "_pass", "-pass", "_auth", '"auth', "'auth"),
    *("iqojb3jpz2lu", "fwogzxivyxdz", "abskqmvkcm9ja", "altak"),
)
"""A text with none of these in it, in lower case, has no secret that the patterns below know."""
_SIGNS += tuple(one.casefold() for one in _PREFIXES if not any(sign in one.casefold() for sign in _SIGNS))


@dataclass(slots=True, kw_only=True)
class _KnownSecrets:
    """The secrets that this process searches for."""

    spellings: tuple[str, ...] = ()
    """Longest first."""
    secrets: frozenset[str] = frozenset()
    personal: bool = False


_known = _KnownSecrets()


def remember_secrets(secrets: Iterable[str], *, personal: bool | None = None) -> None:
    """Add secrets that are redacted from now on in everything this process writes. `personal` sets whether numbers of
    phones, identity cards, bank accounts and cards are redacted; None leaves that unchanged."""
    all_secrets = _known.secrets | {one for one in secrets if len(one) >= MIN_SECRET_LENGTH}
    if all_secrets != _known.secrets:
        spellings = {spelling for one in all_secrets for spelling in spell_secret(one)}
        _known.spellings = tuple(sorted(spellings, key=lambda one: (-len(one), one)))
        _known.secrets = all_secrets
    _known.personal = _known.personal if personal is None else personal


def forget_secrets() -> None:
    """Reset everything: for tests, and for a process that has played another installation."""
    _known.spellings, _known.secrets, _known.personal = (), frozenset(), False


def spell_secret(secret: str) -> Iterator[str]:
    """Yield a secret in every spelling: plain, URL-encoded, escaped, and in base64 at any offset."""
    yield secret
    for encoded in (quote(secret, safe=""), quote(secret), quote_plus(secret), quote(secret, safe="!$&'()*+,;=:@-._~")):
        yield encoded
        yield re.sub(r"%[0-9A-F]{2}", lambda code: code[0].lower(), encoded)
    for ascii_only in (True, False):
        once = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield once
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1]
    yield repr(secret)[1:-1]
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for offset in range(3):
            # These letters encode nothing but the secret when `offset` bytes (modulo 3) precede it.
            content = b"\0" * offset + secret.encode()
            yield encode(content).decode().rstrip("=")[-(-offset * 8 // 6) : len(content) * 8 // 6]


def read_url_secrets(url: str) -> Iterator[str]:
    """Yield the secrets in an address: a password, a user without a password, keys in the query."""
    try:
        parts = urlsplit(url)
        user, password = parts.username or "", parts.password or ""
    except ValueError:
        return
    for one in (password, "" if password else user):
        if one:
            yield one
            yield unquote(one)
    for name, value in parse_qsl(parts.query):
        if is_secret_name(name):
            yield value


def is_secret_name(name: str) -> bool:
    """Whether this is the name of a secret: `API_TOKEN`, `client-secret`, `Authorization`."""
    return _SECRET_WORDS.search(name) is not None


def redact_known_secrets(text: str) -> str:
    """Mask the secrets that this process knows."""
    for one in _known.spellings:
        if one in text:
            text = text.replace(one, MASK)
    return text


def redact_text(text: str, *, addresses: bool = True) -> str:
    """Mask tokens, keys and passwords in a text and, unless `addresses` is false, the names in e-mail addresses
    (`l***@example.com`)."""
    text = redact_known_secrets(text)
    if _known.personal and any(sign in text for sign in _DIGITS):
        text = redact_personal_numbers(text)
    if len(text) < MIN_TOKEN_LENGTH and text.isalnum():
        return text
    small = text.casefold()
    text = _WORDLESS_TOKENS.sub(rf"\1{MASK}", text)
    if not any(sign in small for sign in _SIGNS):
        return text
    for pattern, replacement in _SHAPES:
        text = pattern.sub(replacement, text)
    return _mask_named_secrets(_ADDRESS.sub(r"\1***@\2", text) if addresses else text)


def shorten_private_text(text: str, most: int) -> str:
    """Shorten with `shorten_text` a text that is kept or shown again. A text that is too long is masked first, because
    half of a token is not recognized as one."""
    return shorten_text(redact_text(text, addresses=False) if len(text) > most else text, most)


def _mask_named_secrets(text: str) -> str:
    """Mask the values under the names of secrets."""
    parts, end = list[str](), 0
    for found in _NAME.finditer(text):
        if found.start() < end or not (extent := _find_value_extent(text, found)):
            continue
        start, stop, mask = extent
        parts += text[end:start], mask
        end = stop
    return "".join([*parts, text[end:]]) if parts else text


def _find_value_extent(text: str, match: re.Match[str]) -> tuple[int, int, str] | None:
    """Find the start and end of the secret value after its name, and its replacement."""
    name, at = match["name"].replace("_", "").replace("-", "").lower(), match.end()
    if name.endswith(_HEADERS):
        rest = _REST.match(text, at)
        return (max(rest.end("quote"), at), rest.end(), MASK) if rest else None
    if not (name.endswith(_ENDINGS) or _is_secret_here(text, match)):
        return None
    value = _VALUE.match(text, at)
    if value is None:
        return None
    opened = value["quote"] or value["escaped"]
    if not opened:
        return _find_bare_extent(text, match, value)
    start, stop = at + len(opened), value.end()
    while (name_ends := _AS_NAME.match(text, stop)) and (value := _VALUE.match(text, name_ends.end())):
        stop = value.end()
    return (start, stop, MASK) if start < stop and not _MASKED.fullmatch(text, start, stop) else None


def _find_bare_extent(text: str, match: re.Match[str], value: re.Match[str]) -> tuple[int, int, str] | None:
    """Find the extent of a value without quotes. A password after a colon may contain blanks; because its end is
    unknown, the rest of the line is removed. In JSON, an unquoted value gets quotes."""
    name, at, word, quote_ = match["name"].lower(), value.start(), value[0], match["end"] or ""
    if _WORDLESS.fullmatch(word) or _MASKED.fullmatch(word):
        return None
    if word.isdecimal() and len(word) < 5 and not name.endswith(_PASSWORDS):
        return None
    if not quote_ and match["sign"] in ":：" and name.endswith(_PASSWORDS):
        rest = _REST.match(text, at)
        return (at, rest.end(), MASK) if rest and not _SENTENCE.match(text, at) else None
    return at, value.end(), f"{quote_}{MASK}{quote_}"


def _is_secret_here(text: str, match: re.Match[str]) -> bool:
    """Whether a name means a secret only in this place, or together with the text after it."""
    name, before = match["name"], text[max(match.start() - 1, 0) : match.start()]
    if match["sign"] == "=" and before in ("?", "&", ";"):
        return name.lower().replace("-", "_").rpartition("_")[2] in _QUERY
    if name.lower().endswith(("_pass", "-pass", "_auth")):
        return True
    if name == "auth" and match["end"]:
        return _LIKE_BASE64.match(text, match.end()) is not None
    if name == "key" and match["sign"] == "=":
        return _LIKE_A_KEY.match(text, match.end()) is not None
    return name == "response" and _HASH.match(text, match.end()) is not None


# Numbers that identify a person. A check digit must match, so amounts, dates and request numbers stay.

_DIGITS = tuple("0123456789")
_IDENTITY = re.compile(r"(?<![\w.-])\d{17}[\dXx](?![\w-])")
_MOBILE = re.compile(r"(?<![\w.+-])(?:(?:\+|00)?86[ -]?)?1[3-9]\d[ -]?\d{4}[ -]?\d{4}(?![\w-])")
_INTERNATIONAL = re.compile(r"(?<![\w+])\+[1-9](?:[ ().-]{0,2}\d){7,14}(?!\w)")
_CARD = re.compile(r"(?<![\w.-])[2-6]\d{3}(?:[ -]?\d{4}){2}[ -]?\d{1,7}(?![\w-])")
_ACCOUNT = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)")
_SOCIAL = re.compile(r"(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])")
_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_CHECKS = "10X98765432"


def redact_personal_numbers(text: str) -> str:
    """Mask the numbers of phones, identity cards, bank accounts and cards in a text."""
    text = _IDENTITY.sub(lambda one: MASK if is_identity_number(one[0]) else one[0], text)
    text = _CARD.sub(lambda one: MASK if is_card_number(one[0]) else one[0], text)
    text = _ACCOUNT.sub(lambda one: MASK if is_account_number(one[0]) else one[0], text)
    for pattern in (_INTERNATIONAL, _MOBILE, _SOCIAL):
        text = pattern.sub(MASK, text)
    return text


def is_identity_number(number: str) -> bool:
    """Whether this is a Chinese resident identity number (GB 11643): its last character is computed from the others."""
    total = sum(int(digit) * weight for digit, weight in zip(number[:17], _WEIGHTS, strict=True))
    return _CHECKS[total % 11] == number[17].upper() and "01" <= number[10:12] <= "12"


def is_card_number(number: str) -> bool:
    """Whether this is a card number of 13 to 19 digits (ISO/IEC 7812, Luhn)."""
    digits = [int(sign) for sign in reversed(number) if sign.isdecimal()]
    doubled = [sum(divmod(2 * one, 10)) if place % 2 else one for place, one in enumerate(digits)]
    return 13 <= len(digits) <= 19 and sum(doubled) % 10 == 0


def is_account_number(number: str) -> bool:
    """Whether this is an IBAN (ISO 13616): it leaves the remainder 1 when divided by 97."""
    plain = number.replace(" ", "")
    return 15 <= len(plain) <= 34 and int("".join(str(int(sign, 36)) for sign in plain[4:] + plain[:4])) % 97 == 1
