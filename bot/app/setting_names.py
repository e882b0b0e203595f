"""Finds names in `.env` and the environment that look like settings but are not.

A wrong name would otherwise have no effect: the bot would start with the default, or with a stand-in for a configured
service."""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from dotenv.parser import parse_stream

from bot.core.errors import SettingsError

MIN_SIMILARITY = 0.8
"""Least similarity (by `difflib`) of two names for one to count as a misspelling of the other."""
OUR_FIRST_WORDS = frozenset(
    {
        *("SLACK", "FEISHU", "OPENAI", "REACT", "SMTP", "REDIS", "BUDGET", "PRICES", "ENGINE", "WORKFLOW", "APPROVAL"),
        *("HANDBOOK", "PERSONA", "DIRECTORY", "POLICY", "FINANCE", "LEASE", "TRACES", "FILES", "HEALTH"),
    }
)
"""First words that make any name in our own `.env` look like a setting."""
FOREIGN_NAMES = frozenset(
    {
        *("OPENAI_ORG_ID", "OPENAI_ORGANIZATION", "OPENAI_PROJECT_ID", "OPENAI_PROJECT", "OPENAI_LOG"),
        *("OPENAI_CUSTOM_HEADERS", "OPENAI_WEBHOOK_SECRET", "OPENAI_ADMIN_KEY"),
        *("SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET", "SLACK_VERIFICATION_TOKEN"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "EMBED_BIN"),
    }
)
"""Names of the OpenAI SDK, of Slack's credentials page, and of proxies: neither settings nor mistakes."""
FOREIGN_PREFIXES = (
    *("OTEL_", "AWS_", "AZURE_", "GOOGLE_", "COMPOSE_", "DOCKER_", "KUBERNETES_", "PYTHON", "PIP_", "UV_", "LC_"),
)
_NAME = re.compile(r"\s*(?:export\s+)?([^\s=:#]+)")
_REFERENCE = re.compile(r"\$\{(\w+)")


@dataclass(frozen=True, slots=True)
class EnvironmentName:
    """A name as written in a file, or empty. `line`: 0 for the environment. `is_set`: a readable value follows."""

    name: str
    line: int = 0
    is_set: bool = True


def read_env_file(file: Path) -> tuple[EnvironmentName, ...]:
    """Read every name in the file; empty without a file. Raises SettingsError for an unreadable file."""
    text = read_optional_text(file) or ""
    names: list[EnvironmentName] = []
    for binding in parse_stream(io.StringIO(text)):
        token = _NAME.match(binding.original.string)
        name = binding.key or (token[1] if token and binding.error else "")
        if name or binding.error:
            names.append(EnvironmentName(name, binding.original.line, not binding.error and binding.value is not None))
    return tuple(names)


def find_variable_references(*files: Path | None) -> frozenset[str]:
    """Find the names used as `${NAME}` in these files, which are therefore no mistakes."""
    return frozenset(name for file in files if file for name in _REFERENCE.findall(read_optional_text(file) or ""))


def find_wrong_names(
    names: Iterable[EnvironmentName], setting_names: Collection[str], used: Collection[str] = ()
) -> Iterator[str]:
    """Describe the problem of each name that looks like one of `setting_names` and is not. All programs share the
    environment, so only close misspellings count there. Values are never repeated."""
    for wrong_name in names:
        tidy = _normalize_name(wrong_name.name)
        if wrong_name.name.upper() in setting_names and wrong_name.is_set:
            continue
        near, word = _find_nearest(tidy, setting_names), tidy.partition("_")[0]
        if not wrong_name.is_set:  # a text that is no setting's name may be a secret
            name = tidy if tidy in setting_names else "NAME"
            place = f"line {wrong_name.line} of .env" if name == "NAME" else _describe_place(wrong_name)
            yield f"{place} has no value that can be read; write {name}=… on one line"
        elif wrong_name.name in used or tidy in FOREIGN_NAMES or tidy.startswith(FOREIGN_PREFIXES):
            continue
        elif near:
            yield f"{_describe_place(wrong_name)} is not a setting; did you mean {near}?"
        elif wrong_name.line and word in OUR_FIRST_WORDS:
            kin = sorted(name for name in setting_names if name.partition("_")[0] == word)
            yield f"{_describe_place(wrong_name)} is not a setting; those of this kind are {', '.join(kin)}"


def read_optional_text(file: Path) -> str | None:
    """Read the whole file; None without a file. Raises SettingsError."""
    try:
        return file.read_text(encoding="utf-8") if file.is_file() else None
    except UnicodeDecodeError:
        raise SettingsError(f"{file} is not UTF-8: save it as UTF-8") from None
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}") from error


def _describe_place(one: EnvironmentName) -> str:
    """Describe where a name is, of which at most 60 characters are shown, and none of them invisible."""
    shown = "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in one.name[:60])
    return f"{shown} in line {one.line} of .env" if one.line else f"{shown} in the environment"


def _normalize_name(name: str) -> str:
    """Convert the name to our spelling: capitals, no invisible or full-width characters, `_` for `-` and `.`."""
    plain = unicodedata.normalize("NFKC", name).partition("=")[0]
    seen = "".join(sign for sign in plain if not unicodedata.category(sign).startswith(("C", "Z")))
    return re.sub(r"[-.]", "_", seen).upper()


def _find_nearest(tidy: str, setting_names: Collection[str]) -> str:
    """Find the setting with this or nearly this name, or several that are equally near. A common first word counts in
    favour."""
    if tidy in setting_names:
        return tidy
    bare = tidy.replace("_", "")
    if same := [name for name in setting_names if name.replace("_", "") == bare]:
        return same[0]
    word = tidy.partition("_")[0]
    likeness = dict[str, float]()
    for name in setting_names:
        # A short name needs more in common: one letter of four makes another word.
        is_far = abs(len(tidy) - len(name)) > max(len(tidy), len(name)) // 3
        alike = 0.0 if is_far else SequenceMatcher(None, tidy, name, autojunk=False).ratio()
        likeness[name] = alike + 0.05 * (name.partition("_")[0] == word)
    best = max(likeness.values())
    return (
        " or ".join(sorted(name for name in setting_names if likeness[name] == best)) if best >= MIN_SIMILARITY else ""
    )
