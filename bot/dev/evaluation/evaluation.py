"""Plays many scenarios, several at a time, each in its own database."""

from __future__ import annotations

import asyncio
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bot.agent.model import Model
from bot.app.services import ModelEndpoint
from bot.dev.evaluation.adversary import AdversaryModel, build_intrusion
from bot.dev.evaluation.recording import ExchangeRecorder, Recording, ReplayModel
from bot.dev.evaluation.results import ModelEffort, ReplayComparison, Trial
from bot.dev.evaluation.runner import ScenarioRunner, measure_effort
from bot.dev.evaluation.scenario import Scenario, Style
from bot.dev.evaluation.scripted_models import ModelExchange, ScenarioScriptModel
from bot.dev.evaluation.slips import SlippingModel
from bot.redis.embedded import EmbeddedRedis

AT_ONCE = 4
"""Number of scenarios played at a time. Each has a database of the embedded server, which has 16."""
QUICK_S, SLOW_S = 20.0, 400.0
"""Seconds that the bot may take after each act: with a model on this machine, and with a real one."""


TrialJob = tuple[Scenario, int]
"""One scenario, to be played once, and the seed."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An evaluation: scenarios, and the model that plays them.

    The model is `scripted` (the scenarios' own scripts, or the rehearsal for a scenario without one), `slips` (the
    scripts with slips), `rehearsal`, `hostile`, or an endpoint's. With a `recording`, its replies are given instead."""

    scenarios: Sequence[Scenario]
    model: str = "scripted"
    style: Style | str = "native"
    chat: str = "slack"
    """The platform: `slack` or `feishu`."""
    repeat: int = 1
    endpoint: ModelEndpoint | None = None
    endpoint_settings: Mapping[str, object] = field(default_factory=dict)
    """Setting → value while the endpoint plays: its prices and time limits."""
    recorder: ExchangeRecorder | None = None
    """Writes down every request to the model and every reply."""
    recording: Recording | None = None

    @property
    def jobs(self) -> list[TrialJob]:
        if self.recording is not None:
            by_name = {one.name: one for one in self.scenarios}
            return [(by_name[name], seed) for name, seed in self.recording.exchanges if name in by_name]
        return [(one, seed) for seed in range(self.repeat) for one in self.scenarios if self.can_play(one)]

    def can_play(self, scenario: Scenario) -> bool:
        """Return whether the model can play a scenario. A script fits only its styles, the rehearsal only the native
        style, and a scenario about scripts needs its script."""
        if self.endpoint is not None:
            return scenario.only != "script"
        if self.model == "hostile":
            return True
        if self.model == "slips":
            return bool(scenario.reply) and not scenario.only and self.style in scenario.styles
        if self.model == "rehearsal" or not scenario.reply:
            return not scenario.reply and self.style == "native"
        return self.style in scenario.styles

    async def run(self, done: Callable[[Trial], None], at_once: int = AT_ONCE) -> None:
        """Play every job, and call `done` for each as it ends."""
        if not (waiting := deque(self.jobs)):
            return

        async def run_waiting_jobs(redis_url: str) -> None:
            while waiting:
                done(await self.run_job(waiting.popleft(), redis_url))

        async with _open_redis_server() as url, asyncio.TaskGroup() as group:
            workers = [
                group.create_task(run_waiting_jobs(f"{url}?db={number}"))
                for number in range(min(at_once, len(waiting)))
            ]
            try:
                await asyncio.wait(workers)
            finally:
                waiting.clear()  # a worker that missed the cancellation within a scenario starts no other one

    async def run_job(self, job: TrialJob, redis_url: str) -> Trial:
        """Play one job in an empty database."""
        if self.recording is not None:
            return await self._replay_job(self.recording, job, redis_url)
        scenario, seed = job
        by_seed, keep = f"{scenario.name} {seed}", self.recorder
        write = keep.build_exchange_writer(scenario.name, seed, self.style) if keep else None
        runner = partial(ScenarioRunner, style=self.style, chat=self.chat, write_exchange=write)
        if self.endpoint is not None or (self.model != "hostile" and not scenario.reply):
            patience_s = SLOW_S if self.endpoint else QUICK_S
            # The settings of the endpoint give way to the scenario's own.
            scenario = scenario.model_copy(update={"setting": {**self.endpoint_settings, **scenario.setting}})
            player = runner(self._open_endpoint_model, idle_timeout_s=patience_s)
            return await player.run_scenario(scenario, redis_url, seed)
        if self.model == "hostile":
            hostile = AdversaryModel(by_seed, self._script_style, list(scenario.reply))
            player = runner(lambda _: nullcontext(hostile), intrude=build_intrusion(hostile.chance))
            return await player.run_scenario(scenario, redis_url, seed)
        script = ScenarioScriptModel(list(scenario.reply), self._script_style)
        if self.model != "slips":
            return await runner(lambda _: nullcontext(script)).run_scenario(scenario, redis_url, seed, script)
        # The script need not be played to its end: only the outcome counts.
        model = SlippingModel(script, scenario.language, by_seed)
        trial = await runner(lambda _: nullcontext(model)).run_scenario(scenario, redis_url, seed)
        told = [f"slip: {one.kind} instead of {one.instead}{'' if one.mended else ', not told'}" for one in model.slips]
        reasons = trial.reasons if trial.passed else (*trial.reasons, *told)
        return trial.model_copy(update={"slips": tuple(model.slips), "reasons": reasons})

    async def _replay_job(self, recording: Recording, job: TrialJob, redis_url: str) -> Trial:
        """Replay the recorded replies of a job in their style."""
        scenario, seed = job
        recorded = recording.exchanges[scenario.name, seed]
        model, exchanges = ReplayModel(deque(recorded)), list[ModelExchange]()
        style = recording.detect_style(scenario.name, seed)
        runner = ScenarioRunner(lambda _: nullcontext(model), style, self.chat, write_exchange=exchanges.append)
        trial = await runner.run_scenario(scenario, redis_url, seed)
        then = ModelEffort(
            calls=len(recorded),
            tokens_in=sum(one.estimated_in for one in recorded),
            tokens_out=sum(one.reply.tokens_out for one in recorded if one.reply),
        )
        now = measure_effort(exchanges)
        replay = ReplayComparison(then=then, now=now, left=len(model.recorded), wanting=model.missing_replies)
        wanting = [f"the recording ended {model.missing_replies} replies too early"] if model.missing_replies else []
        failed = {"passed": False, "reasons": (*trial.reasons, *wanting)} if wanting else {}
        return trial.model_copy(update={"replay": replay, **failed})

    @property
    def _script_style(self) -> Style:
        return "text" if self.style == "text" else "json" if self.style == "json" else "native"

    @asynccontextmanager
    async def _open_endpoint_model(self, rehearsal: str) -> AsyncIterator[Model]:
        """Open the endpoint's model, or else the rehearsal's."""
        from bot.agent.models.openai_model import open_model  # as slow to import as all the rest

        real = self.endpoint or ModelEndpoint(url=rehearsal, key="none", name="rehearsal")
        async with open_model(real.url, real.key, real.name, api=real.api, effort=real.effort) as model:
            yield model


@asynccontextmanager
async def _open_redis_server() -> AsyncIterator[str]:
    """Start a Redis for this evaluation alone, because it is emptied again and again."""
    with tempfile.TemporaryDirectory(prefix="countersign-eval-", ignore_cleanup_errors=True) as folder:
        embedded = EmbeddedRedis(Path(folder))
        url = await embedded.ensure_running()
        try:
            yield url
        finally:
            await embedded.close()
