"""Loads the company's own rules from the files that the settings name: calendar, policy table, handbook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path

from bot.agent.limits import DailyBudget
from bot.agent.prices import PriceTable, parse_prices
from bot.agent.prompt import MAX_PERSONA
from bot.app.settings import Settings, load_environment
from bot.core.errors import FilesUnavailableError, SettingsError
from bot.core.redaction import MIN_SECRET_LENGTH, is_secret_name, read_url_secrets, remember_secrets
from bot.storage.file_bytes import FolderBytes
from tools.handbook.folder import Handbook, HandbookError
from tools.mcp.config import McpServer, read_servers
from tools.workflow.process.calendar import WorkCalendar, read_calendar
from tools.workflow.process.checks import check_policy
from tools.workflow.process.forms import Form
from tools.workflow.process.policy import PolicyRow, parse_policy


def load_calendar(settings: Settings) -> WorkCalendar:
    """Raises SettingsError, which names the setting or the file and the problem."""
    calendar = WorkCalendar()
    for setting, overrides in (
        ("CALENDAR_COUNTRY", ""),
        ("CALENDAR_FILE", _read_setting_file("CALENDAR_FILE", settings.calendar_file)),
    ):
        try:
            calendar = read_calendar(settings.calendar_country, overrides)
        except ValueError as wrong:
            raise SettingsError(f"{setting}: {wrong}") from wrong
    return calendar


def load_policy(settings: Settings, forms: Iterable[Form]) -> tuple[PolicyRow, ...]:
    """The rows of the policy file, checked against their forms. Raises SettingsError."""
    try:
        rows = parse_policy(_read_setting_file("POLICY_FILE", settings.policy_file))
        check_policy(rows, forms)
    except ValueError as wrong:
        raise SettingsError(f"POLICY_FILE: {wrong}") from wrong
    return rows


def build_form_numbers(settings: Settings) -> dict[str, Decimal]:
    """The settings that replace numbers in the forms."""
    return {
        "threshold": Decimal(settings.finance_threshold),
        "annual_days": Decimal(settings.annual_leave_days),
    }


def load_prices(settings: Settings) -> PriceTable:
    """The prices of tokens. Raises SettingsError for an unusable file, and for a money budget with a model without a
    price."""
    try:
        prices = (
            parse_prices(_read_setting_file("PRICES_FILE", settings.prices_file))
            if settings.prices_file
            else PriceTable()
        )
    except ValueError as wrong:
        raise SettingsError(f"PRICES_FILE: {wrong}") from wrong
    asked = (settings.openai_model, settings.openai_fallback_model) if settings.has_real_model else ()
    lacking = [name for name in asked if name and name not in prices.models]
    if settings.budget_per_day and lacking:
        raise SettingsError(f"PRICES_FILE has no price for {', '.join(lacking)}: BUDGET_PER_DAY could not be kept")
    return prices


def build_daily_budget(settings: Settings) -> DailyBudget:
    """What one person may use in a day."""
    money = Decimal(settings.budget_per_day) if settings.budget_per_day else None
    return DailyBudget(settings.budget_tokens_per_day, money)


def check_files_folder(settings: Settings) -> None:
    """Raises SettingsError if what people send cannot be kept where the settings say."""
    if settings.files_dir is not None:
        try:
            FolderBytes(settings.files_dir.absolute()).check_writable()
        except FilesUnavailableError as failed:
            raise SettingsError(str(failed)) from failed


def open_handbook(folder: Path | None) -> Handbook:
    """Reads the handbook once, so that an unusable file is reported at the start. Raises SettingsError, which names
    it."""
    handbook = Handbook(folder)
    try:
        handbook.load_snapshot()
    except HandbookError as wrong:
        raise SettingsError(f"HANDBOOK_DIR: {wrong}") from wrong
    return handbook


def load_persona(settings: Settings) -> str:
    """The tone that the company wants. Raises SettingsError."""
    text = _read_setting_file("PERSONA_FILE", settings.persona_file).strip()
    if len(text) > MAX_PERSONA:
        raise SettingsError(f"PERSONA_FILE: {len(text)} characters, at most {MAX_PERSONA}")
    return text


def load_mcp_servers(settings: Settings) -> tuple[McpServer, ...]:
    """The MCP servers that the settings name. Their file may use environment variables. Raises SettingsError."""
    try:
        servers = read_servers(_read_setting_file("MCP_FILE", settings.mcp_file), load_environment())
    except ValueError as wrong:
        raise SettingsError(f"MCP_FILE: {wrong}") from wrong
    remember_secrets(secret for server in servers for secret in list_server_secrets(server))
    return servers


def list_server_secrets(server: McpServer) -> Iterator[str]:
    """The secrets in a server's table: all headers, and every environment value that is not plainly a word, a number, a
    path or an address. Logs must be able to show the plain ones."""
    for value in server.headers.values():
        yield from (value, value.partition(" ")[2])
    for name, value in server.env.items():
        if is_secret_name(name) or not _is_plain_value(value):
            yield value
        yield from read_url_secrets(value)
    yield from read_url_secrets(server.url)
    for previous, value in zip(server.command, server.command[1:], strict=False):
        name, _, given = value.partition("=")
        if given and is_secret_name(name):
            yield given
        elif previous.startswith("-") and is_secret_name(previous):
            yield value


def _is_plain_value(value: str) -> bool:
    """True for a value that looks like no secret: a short word, a number, a version, a path or an address."""
    if value.startswith(("/", "./", "../", "~/", "http://", "https://")):
        return "@" not in value and "?" not in value
    signs = "".join(value.split()).translate(str.maketrans("", "", "._,:-"))
    return len(value) <= 40 and (signs.isalpha() or signs.isdecimal() or not signs or len(signs) < MIN_SECRET_LENGTH)


def _read_setting_file(setting: str, path: Path | None) -> str:
    """The file's text; empty without a file. Raises SettingsError."""
    try:
        return path.read_text(encoding="utf-8") if path else ""
    except OSError as error:
        raise SettingsError(f"{setting}: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise SettingsError(f"{setting}: {path} is not UTF-8") from None
