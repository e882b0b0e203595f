"""All errors that this program raises on purpose, each below the one that it belongs to."""

from __future__ import annotations

from enum import StrEnum


class CountersignError(Exception):
    """Base of all errors that this program raises on purpose."""


class SettingsError(CountersignError):
    """A setting is missing or invalid; the message says how to fix it."""


class NoInstallationError(CountersignError):
    """No bot has ever stored anything where this command looks; the message says where it looked."""


class UnsafeStoreError(CountersignError):
    """The Redis in use would lose data; the message says how to fix it."""


class StoreUnavailableError(CountersignError):
    """Redis cannot be reached now."""


class StoreRefusedError(StoreUnavailableError):
    """Redis answered that it does not take the call now (no memory, no replica, or a replica itself). Redis has
    certainly not begun the call."""


class StoreUnconfirmedError(StoreUnavailableError):
    """Redis has the write, but the replica or the disk that must have it too has not confirmed it in time. The write
    may be lost with the server."""


class FilesUnavailableError(StoreUnavailableError):
    """The store of files cannot be written or read now."""


class FilesUnreachableError(FilesUnavailableError):
    """The store of files cannot be reached at the moment; the call is tried again."""


class UnreadableRecordError(CountersignError):
    """The stored data is no record of any version that this one can read. The message names its id."""


class LeaseLost(CountersignError):
    """Another process has taken the lane over: stop, write nothing."""


class ModelFailureCause(StrEnum):
    """The cause of a model's failure to answer."""

    UNREACHABLE = "unreachable"
    """No connection, or no readable answer."""
    BUSY = "busy"
    """Too many requests, or an error inside the endpoint."""
    TIMEOUT = "timeout"
    QUOTA = "quota"
    """The paid quota is used up: a retry does not help."""
    KEY = "key"
    ADDRESS = "address"
    """Nothing is at the address."""
    UNKNOWN_MODEL = "unknown_model"
    CONTEXT = "context"
    """The conversation is longer than the model can read."""
    TOOLS = "tools"
    """The endpoint refuses the schema of a tool."""
    REQUEST = "request"
    """Any other request that the endpoint rejects."""


NEEDS_ADMINISTRATOR = frozenset(
    {
        *(ModelFailureCause.QUOTA, ModelFailureCause.KEY, ModelFailureCause.ADDRESS, ModelFailureCause.UNKNOWN_MODEL),
        ModelFailureCause.TOOLS,
    }
)
"""Causes that only an administrator can end."""


class ModelUnavailableError(CountersignError):
    """The model cannot be reached now (network, 429, 5xx, time-out); the message stays queued. `wait_s` is the waiting
    time that the endpoint asks for, in seconds; 0 if it does not say."""

    def __init__(
        self, text: str = "", wait_s: float = 0.0, cause: ModelFailureCause = ModelFailureCause.UNREACHABLE
    ) -> None:
        super().__init__(text)
        self.wait_s, self.cause = wait_s, cause


class ModelRejectedError(CountersignError):
    """The model rejects this conversation (HTTP 400 and the like): a retry changes nothing."""

    def __init__(self, text: str = "", cause: ModelFailureCause = ModelFailureCause.REQUEST) -> None:
        super().__init__(text)
        self.cause = cause


class ChatError(CountersignError):
    """The chat platform did not do as asked. `code` is its error name, e.g. `channel_not_found`."""

    def __init__(self, code: str, method: str = "") -> None:
        super().__init__(f"{method}: {code}" if method else code)
        self.code, self.method = code, method


class ChatRefusedError(ChatError):
    """The chat platform refused a call, and would refuse it again."""


class ChatUnavailableError(ChatError):
    """The chat platform cannot be reached now, or is overloaded; the post stays queued."""


class ChatAccountError(ChatUnavailableError):
    """The platform accepts nothing from this installation until an administrator fixes it, e.g. a token was revoked or
    the app was removed. Unsent posts stay queued, as in an outage."""


class ChatBusyError(ChatUnavailableError):
    """The platform's rate limit allows no more of these calls now. `wait_ms` is the time until the next try."""

    def __init__(self, wait_ms: int, method: str = "") -> None:
        super().__init__("ratelimited", method)
        self.wait_ms = wait_ms


class PlaceClosedError(ChatRefusedError):
    """The platform does not let the bot post in this place; elsewhere it may."""


class FileRefusedError(CountersignError):
    """A file cannot be accepted. `reason` selects the sentence `file.<reason>`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class LocalStartError(CountersignError):
    """A local stand-in could not start; the message says why."""
