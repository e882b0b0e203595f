"""The company's own rules, from the files that the settings name: its calendar, policy table and handbook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path

from bot.errors import SettingsWrong
from bot.react.guards import Budget
from bot.react.prices import Prices, read_prices
from bot.react.prompt import PERSONA
from bot.redaction import SHORTEST, is_secret_name, read_secrets, remember_secrets
from bot.settings import Settings, environment
from tools.library.folder import Handbook, HandbookWrong
from tools.servers.config import Server, read_servers
from tools.workflow.calendar import Calendar, read_calendar
from tools.workflow.checks import check_policy
from tools.workflow.forms import Form
from tools.workflow.policy import Row, read_policy


def calendar_of(settings: Settings) -> Calendar:
    """Raises SettingsWrong naming the setting or the file and what is wrong with it."""
    calendar = Calendar()
    for setting, overrides in (
        ("CALENDAR_COUNTRY", ""),
        ("CALENDAR_FILE", _text("CALENDAR_FILE", settings.calendar_file)),
    ):
        try:
            calendar = read_calendar(settings.calendar_country, overrides)
        except ValueError as wrong:
            raise SettingsWrong(f"{setting}: {wrong}") from wrong
    return calendar


def policy_of(settings: Settings, forms: Iterable[Form]) -> tuple[Row, ...]:
    """The rows of the policy file, checked against the forms they are about. Raises SettingsWrong."""
    try:
        rows = read_policy(_text("POLICY_FILE", settings.policy_file))
        check_policy(rows, forms)
    except ValueError as wrong:
        raise SettingsWrong(f"POLICY_FILE: {wrong}") from wrong
    return rows


def numbers_of(settings: Settings) -> dict[str, Decimal]:
    """What replaces the forms' own numbers."""
    return {
        "threshold": Decimal(settings.finance_threshold),
        "annual_days": Decimal(settings.annual_leave_days),
    }


def prices_of(settings: Settings) -> Prices:
    """What tokens cost. Raises SettingsWrong for a file that cannot be used, and for a budget of money that a model
    without a price would not keep."""
    try:
        prices = read_prices(_text("PRICES_FILE", settings.prices_file)) if settings.prices_file else Prices()
    except ValueError as wrong:
        raise SettingsWrong(f"PRICES_FILE: {wrong}") from wrong
    asked = (settings.openai_model, settings.openai_fallback_model) if settings.real_model else ()
    lacking = [name for name in asked if name and name not in prices.models]
    if settings.budget_per_day and lacking:
        raise SettingsWrong(f"PRICES_FILE has no price for {', '.join(lacking)}: BUDGET_PER_DAY could not be kept")
    return prices


def budget_of(settings: Settings) -> Budget:
    """What one person may use in a day."""
    money = Decimal(settings.budget_per_day) if settings.budget_per_day else None
    return Budget(settings.budget_tokens_per_day, money)


def handbook_of(folder: Path | None) -> Handbook:
    """Read once here, so that a file that cannot be used is known at the start. Raises SettingsWrong naming it."""
    handbook = Handbook(folder)
    try:
        handbook.open()
    except HandbookWrong as wrong:
        raise SettingsWrong(f"HANDBOOK_DIR: {wrong}") from wrong
    return handbook


def persona_of(settings: Settings) -> str:
    """The tone that the company wishes. Raises SettingsWrong."""
    text = _text("PERSONA_FILE", settings.persona_file).strip()
    if len(text) > PERSONA:
        raise SettingsWrong(f"PERSONA_FILE: {len(text)} characters, at most {PERSONA}")
    return text


def servers_of(settings: Settings) -> tuple[Server, ...]:
    """The MCP servers that the settings name; their file may refer to the environment. Raises SettingsWrong."""
    try:
        servers = read_servers(_text("MCP_FILE", settings.mcp_file), environment())
    except ValueError as wrong:
        raise SettingsWrong(f"MCP_FILE: {wrong}") from wrong
    remember_secrets(secret for server in servers for secret in secrets_of(server))
    return servers


def secrets_of(server: Server) -> Iterator[str]:
    """What of a server's table is secret: what is sent in headers, and of its environment whatever is not plainly a
    word, a number, a path or an address, which logs have to be able to say."""
    for value in server.headers.values():
        yield from (value, value.partition(" ")[2])
    for name, value in server.env.items():
        if is_secret_name(name) or not _is_plain(value):
            yield value
        yield from read_secrets(value)
    yield from read_secrets(server.url)
    for before, value in zip(server.command, server.command[1:], strict=False):
        name, _, given = value.partition("=")
        if given and is_secret_name(name):
            yield given
        elif before.startswith("-") and is_secret_name(before):
            yield value


def _is_plain(value: str) -> bool:
    """True for what is no secret by its looks: short words, numbers, versions, paths and addresses."""
    if value.startswith(("/", "./", "../", "~/", "http://", "https://")):
        return "@" not in value and "?" not in value
    signs = "".join(value.split()).translate(str.maketrans("", "", "._,:-"))
    return len(value) <= 40 and (signs.isalpha() or signs.isdecimal() or not signs or len(signs) < SHORTEST)


def _text(setting: str, path: Path | None) -> str:
    """Nothing without a file. Raises SettingsWrong."""
    try:
        return path.read_text(encoding="utf-8") if path else ""
    except OSError as error:
        raise SettingsWrong(f"{setting}: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise SettingsWrong(f"{setting}: {path} is not UTF-8") from None
