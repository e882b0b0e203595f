"""A remote workflow engine is named by settings; what is missing or wrong is said at the start."""

from pathlib import Path
from urllib.parse import unquote, urljoin

import pytest

from bot.app.settings import load_settings
from bot.core.errors import SettingsError
from tests.harness.corpus import corpus
from tests.harness.engines import StartEngine
from tests.harness.office import ZHANG, office
from tests.harness.programs import ran
from tests.tools.workflow.remote.company import world_of
from tests.tools.workflow.remote.proxy import LOGIN, PASSWORD

ENGINE = {"WORKFLOW_ENGINE": "flowable", "ENGINE_URL": "https://host/flowable-rest/service", "ENGINE_USER": "bot"}


def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **values: str) -> dict[str, str]:
    monkeypatch.chdir(tmp_path)
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return load_settings().list_masked_values()


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


@corpus("secret", ["h1dden-S3cret-Value", "pa%2Fss%3Fw0rd-abcdefg"])
@corpus("name", SPELLINGS)
def test_a_secret_is_masked_wherever_it_stands(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, secret: str
) -> None:
    """Known by name from `.env` too, in small letters, and as addresses spell it."""
    (tmp_path / ".env").write_text(f"my_own_token={unquote(secret)}\n", encoding="utf-8")
    values = {"OPENAI_FALLBACK_MODEL": "x", "OPENAI_API_KEY": "sk-none-none", name: SPELLINGS[name].format(secret)}
    shown = settings(monkeypatch, tmp_path, **values)
    assert secret not in str(shown) and unquote(secret) not in str(shown)
    assert "••••••" in shown[name.lower()] or shown[name.lower()] == ""


def test_where_things_are_is_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shown = settings(monkeypatch, tmp_path, REDIS_URL="redis://a:b@redis.example.com:6379,other:6380/0?cluster=1")
    assert shown["redis_url"] == "redis://••••••@redis.example.com:6379,other:6380/0?cluster=••••••"
    assert shown["slack_api_url"] == "https://slack.com/api/" and shown["openai_model"] == "gpt-6.1-terra"


@corpus(
    ("wrong", "named"),
    [
        ({"ENGINE_URL": ""}, "ENGINE_URL is missing"),
        ({"ENGINE_URL": "host:8080"}, "ENGINE_URL should begin"),
        ({"ENGINE_USER": "a:b"}, "ENGINE_USER"),
        ({"WORKFLOW_ENGINE": "zeebe"}, "WORKFLOW_ENGINE"),
        ({"ENGINE_TIMEOUT_SECONDS": "0"}, "ENGINE_TIMEOUT_SECONDS"),
    ],
)
def test_what_is_wrong_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wrong: dict[str, str], named: str
) -> None:
    with pytest.raises(SettingsError, match=named):
        settings(monkeypatch, tmp_path, **{**ENGINE, **wrong})


@pytest.mark.parametrize("kind", ["operaton", "flowable"])
async def test_an_address_with_another_path_is_told_as_such_and_never_as_a_fault_of_ours(
    valkey: str,
    start_engine: StartEngine,
    kind: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Measured before this was so: *Everything is there*, no card, and `tool.broken` with a traceback in the log."""
    wrong = urljoin(start_engine(kind), "/another-path")
    async with office(valkey) as desk, desk.opened(workflow_engine=kind, engine_url=wrong):
        answer = await desk.answer(ZHANG, "我明天起要请两天病假，肚子疼，请李四审批")
        assert "没有成功" in answer and not desk.cards(desk.dm(ZHANG))
        assert "发起申请：机器人所知的地址上没有流程引擎" in desk.said(desk.dm(ZHANG))
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
