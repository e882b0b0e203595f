"""Many scenarios, several at a time, each in a database of its own."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bot.evaluation.hostile import Hostile, intruders
from bot.evaluation.models import Exchange, Playing
from bot.evaluation.playing import Opened, Player, effort_of
from bot.evaluation.recording import Recorder, Recording, Replaying
from bot.evaluation.results import Effort, Replay, Trial
from bot.evaluation.scenario import Scenario, Style
from bot.evaluation.slips import Slipping
from bot.local.embedded import Embedded
from bot.react.model import Model

AT_ONCE = 4
"""Scenarios; each has a database of the embedded server, which has 16."""


QUICK_S, SLOW_S = 20.0, 400.0
"""How long the bot may take after each act: with a model on this machine, and with a real one."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A real model."""

    url: str
    """Empty: OpenAI's."""
    key: str = field(repr=False)
    name: str
    prices: Path | None = None
    """PRICES_FILE: what it costs."""
    api: Literal["auto", "chat", "responses"] = "auto"
    effort: Literal["none", "minimal", "low", "medium", "high", "auto"] = "auto"
    """OPENAI_API and OPENAI_REASONING: how it is asked."""
    reply_s: float = 60.0
    run_s: float = 180.0
    """REPLY_SECONDS and RUN_SECONDS: how long it may take (s)."""


@dataclass(frozen=True, slots=True)
class Job:
    """One scenario to be played once."""

    scenario: Scenario
    seed: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is played, and with which model: `scripted` (the scenarios' own scripts; those without one with the
    rehearsal), `slips` (the scripts with slips), `rehearsal`, `hostile`, or an endpoint's.
    With a `recording`, the replies in it."""

    scenarios: Sequence[Scenario]
    model: str = "scripted"
    style: Style | str = "native"
    repeat: int = 1
    endpoint: Endpoint | None = None
    recorder: Recorder | None = None
    """Where everything is written down that the model is sent and says."""
    recording: Recording | None = None

    @property
    def jobs(self) -> list[Job]:
        if self.recording is not None:
            by_name = {one.name: one for one in self.scenarios}
            return [Job(by_name[name], seed) for name, seed in self.recording.exchanges if name in by_name]
        return [Job(one, seed) for seed in range(self.repeat) for one in self.scenarios if self.suits(one)]

    def suits(self, scenario: Scenario) -> bool:
        """A script is written for styles; the rehearsal model speaks natively; what is about a script needs it."""
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
        """Plays every job; `done` is told of each as it ends."""
        if not (waiting := deque(self.jobs)):
            return
        async with _server() as url, asyncio.TaskGroup() as group:
            workers = [
                group.create_task(self._work(waiting, f"{url}?db={number}", done))
                for number in range(min(at_once, len(waiting)))
            ]
            try:
                await asyncio.wait(workers)
            finally:
                waiting.clear()  # told to end, whoever did not hear it in the middle of a scenario begins no other

    async def _work(self, waiting: deque[Job], redis_url: str, done: Callable[[Trial], None]) -> None:
        while waiting:
            done(await self.one(waiting.popleft(), redis_url))

    async def one(self, job: Job, redis_url: str) -> Trial:
        """One job, in an empty database."""
        if self.recording is not None:
            return await self._replayed(self.recording, job, redis_url)
        if self.model == "hostile" and self.endpoint is None:
            hostile = Hostile(f"{job.scenario.name} {job.seed}", self._written, list(job.scenario.reply))
            player = Player(_ready(hostile), self.style, meddling=intruders(hostile.chance), keep=self._keep(job))
            return await player.play(job.scenario, redis_url, job.seed)
        if self.endpoint is not None or not job.scenario.reply:
            patience_s = SLOW_S if self.endpoint else QUICK_S
            player = Player(self._endpoint, self.style, patience_s, keep=self._keep(job))
            return await player.play(self._priced(job), redis_url, job.seed)
        script = Playing(list(job.scenario.reply), self._written)
        if self.model == "slips":
            return await self._slipping(script, job, redis_url)
        player = Player(_ready(script), self.style, keep=self._keep(job))
        return await player.play(job.scenario, redis_url, job.seed, script)

    async def _slipping(self, script: Playing, job: Job, redis_url: str) -> Trial:
        """Its script need not be played to the end: what counts is what came of it."""
        model = Slipping(script, job.scenario.language, f"{job.scenario.name} {job.seed}")
        trial = await Player(_ready(model), self.style, keep=self._keep(job)).play(job.scenario, redis_url, job.seed)
        told = [f"slip: {one.kind} instead of {one.instead}{'' if one.mended else ', not told'}" for one in model.slips]
        reasons = trial.reasons if trial.passed else (*trial.reasons, *told)
        return trial.model_copy(update={"slips": tuple(model.slips), "reasons": reasons})

    def _keep(self, job: Job) -> Callable[[Exchange], None] | None:
        return self.recorder.of(job.scenario.name, job.seed, self.style) if self.recorder else None

    async def _replayed(self, recording: Recording, job: Job, redis_url: str) -> Trial:
        """What was recorded of a job, said again in its style."""
        recorded = recording.exchanges[job.scenario.name, job.seed]
        model, exchanges = Replaying(deque(recorded)), list[Exchange]()
        style = recording.style(job.scenario.name, job.seed)
        trial = await Player(_ready(model), style, keep=exchanges.append).play(job.scenario, redis_url, job.seed)
        then = Effort(
            calls=len(recorded),
            tokens_in=sum(one.tokens for one in recorded),
            tokens_out=sum(one.reply.tokens_out for one in recorded if one.reply),
        )
        now = effort_of(exchanges)
        replay = Replay(then=then, now=now, left=len(model.recorded), wanting=model.wanting)
        wanting = [f"the recording ended {model.wanting} replies too early"] if model.wanting else []
        failed = {"passed": False, "reasons": (*trial.reasons, *wanting)} if wanting else {}
        return trial.model_copy(update={"replay": replay, **failed})

    def _priced(self, job: Job) -> Scenario:
        """With the settings that are about the endpoint; how long a run may take is the scenario's to say first."""
        if (at := self.endpoint) is None:
            return job.scenario
        prices = {"prices_file": at.prices} if at.prices else {}
        times = {"reply_seconds": at.reply_s, "run_seconds": at.run_s}
        return job.scenario.model_copy(update={"setting": {**times, **job.scenario.setting, **prices}})

    @property
    def _written(self) -> Style:
        return "text" if self.style == "text" else "json" if self.style == "json" else "native"

    @contextlib.asynccontextmanager
    async def _endpoint(self, rehearsal: str) -> AsyncIterator[Model]:
        """The real one, or the rehearsal's."""
        from bot.react.endpoints.model import open_model  # only now: the SDK takes as long to import as all the rest

        real = self.endpoint or Endpoint(rehearsal, "none", "rehearsal")
        async with open_model(real.url, real.key, real.name, api=real.api, effort=real.effort) as model:
            yield model


def _ready(model: Model) -> Opened:
    @contextlib.asynccontextmanager
    async def opened(rehearsal: str) -> AsyncIterator[Model]:
        yield model

    return opened


@contextlib.asynccontextmanager
async def _server() -> AsyncIterator[str]:
    """A Redis for this evaluation alone: it is emptied again and again."""
    with tempfile.TemporaryDirectory(prefix="countersign-eval-", ignore_cleanup_errors=True) as folder:
        embedded = Embedded(Path(folder))
        url = await embedded.ensure()
        try:
            yield url
        finally:
            await embedded.close()
