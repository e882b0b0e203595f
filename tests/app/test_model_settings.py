"""Models, prices and budgets by settings; what is missing or wrong is said at the start."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from bot.agent.limits import DailyBudget
from bot.app.company_files import build_daily_budget, load_prices
from bot.app.settings import Settings, load_settings
from bot.core.errors import SettingsError

TABLE = 'currency = "USD"\n[models."gpt-6.1-terra"]\ninput = 0.25\noutput = 2\n'
FIRST = {"OPENAI_API_KEY": "sk-first-secret"}
SECOND = {**FIRST, "OPENAI_FALLBACK_MODEL": "other", "OPENAI_FALLBACK_API_KEY": "sk-second-secret"}


def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **values: str) -> Settings:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prices.toml").write_text(TABLE, encoding="utf-8")
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return load_settings()


def test_unless_said_otherwise_nothing_is_limited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = settings(monkeypatch, tmp_path)
    assert not build_daily_budget(found) and not load_prices(found).models and found.openai_retries == 1


def test_what_is_said_holds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = {"PRICES_FILE": "prices.toml", "BUDGET_PER_DAY": "0.50", "BUDGET_TOKENS_PER_DAY": "9000"}
    found = settings(monkeypatch, tmp_path, **FIRST, **given)
    assert build_daily_budget(found) == DailyBudget(9000, Decimal("0.50")) and load_prices(found).currency == "USD"


def test_a_budget_of_nothing_is_a_budget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = {"PRICES_FILE": "prices.toml", "BUDGET_PER_DAY": "0"}
    assert build_daily_budget(settings(monkeypatch, tmp_path, **FIRST, **given)) == DailyBudget(None, Decimal(0))


def test_no_key_is_ever_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shown = settings(
        monkeypatch, tmp_path, **SECOND, OPENAI_FALLBACK_BASE_URL="https://me:s3cret@two.example/v1"
    ).list_masked_values()
    assert shown["openai_fallback_api_key"] and not [
        one for one in ("t-secret", "d-secret", "s3cret") if one in str(shown)
    ]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"OPENAI_RETRIES": "-1"}, "OPENAI_RETRIES"),
        ({"OPENAI_FALLBACK_MODEL": "other"}, "there is no first model"),
        ({**FIRST, "OPENAI_FALLBACK_API_KEY": "k"}, "OPENAI_FALLBACK_API_KEY is set but OPENAI_FALLBACK_MODEL is not"),
        ({**FIRST, "OPENAI_FALLBACK_BASE_URL": "https://h"}, "OPENAI_FALLBACK_BASE_URL is set but"),
        ({**SECOND, "OPENAI_FALLBACK_BASE_URL": "h:8080"}, "OPENAI_FALLBACK_BASE_URL should begin"),
        ({"BUDGET_TOKENS_PER_DAY": "-5"}, "BUDGET_TOKENS_PER_DAY"),
        ({"BUDGET_PER_DAY": "five", "PRICES_FILE": "prices.toml"}, "BUDGET_PER_DAY should be an amount"),
        ({"BUDGET_PER_DAY": "5"}, "PRICES_FILE is missing"),
        ({"COMPANY_TIMEZONE": "Atlantis"}, "COMPANY_TIMEZONE"),
        ({"COMPANY_TIMEZONE": "../../etc/passwd"}, "COMPANY_TIMEZONE"),
    ],
)
def test_what_is_wrong_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wrong: dict[str, str], named: str
) -> None:
    with pytest.raises(SettingsError, match=named):
        settings(monkeypatch, tmp_path, **wrong)


def test_a_budget_that_a_model_without_a_price_would_not_keep_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = {"PRICES_FILE": "prices.toml", "BUDGET_PER_DAY": "5"}
    found = settings(monkeypatch, tmp_path, **SECOND, **given)
    with pytest.raises(SettingsError, match="no price for other"):
        load_prices(found)
    monkeypatch.delenv("BUDGET_PER_DAY")
    assert load_prices(load_settings()).models, "without one it is only not known what it costs"


@pytest.mark.parametrize(
    ("text", "named"), [("currency =", "PRICES_FILE"), ("currency = 'USD'", "PRICES_FILE: models")]
)
def test_a_table_that_cannot_be_used_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, named: str
) -> None:
    found = settings(monkeypatch, tmp_path, PRICES_FILE="prices.toml")
    (tmp_path / "prices.toml").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=named):
        load_prices(found)
    (tmp_path / "prices.toml").unlink()
    with pytest.raises(SettingsError, match="cannot be read"):
        load_prices(found)
