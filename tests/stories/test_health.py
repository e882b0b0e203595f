"""The reports of a process on itself: alive, ready, and metrics for Prometheus, which name nobody."""

import asyncio
import re
import socket
from collections.abc import Mapping
from dataclasses import replace

import pytest
from aiohttp import ClientSession
from prometheus_client.parser import text_string_to_metric_families
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from bot.app.build import Application
from bot.core import metrics
from bot.core.cancellation import cancel_and_wait
from bot.core.errors import SettingsError
from bot.ops.doctor import check_services
from bot.ops.health import SHARED_APP, STOPPING, HealthState, MetricsPage, ProcessReport, build_health_app
from bot.ops.processes import ProcessState, ProcessStore
from bot.platforms.http_mode import open_http_server
from bot.queue.keys import Keys
from bot.queue.lanes import LaneItem
from bot.queue.store_watch import PauseReason
from bot.queue.writes import apply_writes
from bot.redis.outages import StoreClient
from bot.storage.dead_letters import DeadLetterStore
from tests.harness.memory_bot import OUTSIDE, Bot
from tests.harness.memory_platform import DM
from tests.harness.office import LI, POSTING, ZHANG, Office, office
from tests.harness.programs import free_ports
from tests.harness.store_changes import wait_for_store

HARMLESS = re.compile(r"[0-9.e+-]+|\+Inf|[a-zA-Z_.]+|[0-9]+\.[0-9]+\.[0-9]+\S*")
NAMED_CALL = re.compile(r"[A-Z]+ [a-z]+(/(v[1-3]|chat_p2p|0|[a-z_]+|:id))+")
"""An endpoint of Feishu: with its version, with `:id` where an id was, and with 0 as the first of all departments."""
Figures = Mapping[tuple[str, ...], float]
"""Name and labels → value."""


def parse_figures(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def fetch(port: int, path: str) -> tuple[int, str]:
    async with ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


def watch_health(bot: Application) -> HealthState:
    return HealthState(stores=bot.stores, platform=bot.resources.platform, worker=bot.worker)


async def scrape(health: HealthState) -> dict[tuple[str, ...], float]:
    return parse_figures((await MetricsPage(health).render_metrics()).decode())


def count(figures: Figures, name: str, *labels: str) -> float:
    """The sum over all figures with these labels."""
    return sum(value for key, value in figures.items() if key[0] == name and {*labels} <= {*key[1:]})


@pytest.mark.parametrize(("connections", "foreign"), [(3, 1), (2, 0), (1, 0)])
async def test_connections_that_are_no_process_of_ours_are_told(
    redis: Redis, valkey: str, connections: int, foreign: int
) -> None:
    """Two installations on one Slack app get each other's presses. This installation has two processes."""
    bot = Bot(redis)
    store = ProcessStore(redis, bot.keys)
    seconds, _ = await redis.time()
    other = ProcessState(id="other", version="1", started_ms=0, at_ms=int(seconds) * 1000)
    await store.save_process(other)
    report = ProcessReport(health=watch_health(bot.app))
    bot.app.resources.platform.gate.connections = connections
    announcing = asyncio.create_task(report.announce_process())
    async with asyncio.timeout(40):
        while report.foreign is None:
            await asyncio.sleep(0.01)
    assert report.foreign == foreign
    await cancel_and_wait([announcing])
    noted = [one.more["n"] async for one in bot.journal.stream_records(kinds={"app.shared"})]
    assert noted == ([foreign] if foreign else []), "of which administrators are told (`tests/features/test_alerts.py`)"
    await store.save_process(other.model_copy(update={"foreign": foreign}))
    outside = replace(OUTSIDE, redis_url=valkey, standins=("workspace", "model", "mail"))
    findings = [one async for one in check_services(outside, "native")]
    assert [one.level for one in findings if one.text == SHARED_APP] == ["fail"] * bool(foreign)


async def test_a_day_in_figures_whose_labels_hold_no_person_no_place_and_no_text(desk: Office) -> None:
    """A request, its confirmation, its approval, a mail: each is counted once, by its outcome."""
    before = await scrape(health := watch_health(desk.bot))  # of other tests in this process, too
    request = await desk.request_leave(ZHANG, "明天起请2天年假，去看父母，审批人李四")
    card = await desk.card(desk.dm(LI), request)
    await desk.press(LI, card, "approve")
    await desk.until(lambda: f"{request} 已通过" in desk.said(desk.dm(ZHANG)))
    await desk.press(LI, card, "approve", force=True)  # once more
    await desk.says(ZHANG, "给李四发邮件：请看一下 L-0001，谢谢")
    await desk.press(ZHANG, await desk.card(desk.dm(ZHANG), "请看一下"), "send")
    await desk.until(lambda: desk.mails)
    await desk.quiet()
    after = await scrape(health)

    def grew(name: str, *labels: str) -> float:
        return count(after, f"countersign_{name}", *labels) - count(before, f"countersign_{name}", *labels)

    assert grew("accepted_item_seconds_count", "outcome=new") >= 6
    assert grew("acknowledgement_seconds_count", "kind=events_api", "outcome=acknowledged") >= 2
    assert grew("acknowledgement_seconds_count", "kind=interactive", "outcome=acknowledged") >= 4
    assert not grew("acknowledgement_seconds_count", "outcome=failed")
    assert grew("item_seconds_count", "kind=message_received", "outcome=done") == 2
    assert grew("item_wait_seconds_count", "kind=button_pressed") == 4
    assert grew("presses_total", "outcome=decided") == 3
    assert count(after, "countersign_presses_total") - count(before, "countersign_presses_total") == 4, "one refused"
    assert grew("effects_total", "outcome=done") == 3 and grew("effects_total", "tool=send_email") == 1
    assert grew("effect_seconds_count", "tool=decide_task") == 1
    assert grew("mail_seconds_count", "outcome=sent") == 1
    assert grew("run_seconds_count", "outcome=done") == 2
    assert grew("steps_total", "tool=start_process") >= 1
    assert grew("model_request_seconds_count", "model=rehearsal", "outcome=answered") >= 4
    assert grew("tokens_total", "kind=in", "model=rehearsal") > grew("tokens_total", "kind=out", "model=rehearsal") > 0
    assert grew("unpriced_tokens_total") > 0
    assert grew("redis_script_seconds_count", "outcome=ok", "script=commit") >= 6
    assert grew("chat_call_seconds_count", f"method={POSTING}", "outcome=ok") >= 4
    assert after[("countersign_store_up",)] == 1 and after[("countersign_queue_lanes",)] == 0
    assert abs(after[("countersign_clock_offset_seconds",)]) < 1
    assert after[("countersign_directory_age_seconds",)] < 600
    told = {label for key, value in after.items() if value != before.get(key) for label in key[1:]}
    assert len(told) > 20
    labels = {one.partition("=")[2] for one in told if not one.startswith("model=")}  # models are named in the settings
    ours = {one for one in labels if not (HARMLESS.fullmatch(one) or NAMED_CALL.fullmatch(one))}
    assert not {one for one in ours if one not in ("PyPy", "CPython")}, "an id or a text has digits or other signs"
    for hidden in (ZHANG, LI, request, desk.dm(ZHANG), "张三", "zhangsan", card["ts"]):
        assert not [one for one in told if hidden in one], hidden


async def test_what_could_not_be_kept_is_not_acknowledged_and_counted_so(valkey: str) -> None:
    """Redis refuses every write: Slack is not told *received*, and sends the event again."""
    async with office(valkey, ack_s=3) as empty, empty.opened() as bot:
        before = await scrape(watch_health(bot))
        await bot.stores.redis.config_set("maxmemory", "1mb")
        await empty.driver.send_message(ZHANG, empty.dm(ZHANG), "help")
        failed = ("countersign_acknowledgement_seconds_count", "kind=events_api", "outcome=failed")
        try:
            await empty.until(lambda: [one for one in empty.driver.sent_envelopes if one.get("retry_attempt")])
            assert count(await scrape(watch_health(bot)), *failed) > count(before, *failed)
            assert count(await scrape(watch_health(bot)), "countersign_redis_errors_total") > 0
        finally:
            await bot.stores.redis.config_set("maxmemory", "0")
        await empty.answer(ZHANG, "help")


async def test_ready_only_while_it_can_work(redis: Redis) -> None:
    health, port = watch_health(Bot(redis).app), free_ports()
    async with open_http_server(build_health_app(health), "127.0.0.1", port):
        assert await fetch(port, "/readyz") == (503, "not ready: starting\n")
        health.phase = ""
        assert await fetch(port, "/readyz") == (200, "ready\n")
        assert count(parse_figures((await fetch(port, "/metrics"))[1]), "countersign_ready") == 1
        health.stores.watch.reason = PauseReason.CLOCK
        assert await fetch(port, "/readyz") == (503, "not ready: clock\n")
        health.stores.watch.reason = PauseReason.NONE

        async def is_cut_off() -> bool:
            return False

        health.is_connected, health.phase = is_cut_off, STOPPING
        assert await fetch(port, "/readyz") == (503, "not ready: stopping, chat\n")

        assert (await fetch(port, "/healthz"))[0] == 200, "alive all the same: a new start would mend nothing"
        assert (await fetch(port, "/"))[0] == 404
    assert count(await scrape(health), "countersign_ready") == 0


async def test_without_redis_it_lives_is_not_ready_and_still_tells_its_figures(redis: Redis) -> None:
    away = StoreClient(host="127.0.0.1", port=1, retry=Retry(NoBackoff(), 0))
    health, port = watch_health(Bot(away).app), free_ports()
    health.phase = ""
    async with open_http_server(build_health_app(health), "127.0.0.1", port):
        assert await fetch(port, "/readyz") == (503, "not ready: redis\n")
        assert (await fetch(port, "/healthz"))[0] == 200
        status, text = await fetch(port, "/metrics")
        figures = parse_figures(text)
        assert status == 200 and figures[("countersign_store_up",)] == 0 and figures[("countersign_ready",)] == 0
        assert count(figures, "countersign_redis_errors_total", "error=ConnectionError") > 0
    await away.aclose()


async def test_what_waits_and_what_was_given_up_is_counted(redis: Redis) -> None:
    bot = Bot(redis)
    keys, health = bot.keys, watch_health(bot.app)
    health.stores.watch.offset_ms = 1500
    now_ms = int((await redis.time())[0]) * 1000
    for n in range(3):
        lane = f"lane {n}"
        partition = keys.get_partition(lane)
        await redis.zadd(keys.build_key(partition, "z"), {lane: now_ms - 1000 if n else now_ms + 60_000})
        await redis.rpush(keys.build_key(partition, "in", lane), f"{now_ms - 30_000 * n}|id|{{}}", f"{now_ms}|id2|{{}}")
    letter = DeadLetterStore(redis, keys).build_bury_writes(LaneItem("lane", "Ev1", "{}", 6, 1), "no")
    await apply_writes(redis, keys, keys.get_partition("lane"), letter)
    await redis.hset(f"{keys.prefix}:{{people}}:{DM.team}:listing", "listed_ms", str(now_ms - 60_000))
    figures = await scrape(health)
    assert figures[("countersign_queue_lanes",)] == 3 and figures[("countersign_queue_due_lanes",)] == 2
    assert figures[("countersign_queue_items",)] == 4 and 60 <= figures[("countersign_queue_oldest_seconds",)] < 90
    assert figures[("countersign_dead_letters",)] == 1
    assert figures[("countersign_clock_offset_seconds",)] == 1.5, "as the watch of clocks says"
    assert 60 <= figures[("countersign_directory_age_seconds",)] < 90


async def test_a_port_of_its_own_is_off_by_default_and_answers_in_a_process(empty: Office, redis: Redis) -> None:
    port = free_ports()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with pytest.raises(SettingsError, match="HEALTH_PORT"):
            async with open_http_server(build_health_app(watch_health(Bot(redis).app)), "127.0.0.1", port, "HEALTH"):
                pass
    async with empty.spawned(HEALTH_PORT=str(port)):
        (process,) = await wait_for_store(redis, lambda: list_ready_processes(redis))
        assert (await fetch(port, "/readyz"))[0] == 200
        assert process.version and process.model == "rehearsal" and abs(process.offset_ms or 0) < 1000
        figures = parse_figures((await fetch(port, "/metrics"))[1])
        assert count(figures, "countersign_ready") == 1 and count(figures, "countersign_info") == 1


async def list_ready_processes(redis: Redis) -> list[ProcessState]:
    now_ms = int((await redis.time())[0]) * 1000
    return [one for one in await ProcessStore(redis, Keys()).list_processes(now_ms) if not one.trouble]


async def test_control_what_raises_without_a_name_has_failed() -> None:
    def ended(outcome: str) -> float:
        return metrics.MAILS.labels(outcome=outcome)._sum.get()

    before = ended("failed")
    with pytest.raises(ZeroDivisionError), metrics.time_outcome(metrics.MAILS, outcome="sent"):
        raise ZeroDivisionError
    assert ended("failed") > before
