"""Files on cards and in dialogs: name, type, size, and the values that a model has read from a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

from tools.day_words import format_day_words
from tools.languages import LANGUAGES
from tools.spec import AttachedFile, CardField, TextRef
from tools.workflow.engine.state import FilledForm
from tools.workflow.process.forms import FieldKind, Form

MEDIA: Mapping[str, str] = {
    "application/pdf": "PDF",
    "application/ofd": "OFD",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "DOCX",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "XLSX",
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/gif": "GIF",
    "image/webp": "WebP",
    "image/heic": "HEIC",
    "image/tiff": "TIFF",
}
"""Media type → short name of the file type."""


def format_size(size: int) -> str:
    """A size in bytes as text, e.g. `34 KB` or `1.2 MB`."""
    return f"{max(1, round(size / 1000))} KB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def describe_file(file: AttachedFile) -> dict[str, str]:
    """A file's name, type by content, and size, by language."""
    about = [*([MEDIA[file.media]] if file.media in MEDIA else []), *([format_size(file.size)] if file.size else [])]
    if not about:
        return {"zh": file.name, "en": file.name}
    return {"zh": f"{file.name}（{'，'.join(about)}）", "en": f"{file.name} ({', '.join(about)})"}


def describe_files(files: Iterable[AttachedFile]) -> dict[str, str]:
    described = [describe_file(file) for file in files]
    return {"zh": "、".join(one["zh"] for one in described), "en": ", ".join(one["en"] for one in described)}


def describe_references(value: str, files: Sequence[AttachedFile]) -> str | dict[str, str]:
    """The value of an attachment field for people: files by name, addresses unchanged."""
    by_id = {file.id: file for file in files}
    parts = value.split(",")
    if not any(part in by_id for part in parts):
        return value
    return describe_files(by_id.get(part, AttachedFile(id=part, name=part)) for part in parts)


def build_reading_fields(form: Form, filled: FilledForm) -> Iterator[CardField]:
    """Fields with the values that a model has read from a picture, and whether the form says something else. The people
    who confirm and decide check them by eye."""
    amounts = [f for f in form.fields if f.kind is FieldKind.MONEY and filled.numbers.get(f.name)]
    for file in filled.files:
        if not file.reading:
            continue
        amount = " ".join(filter(None, (file.reading.get("amount"), file.reading.get("currency"))))
        merchant, day = file.reading.get("merchant"), file.reading.get("date", "")
        read = {
            language: " · ".join(filter(None, (amount, merchant, format_day_words(day, language))))
            for language in LANGUAGES
        }
        if not any(read.values()):
            continue
        differs, found = False, file.reading.get("amount")
        # Compared only if the form has one file and one amount: several receipts may add up to one amount.
        if found and len(amounts) == len(filled.files) == 1:
            [field] = amounts
            said = filled.values.get(field.name, "")
            currency = filled.values.get(field.currency, "") if field.currency else ""
            other_currency = bool(currency and file.reading.get("currency")) and file.reading["currency"] != currency
            is_same = filled.numbers[field.name] == Decimal(said) == Decimal(found)
            differs = not is_same or other_currency
        key = "fact.read_otherwise" if differs else "fact.read_from_picture"
        yield CardField(label="read_from_picture", value=TextRef(key=key, params={"file": file.name, "read": read}))
