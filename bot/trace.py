"""How far a run has come: its calls, its messages, what it has counted. All that the loop needs to go on elsewhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass

from tools.spec import ToolError


def canonical(args: Mapping[str, Any]) -> str:
    """The one spelling of arguments that is hashed: sorted keys, no spaces, UTF-8."""
    return json.dumps(args, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def fingerprint(tool: str, args: Mapping[str, Any]) -> str:
    """SHA-256 over tool and canonical arguments."""
    return hashlib.sha256(f"{tool}\n{canonical(args)}".encode()).hexdigest()


M = TypeVar("M", bound=BaseModel)


def fit(model: type[M], args: Mapping[str, Any]) -> M:
    """Arguments as their model. Raises `ToolError` `bad_arguments` that names the first wrong field."""
    try:
        return model.model_validate(args)
    except ValidationError as error:
        wrong = [f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in error.errors()[:5]]
        field = str(next(iter(error.errors()[0]["loc"]), ""))
        raise ToolError("bad_arguments", "Arguments do not fit: " + "; ".join(wrong), field=field) from error


class CallStatus(StrEnum):
    AWAITING = "awaiting"
    DENIED = "denied"
    EXPIRED = "expired"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"


@pydantic_dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class Call:
    """One tool call of a run. Every step leaves one behind, so it is kept small."""

    uid: str
    """Ours: `<run>:<step>:<index>`. The model's own id is only echoed (servers reuse `call_0`)."""
    tool: str
    args: dict[str, Any]
    reason: str
    """Model-stated, not verified."""
    status: CallStatus
    model_id: str
    approval: str = ""


class Trace(BaseModel):
    """How far a run has come: everything the loop needs to go on in another process."""

    model_config = ConfigDict(extra="forbid")

    style: str = ""
    """In which style of ReAct its messages are; empty before the first reply."""
    offered: list[str] | None = None
    """Names of the tools that it is offered, in their order; None: our own. Chosen once, so that wherever the run goes
    on it has the same."""
    messages: list[str] = []
    """This run's own messages in the model's format, from the person's message on: each as JSON, which is what the
    model is sent and what is stored. Kept in a list of their own."""
    calls: list[Call] = []
    steps: int = 0
    called: int = 0
    failures: int = 0
    """Failed calls in a row."""
    malformed: int = 0
    """Malformed replies in this run."""
    seen: dict[str, int] = {}
    """Fingerprint of call and result → how often."""
    active_ms: int = 0
    """Running time; waiting for people does not count."""
    tokens_in: int = 0
    tokens_cached: int = 0
    """Of `tokens_in`, those that the endpoint knew from an earlier request."""
    tokens_out: int = 0
    path: list[str] = []
    """Fingerprints of the latest replies: the calls of each, with their results."""
    doubted: bool = False
    """The model was told what of its answer nothing supports."""
    claimed: int = 0
    """What the answer claims (`bot.react.evidence`): so many things,"""
    supported: int = 0
    """and of them so many that rest on something."""

    @property
    def evidence(self) -> float | None:
        """Evidence accuracy: supported ÷ claimed; None for an answer that claims nothing."""
        return self.supported / self.claimed if self.claimed else None

    def add(self, message: Mapping[str, Any]) -> None:
        self.messages.append(json.dumps(message, ensure_ascii=False))
