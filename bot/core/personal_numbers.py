"""Numbers that identify a person: phones, identity cards, bank accounts and cards. Where such a number has a check
digit, the digit must match, so amounts, dates and request numbers stay."""

from __future__ import annotations

import re

SIGNS = tuple("0123456789")
_IDENTITY = re.compile(r"(?<![\w.-])\d{17}[\dXx](?![\w-])")
_MOBILE = re.compile(r"(?<![\w.+-])(?:(?:\+|00)?86[ -]?)?1[3-9]\d[ -]?\d{4}[ -]?\d{4}(?![\w-])")
_INTERNATIONAL = re.compile(r"(?<![\w+])\+[1-9](?:[ ().-]{0,2}\d){7,14}(?!\w)")
_CARD = re.compile(r"(?<![\w.-])[2-6]\d{3}(?:[ -]?\d{4}){2}[ -]?\d{1,7}(?![\w-])")
_ACCOUNT = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)")
_SOCIAL = re.compile(r"(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])")
_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_CHECKS = "10X98765432"
MASK = "***"


def redact_personal_numbers(text: str) -> str:
    """Mask these numbers in a text."""
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
