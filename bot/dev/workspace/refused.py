"""Refusals of the workspace, by the platform's error names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class WorkspaceError(Exception):
    """Raised when a call or an act is refused. `messages` are the platform's `response_metadata.messages`; `more` are
    further fields of the answer."""

    def __init__(self, error: str, messages: Sequence[str] = (), **more: Any) -> None:
        super().__init__(f"{error} {' '.join(messages)}".strip())
        self.error, self.messages, self.more = error, tuple(messages), more

    def to_body(self) -> dict[str, Any]:
        metadata = {"response_metadata": {"messages": list(self.messages)}} if self.messages else {}
        return {"ok": False, "error": self.error, **self.more, **metadata}
