"""A setting that is not one, wrong or missing is said, with the name that was meant; its value never is."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin

import pytest
from pydantic import SecretStr

from bot.app.company_files import load_prices
from bot.app.settings import Settings, find_misspelt_variables, load_settings, require_valid_settings
from bot.core.errors import SettingsError
from tests.harness.corpus import corpus
from tests.harness.engines import StartEngine
from tests.harness.office import ZHANG, office
from tests.harness.programs import ran
from tests.tools.workflow.remote.company import world_of
from tests.tools.workflow.remote.proxy import LOGIN, PASSWORD

SECRET = "hunter2-SECRET"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    yield tmp_path


def problems(*lines: str) -> str:
    Path(".env").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(SettingsError) as wrong:
        load_settings()
    return str(wrong.value)


MISSPELT = {
    "OPENAI_MODEL": "OPENAI_MODLE OPENAI-MODEL openai_modle OPENAI.MODEL OPENAI＿MODEL OPENAI_MODEL\u200b",
    "OPENAI_API_KEY": "OPENAI_KEY OPENAI_APIKEY",
    "OPENAI_FALLBACK_MODEL": "OPENAI_FALLBACK",
    "SLACK_APP_TOKEN or SLACK_BOT_TOKEN": "SLACK_TOKEN",
    "SLACK_BOT_TOKEN": "SLACK_BOT_TOKENS",
    "SLACK_SIGNING_SECRET": "SLACK_SIGNIN_SECRET",
    "SMTP_URL": "SMTP_HOST SMTP_ULR",
    "REDIS_URL": "REDIS REDIS_HOST REDISURL",
    "BUDGET_TOKENS_PER_DAY": "BUDGET_TOKENS",
    "BUDGET_PER_DAY": "BUDGET_DAY",
    "ENGINE_PASSWORD": "ENGINE_PASSWD",
    "WORKFLOW_ENGINE": "WORKFLOW_ENGIN",
    "APPROVAL_TTL_HOURS": "APPROVAL_TTL",
    "DATA_DIR": "DATADIR",
    "LOG_LEVEL": "LOGLEVEL LOG_LEVELS",
    "STEPS": "STEP",
    "MCP_FILE": "MCP_FILES",
    "MAIL_FROM": "MAIL_FORM",
    "COMPANY_TIMEZONE": "COMPANY_TIME_ZONE",
    "HANDBOOK_DIR": "HANDBOOK",
    "POLICY_FILE": "POLICY",
}


@corpus(("name", "meant"), *((name, meant) for meant, names in MISSPELT.items() for name in names.split()))
def test_what_looks_like_a_setting_is_refused_with_the_nearest_name(name: str, meant: str) -> None:
    told = problems("# a comment", f"{name}={SECRET}")
    assert meant in told and "line 2 of .env" in told and "is not a setting" in told
    assert SECRET not in told and told.isprintable()


def test_all_of_them_are_told_at_once_with_what_is_wrong_with_values() -> None:
    told = problems(f"OPENAI_MODLE={SECRET}", "STEPS=dance", "SLACK_BOT_TOKN=x", "LOCAL_PORT=99999")
    words = ("OPENAI_MODEL?", "SLACK_BOT_TOKEN?", "STEPS should be 'plan', 'replies' or 'quiet'", "LOCAL_PORT")
    assert [one for one in words if one not in told] == []
    assert SECRET not in told


OTHERS = [
    *("PATH", "HOME", "LANG", "TZ", "MAIL", "LOGNAME", "HISTFILE", "TERM_PROGRAM", "PYTHONPATH", "SSL_CERT_FILE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "AWS_REGION", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN"),
    *("OTEL_RESOURCE_ATTRIBUTES", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_COMPRESSION"),
    *("COMPOSE_PROJECT_NAME", "COMPOSE_FILE", "POSTGRES_PASSWORD", "DATABASE_URL", "RUN_AS_USER", "VERSION"),
    *("OPENAI_ORG_ID", "OPENAI_LOG", "SLACK_CLIENT_SECRET"),
    *("DEBUG", "PORT", "HOST", "TIMEZONE", "MODEL", "API_KEY"),
]


@corpus("name", *OTHERS)
def test_what_is_somebody_elses_is_left_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".env").write_text(f"{name}=1\n")
    assert load_settings().openai_model == "gpt-6.1-terra"
    monkeypatch.setenv(name, "1")
    assert not [one for one in find_misspelt_variables() if one.startswith(f"{name} ")]


def test_every_setting_is_known_in_any_case_and_every_example_is_a_setting() -> None:
    """The control of the whole: nothing that is right is refused."""
    example = (Path(__file__).parents[2] / "deploy" / "env.example").read_text(encoding="utf-8")
    names = [line[1:].partition("=")[0] for line in example.splitlines() if line[:1] == "#" and line[1:2].isupper()]
    names = [name for name in names if name.replace("_", "").isalnum() and name.isupper()]
    assert {one.upper() for one in Settings.model_fields} <= set(names)
    Path(".env").write_text("".join(f"{name}=\n" for name in (*names, "openai_model")))
    assert load_settings() == Settings(_env_file=None)  # type: ignore[call-arg]
    Path(".env").write_text("export OPENAI_MODEL = 'other'  # this one\n")
    assert load_settings().openai_model == "other"


def test_names_that_files_refer_to_are_somebodys(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mcp.toml").write_text(
        '[servers.chat]\ncommand = ["x"]\n[servers.chat.environment]\nTEAM = "${SLACK_TEAM_ID}"\n'
    )
    fine = ("MCP_FILE=mcp.toml", "SLACK_TEAM_ID=T1", "REDIS_PASSWORD=x", "REDIS_URL=redis://:${REDIS_PASSWORD}@host")
    Path(".env").write_text("\n".join(fine))
    assert load_settings().redis_url == "redis://:x@host"
    assert "SLACK_TEAM_ID" in problems(*fine[1:]), "the control: without the file it is nobody's"
    assert "REDIS_PASSWORD" in problems("REDIS_PASSWORD=x")


@corpus("line", "OPENAI_MODEL", "OPENAI_MODEL : gpt", "OPENAI_MODEL gpt", 'OPENAI_MODEL="gpt')
def test_a_line_that_sets_nothing_is_told(line: str) -> None:
    told = problems(line, "STEPS=plan")
    assert "OPENAI_MODEL in line 1 of .env has no value that can be read; write OPENAI_MODEL=…" in told


@corpus("line", SECRET, f"export {SECRET}", f"= {SECRET}", f"two words {SECRET}", "HTTP_PROXY")
def test_a_line_without_an_equals_sign_is_refused_and_not_repeated(line: str) -> None:
    told = problems("# a comment", "", "VERSION=", line, "STEPS=plan")
    assert told == "line 4 of .env has no value that can be read; write NAME=… on one line"


def test_a_file_that_is_no_text_is_told() -> None:
    Path(".env").write_bytes("OPENAI_MODEL=x\n".encode("utf-16"))
    with pytest.raises(SettingsError, match=r"\.env is not UTF-8"):
        load_settings()
    Path(".env").write_bytes("OPENAI_MODEL=x\n".encode("utf-8-sig"))
    assert load_settings().openai_model == "x", "the byte order mark of Windows is no letter of the name"


def test_the_environment_is_everybodys_so_there_it_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_MODLE", SECRET)
    monkeypatch.setenv("REDIS_SERVICE_HOST", "10.0.0.1")
    assert load_settings().openai_model == "gpt-6.1-terra"
    assert find_misspelt_variables() == (
        "OPENAI_MODLE in the environment is not a setting; did you mean OPENAI_MODEL?",
    )


async def test_the_start_and_doctor_say_it(folder: Path) -> None:
    (folder / ".env").write_text(f"OPENAI_MODLE={SECRET}\n")
    env = {"DATA_DIR": str(folder / "data")}
    for end in await asyncio.gather(*(ran(one, cwd=folder, env=env) for one in ("run", "doctor", "tail"))):
        assert end.code == 1 and "did you mean OPENAI_MODEL?" in end.err and SECRET not in end.all, end
        assert len(end.err.splitlines()) == 1
    assert not (folder / "data").exists()
    (folder / ".env").unlink()
    warned = await ran("doctor", cwd=folder, env=env | {"OPENAI_MODLE": SECRET})
    assert warned.code == 0 and "warn settings: OPENAI_MODLE in the environment" in warned.out
    assert SECRET not in warned.all


# What a wrong value is answered with


def typed() -> Iterator[str]:
    """Each setting that takes less than any text."""
    for name, field in Settings.model_fields.items():
        if field.annotation in (str, SecretStr | None, Path, Path | None):
            continue
        yield name.upper()


@corpus("name", *typed())
def test_a_wrong_value_is_told_with_what_it_should_be_and_not_repeated(name: str) -> None:
    told = problems(f"{name}={SECRET}")
    assert told.startswith(f"{name} should be ") and SECRET not in told
    assert not any(word in told for word in ("Input", "pattern", "pars")), told


def test_a_wrong_value_is_told_in_words() -> None:
    told = problems("MORNING_LIST=8:30", "ALLOW_NON_DURABLE=perhaps", "HTTP_PORT=x", "RUNS_DAYS=0", "LEASE_SECONDS=inf")
    kinds = ("a time like 08:30", "true or false", "a valid integer", "greater than or equal to 1", "a finite number")
    assert [one for one in kinds if f" should be {one}" not in told] == []


ADDRESSES = [
    *("REDIS_URL", "SMTP_URL", "SLACK_API_URL", "OPENAI_BASE_URL", "OPENAI_FALLBACK_BASE_URL", "ENGINE_URL"),
    *("FILES_BUCKET", "FILES_BUCKET_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
]
TEXTS = {
    "FINANCE_THRESHOLD": "1000.50",
    "ANNUAL_LEAVE_DAYS": "12.5",
    "MAIL_FROM": "countersign@example.com",
    "BUDGET_PER_DAY": "0.50",
    "COMPANY_TIMEZONE": "Asia/Shanghai",
}


@corpus("name", *ADDRESSES, *TEXTS)
def test_a_wrong_text_is_told_with_an_example_and_not_repeated(name: str) -> None:
    told = problems(f"{name}={SECRET}")
    assert name in told and SECRET not in told
    assert TEXTS.get(name, "://") in told


@corpus("name", *(one for one in ADDRESSES if one not in ("FILES_BUCKET", "REDIS_URL")))
def test_a_password_that_is_no_part_of_an_address_is_not_shown_by_any_parser(name: str) -> None:
    scheme = "smtp" if name == "SMTP_URL" else "https"
    for password in ("s3cr/et#x", "7/s3cret", "s3cr?et", "s3[cret", "s3cret#"):
        told = problems(f"{name}={scheme}://bot:{password}@127.0.0.1:25")
        assert name in told and "s3" not in told and "%2F" in told and "%23" in told, told
    address = f"{name}={scheme}://bot:s3cr%2Fet%23x@127.0.0.1:25"
    Path(".env").write_text("\n".join((address, *SECOND_MODEL)))
    assert load_settings().openai_model, "it is taken as it should be written"


SECOND_MODEL = ("OPENAI_API_KEY=k", "OPENAI_FALLBACK_MODEL=m", "OPENAI_FALLBACK_API_KEY=k")


@corpus("quote", "'", '"')
def test_quotes_that_came_along_with_a_value_are_taken_off(monkeypatch: pytest.MonkeyPatch, quote: str) -> None:
    for name, value in {"OPENAI_API_KEY": "sk-x", "OPENAI_MODEL": "m", "MAX_STEPS": "7"}.items():
        monkeypatch.setenv(name, f"{quote}{value}{quote}")
    found = load_settings()
    assert found.openai_api_key is not None and found.openai_api_key.get_secret_value() == "sk-x"
    assert (found.openai_model, found.max_steps) == ("m", 7)


@corpus("sender", "bot@", "@example.com", "Bot <bot@>", "bot@a..b", "张三@example.com", "Bot")
def test_a_sender_that_is_no_address_is_refused_at_the_start(sender: str) -> None:
    told = problems(f"MAIL_FROM='{sender}'")
    assert told == "MAIL_FROM should be an e-mail address, like countersign@example.com"
    for fine in ("bot@example.com", "Countersign <bot@example.com>", "报销 <bot@公司.cn>"):
        Path(".env").write_text(f"MAIL_FROM='{fine}'", encoding="utf-8")
        assert load_settings().mail_from == fine


KEYS = ("FILES_BUCKET_ACCESS_KEY=key", f"FILES_BUCKET_SECRET_KEY={SECRET}")


def test_a_bucket_is_named_whole_and_alone() -> None:
    for address in ("s3://b", "s3://Bucket", "s3://bucket/../other?x=1", "https://bucket", "s3://bucket/pre fix"):
        assert "FILES_BUCKET should be an address like s3://bucket/prefix" in problems(f'FILES_BUCKET="{address}"')
    assert "set one of them" in problems("FILES_BUCKET=s3://bucket", "FILES_DIR=files")
    for one in KEYS:
        told = problems("FILES_BUCKET=s3://bucket", one)
        assert "set both, or neither" in told and SECRET not in told
    Path(".env").write_text("\n".join(("FILES_BUCKET=s3://bucket.of-ours/a/b_c", *KEYS)))
    settings = load_settings()
    assert settings.files_bucket == "s3://bucket.of-ours/a/b_c" and SECRET not in str(settings.list_masked_values())


# Models, prices and budgets by settings; what is missing or wrong is said at the start


TABLE = 'currency = "USD"\n[models."gpt-6.1-terra"]\ninput = 0.25\noutput = 2\n'
FIRST = {"OPENAI_API_KEY": "sk-first-secret"}
SECOND = {**FIRST, "OPENAI_FALLBACK_MODEL": "other", "OPENAI_FALLBACK_API_KEY": "sk-second-secret"}


ENGINE = {"WORKFLOW_ENGINE": "flowable", "ENGINE_URL": "https://host/flowable-rest/service", "ENGINE_USER": "bot"}


def settings(monkeypatch: pytest.MonkeyPatch, values: dict[str, str]) -> Settings:
    Path("prices.toml").write_text(TABLE, encoding="utf-8")
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return load_settings()


def test_no_key_is_ever_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    given = SECOND | {"OPENAI_FALLBACK_BASE_URL": "https://me:s3cret@two.example/v1"}
    shown = settings(monkeypatch, given).list_masked_values()
    assert shown["openai_fallback_api_key"]
    assert not [one for one in ("t-secret", "d-secret", "s3cret") if one in str(shown)]


@corpus(
    ("wrong", "named"),
    (ENGINE | {"ENGINE_URL": ""}, "ENGINE_URL is missing"),
    (ENGINE | {"ENGINE_URL": "host:8080"}, "ENGINE_URL should begin"),
    (ENGINE | {"ENGINE_USER": "a:b"}, "ENGINE_USER"),
    (ENGINE | {"WORKFLOW_ENGINE": "zeebe"}, "WORKFLOW_ENGINE"),
    (ENGINE | {"ENGINE_TIMEOUT_SECONDS": "0"}, "ENGINE_TIMEOUT_SECONDS"),
    *(({"ANNUAL_LEAVE_DAYS": days}, "ANNUAL_LEAVE_DAYS") for days in ("lots", "-1", "NaN", "1.3", "Infinity")),
    ({"OPENAI_RETRIES": "-1"}, "OPENAI_RETRIES"),
    ({"SLACK_BOT_TOKEN": "xoxe.xoxb-1-abc", "SLACK_APP_TOKEN": "xapp-1-A-2-b"}, "SLACK_BOT_TOKEN rotates"),
    ({"SLACK_BOT_TOKEN": "xoxe-1-abc", "SLACK_APP_TOKEN": "xapp-1-A-2-b"}, "SLACK_BOT_TOKEN rotates"),
    ({"OPENAI_FALLBACK_MODEL": "other"}, "there is no first model"),
    ({**FIRST, "OPENAI_FALLBACK_API_KEY": "k"}, "OPENAI_FALLBACK_API_KEY is set but OPENAI_FALLBACK_MODEL is not"),
    ({**FIRST, "OPENAI_FALLBACK_BASE_URL": "https://h"}, "OPENAI_FALLBACK_BASE_URL is set but"),
    ({**SECOND, "OPENAI_FALLBACK_BASE_URL": "h:8080"}, "OPENAI_FALLBACK_BASE_URL should begin"),
    ({"BUDGET_TOKENS_PER_DAY": "-5"}, "BUDGET_TOKENS_PER_DAY"),
    ({"BUDGET_PER_DAY": "five", "PRICES_FILE": "prices.toml"}, "BUDGET_PER_DAY should be an amount"),
    ({"BUDGET_PER_DAY": "5"}, "PRICES_FILE is missing"),
    ({"COMPANY_TIMEZONE": "Atlantis"}, "COMPANY_TIMEZONE"),
    ({"COMPANY_TIMEZONE": "../../etc/passwd"}, "COMPANY_TIMEZONE"),
)
def test_what_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        settings(monkeypatch, wrong)


def test_a_budget_that_a_model_without_a_price_would_not_keep_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = settings(monkeypatch, SECOND | {"PRICES_FILE": "prices.toml", "BUDGET_PER_DAY": "5"})
    with pytest.raises(SettingsError, match="no price for other"):
        load_prices(found)
    monkeypatch.delenv("BUDGET_PER_DAY")
    assert load_prices(load_settings()).models, "without one it is only not known what it costs"


@corpus(("text", "named"), ("currency =", "PRICES_FILE"), ("currency = 'USD'", "PRICES_FILE: models"))
def test_a_table_that_cannot_be_used_is_refused(monkeypatch: pytest.MonkeyPatch, text: str, named: str) -> None:
    found = settings(monkeypatch, {"PRICES_FILE": "prices.toml"})
    Path("prices.toml").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=named):
        load_prices(found)
    Path("prices.toml").unlink()
    with pytest.raises(SettingsError, match="cannot be read"):
        load_prices(found)


# Secrets and the workflow engine


SPELLINGS = {
    "REDIS_URL": "redis://bot:{}@redis.example.com:6379/0",
    "OPENAI_BASE_URL": "https://models.example.com/v1?api_key={}",
    "SLACK_API_URL": "https://me:{}@slack.example.com/api/?x=y",
    "OPENAI_FALLBACK_BASE_URL": "https://models.example.com/#token={}",
    "ENGINE_URL": "https://host/{}/engine-rest",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "https://collect.example.com/?Sig={}&plain",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://{}@collect.example.com/v1",
    "OPENAI_MODEL": "model-{}",
}


@corpus("secret", "h1dden-S3cret-Value", "pa%2Fss%3Fw0rd-abcdefg")
@corpus("name", *SPELLINGS)
def test_a_secret_is_masked_wherever_it_stands(monkeypatch: pytest.MonkeyPatch, name: str, secret: str) -> None:
    """Known by name from `.env` too, in small letters, and as addresses spell it."""
    Path(".env").write_text(f"my_own_token={unquote(secret)}\n", encoding="utf-8")
    values = {"OPENAI_FALLBACK_MODEL": "x", "OPENAI_API_KEY": "sk-none-none", name: SPELLINGS[name].format(secret)}
    shown = settings(monkeypatch, values).list_masked_values()
    assert secret not in str(shown) and unquote(secret) not in str(shown)
    assert "••••••" in shown[name.lower()] or shown[name.lower()] == ""


def test_where_things_are_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"REDIS_URL": "redis://a:b@redis.example.com:6379,other:6380/0?cluster=1"}
    shown = settings(monkeypatch, given).list_masked_values()
    assert shown["redis_url"] == "redis://••••••@redis.example.com:6379,other:6380/0?cluster=••••••"
    assert shown["slack_api_url"] == "https://slack.com/api/" and shown["openai_model"] == "gpt-6.1-terra"


@pytest.mark.parametrize("kind", ["operaton", pytest.param("flowable", marks=pytest.mark.slow)])
async def test_an_address_with_another_path_is_told_as_such_and_never_as_a_fault_of_ours(
    valkey: str, start_engine: StartEngine, kind: str, capsys: pytest.CaptureFixture[str], caplog: Any
) -> None:
    """Measured before this was so: *Everything is there*, no card, and `tool.broken` with a traceback in the log."""
    wrong = urljoin(start_engine(kind), "/another-path")
    async with office(valkey) as desk, desk.opened(workflow_engine=kind, engine_url=wrong):
        answer = await desk.answer(ZHANG, "我明天起要请两天病假，肚子疼，请李四审批")
        assert "没有成功" in answer and not desk.cards(desk.dm(ZHANG))
        assert "发起申请：按设置的地址找不到流程引擎" in desk.said(desk.dm(ZHANG))
    logged = capsys.readouterr().out + caplog.text
    assert "tool.broken" not in logged and "Traceback" not in logged
    assert "something answers, but not this engine: check the path of ENGINE_URL" in logged, "at the start"
    assert logged.count("changes in the workflow engine: the address answers, but no workflow engine is there") == 1


async def test_the_doctor_says_what_an_engine_lacks(valkey: str, start_engine: StartEngine, tmp_path: Path) -> None:
    """Measured before this was so: all was well while the engine could not be reached."""
    async with world_of("operaton", start_engine("operaton")) as world:
        env = {"REDIS_URL": valkey, "WORKFLOW_ENGINE": "operaton", "ENGINE_USER": LOGIN, "ENGINE_PASSWORD": PASSWORD}
        found = await ran("doctor", cwd=tmp_path, env={**env, "ENGINE_URL": world.url})
        assert "ok   engine: Operaton 1.0.3 answers and takes the login" in found.out, found
        assert "ok   engine: leave is deployed, and means what ours means" in found.out
        await world.empty()
        bare = await ran("doctor", cwd=tmp_path, env={**env, "ENGINE_URL": world.url})
        assert bare.code == 1 and "deployed to the engine: countersign processes deploy leave" in bare.out, bare
    away = await ran("doctor", cwd=tmp_path, env={**env, "ENGINE_URL": "http://127.0.0.1:1/engine-rest"})
    assert away.code == 1 and "FAIL engine: Operaton: it cannot be reached" in away.out and not away.err, away


# The platform


APP = {"feishu_app_id": "cli_a1b2c3", "feishu_app_secret": "s3cr3t-of-the-app"}
SLACK = {"slack_bot_token": "xoxb-1", "slack_app_token": "xapp-1"}

REFUSED = [
    (APP | SLACK, "SLACK_BOT_TOKEN and FEISHU_APP_ID are both set"),
    ({"feishu_app_id": "cli_a1b2c3"}, "FEISHU_APP_SECRET is missing"),
    ({"feishu_app_secret": "s3cr3t-of-the-app"}, "FEISHU_APP_SECRET is set but FEISHU_APP_ID is not"),
    (APP | {"feishu_app_id": "ou_1"}, "should begin with cli_"),
    (APP | {"feishu_mode": "http"}, "FEISHU_ENCRYPT_KEY is missing"),
    (APP | {"feishu_api_url": "open.feishu.cn"}, "FEISHU_API_URL should begin with"),
]


def build_settings(values: dict[str, Any]) -> Settings:
    return Settings(_env_file=None, **values)  # type: ignore[call-arg]


@corpus(("values", "word"), *REFUSED)
def test_half_of_the_settings_says_what_is_missing(values: dict[str, str], word: str) -> None:
    with pytest.raises(SettingsError, match=word) as told:
        require_valid_settings(build_settings(values))
    assert "s3cr3t" not in str(told.value)


@corpus("values", {}, APP, SLACK, APP | {"feishu_mode": "http", "feishu_encrypt_key": "k" * 20})
def test_negative_control_whole_settings_are_taken(values: dict[str, str]) -> None:
    settings = build_settings(values)
    require_valid_settings(settings)
    assert settings.has_real_workspace == bool(values)
    assert settings.has_real_feishu == ("feishu_app_id" in values)


STARTED = """
import json, sys
from bot.app.build import choose_platform
from bot.app.services import FeishuApp, ModelEndpoint, Services
import bot.ops.cli.run

named = dict(redis_url="", slack_api_url="", bot_token="", model=ModelEndpoint(url="", key="", name=""), smtp_url="")
feishu = FeishuApp(url="", app_id="cli_1", secret="") if sys.argv[1] == "feishu" else None
choose_platform(Services(**named, feishu=feishu))
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize("platform", ["slack", "feishu"])
def test_a_start_imports_the_platform_in_use_alone(platform: str) -> None:
    done = subprocess.run([sys.executable, "-c", STARTED, platform], capture_output=True, text=True, check=True)
    modules = json.loads(done.stdout)
    other = {"slack": ("bot.platforms.feishu",), "feishu": ("bot.platforms.slack", "slack_bolt", "slack_sdk")}[platform]
    assert f"bot.app.{platform}_platform" in modules
    assert not [one for one in modules if one.startswith((*other, "lark_"))]
