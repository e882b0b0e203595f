"""Writes `.env`: for its owner alone, whole or not at all, and without losing what was not asked about.

What is written means the same to this program, to `docker compose` and to systemd, which read such files by different
rules: signs that any of them reads as more than themselves are refused."""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from dotenv.parser import parse_stream
from pydantic import SecretStr, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from bot.app.settings import Settings, require_valid_settings
from bot.chat.directory_file import read_directory_file
from bot.core.errors import CountersignError, SettingsError
from bot.redis.address import parse_redis_url
from tools.mail.smtp import SmtpMailer

HEADING = "# Written by `countersign init`; env.example has every other setting."
MAX_ANSWER = 2_000
"""The longest value (characters)."""
_FORBIDDEN = frozenset("\"'\\$`")
"""Signs that at least one reader of such files takes for quoting or a reference."""
_PLAIN = re.compile(r"[\w./:@%+,=?&~-]+", re.ASCII)
"""What needs no quotes anywhere."""
_WEB_ADDRESS = re.compile(r"https?://[^\s/?#]+(?:[/?][^\s#]*)?")
_MAIL_ADDRESS = re.compile(r"[^\s@<>,;]+@[^\s@<>,;]+")


class EnvFileChangedError(CountersignError):
    """Somebody else has written the file meanwhile."""


def read_env_text(file: Path) -> str | None:
    """The whole file, or None. Raises SettingsError."""
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise SettingsError(f"{file} is not UTF-8: save it as UTF-8") from None
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}") from error


def parse_env_text(text: str) -> dict[str, str]:
    """The names and values in the text, as they stand there."""
    bindings = parse_stream(io.StringIO(text))
    return {one.key: one.value for one in bindings if one.key and one.value}


def merge_env_text(text: str, answers: Mapping[str, str]) -> str:
    """The text with these answers at its end. An empty answer removes the name; other lines stay as they are."""
    kept = "".join(one.original.string for one in parse_stream(io.StringIO(text)) if one.key not in answers)
    lines = [f"{name}={_quote_value(value)}" for name, value in answers.items() if value]
    kept = kept.replace(f"{HEADING}\n", "").rstrip("\n")
    return "\n".join([*([kept, ""] if kept else []), HEADING, *lines, ""])


def _quote_value(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else f'"{value}"'


def find_answer_problem(name: str, value: str) -> str:
    """The key of the sentence that says what is wrong with a value, or an empty text."""
    if len(value) > MAX_ANSWER or not value.isprintable() or set(value) & _FORBIDDEN:
        return "init.wrong_signs"
    return "" if not value or CHECKS.get(name, _is_one_word)(value) else f"init.wrong_{name.lower()}"


def _is_one_word(value: str) -> bool:
    return value.isascii() and " " not in value


def _begins_with(beginning: str) -> Callable[[str], bool]:
    return lambda value: value.startswith(beginning) and _is_one_word(value) and len(value) > len(beginning)


def _succeeds(attempt: Callable[[str], object]) -> Callable[[str], bool]:
    """True if the reader that uses the value takes it."""

    def can_read(value: str) -> bool:
        try:
            attempt(value)
        except (CountersignError, ValueError, KeyError, OSError):
            return False
        return True

    return can_read


CHECKS: Mapping[str, Callable[[str], bool]] = {
    "SLACK_BOT_TOKEN": _begins_with("xoxb-"),
    "SLACK_APP_TOKEN": _begins_with("xapp-"),
    "OPENAI_BASE_URL": lambda value: _WEB_ADDRESS.fullmatch(value) is not None,
    "REDIS_URL": _succeeds(parse_redis_url),
    "SMTP_URL": _succeeds(lambda value: SmtpMailer(value, "init@example.com")),
    "MAIL_FROM": lambda value: _MAIL_ADDRESS.fullmatch(value) is not None,
    "COMPANY_TIMEZONE": _succeeds(ZoneInfo),
    "DIRECTORY_FILE": _succeeds(lambda value: read_directory_file(Path(value))),
}
"""Setting → whether a value can be right. What no service is asked for: that is what `countersign doctor` does."""


def is_secret_setting(name: str) -> bool:
    """True for a setting that is never shown."""
    return SecretStr in getattr(Settings.model_fields[name.lower()].annotation, "__args__", ())


class _FileSettings(Settings):
    """Settings of a file alone, whatever the environment says."""

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *args: Any, **others: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def require_consistent_values(values: Mapping[str, str]) -> None:
    """Checks the values of a file with one another. Raises SettingsError."""
    known = {name.lower(): value for name, value in values.items() if name.lower() in Settings.model_fields}
    try:
        require_valid_settings(_FileSettings(**known))  # type: ignore[arg-type]
    except ValidationError as error:
        raise SettingsError(
            "; ".join(f"{str(one['loc'][0]).upper()}: {one['msg']}" for one in error.errors())
        ) from None


def write_env_file(file: Path, text: str, before: str | None) -> None:
    """Writes the file with mode 0600, in one step. `before`: what stood there when it was read, or None. Raises
    EnvFileChangedError if that is no longer so, and SettingsError if it cannot be written."""
    target = file.resolve()  # a link stays one
    try:
        handle, name = tempfile.mkstemp(prefix=".env.", dir=target.parent)  # mode 0600
        new = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            _put_in_place(new, target, before)
        finally:
            new.unlink(missing_ok=True)
    except OSError as error:
        raise SettingsError(f"{file} cannot be written: {error.strerror}") from error


def _put_in_place(new: Path, target: Path, before: str | None) -> None:
    if before is None:
        _make_file(new, target)
        return
    if read_env_text(target) != before:
        raise EnvFileChangedError
    if os.geteuid() == 0:  # whoever reads it as their own goes on doing so
        os.chown(new, target.stat().st_uid, target.stat().st_gid)
    new.replace(target)


def _make_file(new: Path, target: Path) -> None:
    """Fails if somebody has made one meanwhile."""
    try:
        try:
            os.link(new, target)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            os.close(os.open(target, os.O_CREAT | os.O_EXCL, 0o600))
            new.replace(target)
    except FileExistsError:
        raise EnvFileChangedError from None
