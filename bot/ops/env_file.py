"""Writes `.env`: readable by its owner alone, completely or not at all, and without losing other lines.

The written values mean the same to this program, to `docker compose` and to systemd, which read such files by different
rules. Characters that any of them treats specially are refused."""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from zoneinfo import ZoneInfo

from dotenv.parser import parse_stream
from pydantic import SecretStr, ValidationError

from bot.app.setting_names import read_optional_text
from bot.app.settings import IsolatedSettings, Settings, list_wrong_values, require_valid_settings
from bot.core.errors import CountersignError, SettingsError
from bot.people.directory_file import read_directory_file
from bot.redis.address import parse_redis_url
from tools.mail.smtp import SmtpMailer

HEADING = "# Written by `countersign init`; env.example has every other setting."
MAX_ANSWER = 2_000
"""Length of the longest value (characters)."""
_FORBIDDEN = frozenset("\"'\\$`")
"""Characters that at least one reader of such files takes for quoting or a reference."""
_PLAIN = re.compile(r"[\w./:@%+,=?&~-]+", re.ASCII)
"""Text that needs no quotes for any reader."""
_WEB_ADDRESS = re.compile(r"https?://[^\s/?#]+(?:[/?][^\s#]*)?")
_MAIL_ADDRESS = re.compile(r"[^\s@<>,;]+@[^\s@<>,;]+")


class EnvFileChangedError(CountersignError):
    """Another program or person has changed the file meanwhile."""


def parse_env_text(text: str) -> dict[str, str]:
    """Parse the names and values in the text, unchanged."""
    bindings = parse_stream(io.StringIO(text))
    return {one.key: one.value for one in bindings if one.key and one.value}


def merge_env_text(text: str, answers: Mapping[str, str]) -> str:
    """Return the text with these answers at its end. An empty answer removes the name; other lines stay unchanged."""
    kept = "".join(one.original.string for one in parse_stream(io.StringIO(text)) if one.key not in answers)
    lines = [
        f"{name}={value}" if _PLAIN.fullmatch(value) else f'{name}="{value}"'
        for name, value in answers.items()
        if value
    ]
    kept = kept.replace(f"{HEADING}\n", "").rstrip("\n")
    return "\n".join([*([kept, ""] if kept else []), HEADING, *lines, ""])


def find_answer_problem(name: str, value: str) -> str:
    """Find the key of the sentence that says what is wrong with a value; empty for a valid one."""
    if len(value) > MAX_ANSWER or not value.isprintable() or set(value) & _FORBIDDEN:
        return "init.wrong_signs"
    return "" if not value or CHECKS.get(name, _is_one_word)(value) else f"init.wrong_{name.lower()}"


def _is_one_word(value: str) -> bool:
    return value.isascii() and " " not in value


def _begins_with(beginning: str) -> Callable[[str], bool]:
    return lambda value: value.startswith(beginning) and _is_one_word(value) and len(value) > len(beginning)


def _succeeds(attempt: Callable[[str], object]) -> Callable[[str], bool]:
    """Build a check: whether the reader that uses the value accepts it."""

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
    "FEISHU_APP_ID": _begins_with("cli_"),
    "FEISHU_DOMAIN": {"feishu", "lark"}.__contains__,
    "OPENAI_BASE_URL": lambda value: _WEB_ADDRESS.fullmatch(value) is not None,
    "REDIS_URL": _succeeds(parse_redis_url),
    "SMTP_URL": _succeeds(lambda value: SmtpMailer(value, "init@example.com")),
    "MAIL_FROM": lambda value: _MAIL_ADDRESS.fullmatch(value) is not None,
    "COMPANY_TIMEZONE": _succeeds(ZoneInfo),
    "DIRECTORY_FILE": _succeeds(lambda value: read_directory_file(Path(value))),
}
"""Setting → whether a value can be right. No service is asked; `countersign doctor` does that."""


def is_secret_setting(name: str) -> bool:
    """Whether this setting is never shown."""
    return SecretStr in getattr(Settings.model_fields[name.lower()].annotation, "__args__", ())


def require_consistent_values(values: Mapping[str, str]) -> None:
    """Check the values of a file against one another. Raises SettingsError."""
    known = {name.lower(): value for name, value in values.items() if name.lower() in Settings.model_fields}
    try:
        require_valid_settings(IsolatedSettings(**known))  # type: ignore[arg-type]
    except ValidationError as error:
        raise SettingsError("; ".join(list_wrong_values(error))) from None


def write_env_file(file: Path, text: str, before: str | None) -> None:
    """Write the file with mode 0600, in one step. `before` is the text of the file when it was read, or None. Raises
    EnvFileChangedError if the file has changed since, and SettingsError if it cannot be written."""
    target = file.resolve()  # a link stays a link
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
    if before is not None:
        if read_optional_text(target) != before:
            raise EnvFileChangedError
        if os.geteuid() == 0:  # the owner keeps reading it as their own file
            os.chown(new, target.stat().st_uid, target.stat().st_gid)
        new.replace(target)
        return
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
