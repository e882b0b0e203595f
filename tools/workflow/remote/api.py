"""What the remote engines have in common, seen from us: their words for it are in `flowable` and `camunda`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Protocol, TypeAlias

from pydantic import Field

from tools.spec import Frozen

Value: TypeAlias = str | float | None
PAGE = 100
"""Rows asked for at once. Flowable gives 10 unless told otherwise, Camunda everything."""
ENOUGH = 200
"""Pages of one list."""
WORKER = "countersign"
LOCK_S = 60
"""For how long a service task is ours once we have taken it."""


Id: TypeAlias = Annotated[str, Field(max_length=255)]
"""An id or a key: both engines keep it in a column of at most 255 characters."""


class Instance(Frozen):
    """A process instance, running or ended."""

    id: Id
    request: Id
    """Its business key: our request number."""
    started: datetime
    ended: datetime | None = None
    removed: bool = False
    """Ended from outside, not by reaching an end event."""


class Item(Frozen):
    """A user task of the engine, open or closed."""

    id: Id
    instance: Id
    execution: Id
    node: Id
    user: Id
    """Empty: nobody's."""
    since: datetime
    ended: datetime | None = None


class Passed(Frozen):
    """Something the instance went through: a node, or (Flowable only) a flow."""

    id: Id
    at: datetime


class Job(Frozen):
    """A service task that waits for us."""

    id: Id
    instance: Id
    node: Id
    topic: Id


class Api(Protocol):
    """Reads raise `ToolError`; writes raise as `Rest.write` does. Lists are whole, whatever a page holds."""

    name: str
    """As people know the engine."""
    users: re.Pattern[str]
    """What it accepts as a user id."""

    async def definition(self, process: str) -> str:
        """Id of the newest definition with this key, or empty."""

    async def source(self, definition: str) -> bytes:
        """The file it was deployed with."""

    async def instances(self, request: str) -> list[Instance]:
        """Those with this business key, oldest first. Neither engine keeps it unique."""

    async def instance(self, instance: str) -> Instance | None: ...

    async def begun_by(self, user: str) -> list[Instance]:
        """Those whose variable `initiator` is this user. (The engine's own start user is our service account.)"""

    async def variables(self, instance: str) -> dict[str, object]: ...

    async def items(self, instance: str) -> list[Item]:
        """Open and closed, oldest first."""

    async def open_items(self, *, user: str = "", process: str = "") -> list[Item]: ...

    async def closed_items(self, user: str) -> list[Item]: ...

    async def passed(self, instance: str) -> list[Passed]:
        """Oldest first."""

    async def start(self, definition: str, request: str, variables: Mapping[str, Value]) -> None: ...

    async def complete(self, item: Item, variables: Mapping[str, Value]) -> None: ...

    async def assign(self, item: Item, user: str) -> None: ...

    async def put(self, instance: str, variables: Mapping[str, Value]) -> None: ...

    async def move(self, item: Item, to: str) -> None:
        """From the task's node to another one."""

    async def remove(self, instance: str, reason: str) -> None: ...

    async def jobs(self, topics: Sequence[str]) -> list[Job]:
        """Locked for us for `LOCK_S`."""

    async def finish(self, job: Job) -> None: ...
