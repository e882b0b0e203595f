"""Loads the company's own rules from the files that the settings name: calendar, policy table, handbook."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

from bot.agent.limits import Budget, PriceTable, parse_prices
from bot.agent.prompt import MAX_PERSONA
from bot.app.settings import Settings, name_setting, read_setting_file
from bot.core.errors import SettingsError
from tools.handbook.folder import Handbook
from tools.workflow.process.calendar import WorkCalendar, read_calendar
from tools.workflow.process.checks import check_policy
from tools.workflow.process.forms import Form
from tools.workflow.process.policy import PolicyRow, parse_policy


def load_calendar(settings: Settings) -> WorkCalendar:
    """Load the calendar. Raises SettingsError, which names the setting or the file and the problem."""
    with name_setting("CALENDAR_COUNTRY"):
        read_calendar(settings.calendar_country, "")
    with name_setting("CALENDAR_FILE"):
        return read_calendar(settings.calendar_country, read_setting_file("CALENDAR_FILE", settings.calendar_file))


def load_policy(settings: Settings, forms: Iterable[Form]) -> tuple[PolicyRow, ...]:
    """Load the rows of the policy file, checked against their forms. Raises SettingsError."""
    rows = read_policy(settings)
    with name_setting("POLICY_FILE"):
        check_policy(rows, forms)
    return rows


def read_policy(settings: Settings) -> tuple[PolicyRow, ...]:
    """Read the rows of the policy file, for all processes. Raises SettingsError."""
    with name_setting("POLICY_FILE"):
        return parse_policy(read_setting_file("POLICY_FILE", settings.policy_file))


def load_prices(settings: Settings) -> PriceTable:
    """Load the prices of tokens. Raises SettingsError for an unusable file, and for a money budget with a model without
    a price."""
    prices = PriceTable()
    if settings.prices_file:
        with name_setting("PRICES_FILE"):
            prices = parse_prices(read_setting_file("PRICES_FILE", settings.prices_file))
    asked = (settings.openai_model, settings.openai_fallback_model) if settings.has_real_model else ()
    lacking = [name for name in asked if name and name not in prices.models]
    if settings.budget_per_day and lacking:
        raise SettingsError(f"PRICES_FILE has no price for {', '.join(lacking)}: BUDGET_PER_DAY could not be kept")
    return prices


def build_daily_budget(settings: Settings) -> Budget:
    """Build one person's limit of use in a day."""
    money = Decimal(settings.budget_per_day) if settings.budget_per_day else None
    return Budget(settings.budget_tokens_per_day, money)


def open_handbook(folder: Path | None) -> Handbook:
    """Read the handbook once, so that an unusable file is reported at the start. Raises SettingsError, which names the
    file."""
    handbook = Handbook(folder)
    with name_setting("HANDBOOK_DIR"):
        handbook.load_snapshot()
    return handbook


def load_persona(settings: Settings) -> str:
    """Load the tone that the company wants. Raises SettingsError."""
    text = read_setting_file("PERSONA_FILE", settings.persona_file).strip()
    if len(text) > MAX_PERSONA:
        raise SettingsError(f"PERSONA_FILE: {len(text)} characters, at most {MAX_PERSONA}")
    return text
