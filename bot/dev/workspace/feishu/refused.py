"""Refusals of Feishu, by its numbers."""

from __future__ import annotations

from typing import Any

from bot.dev.workspace.refused import WorkspaceError

WORDS = {
    10003: "invalid param",
    10014: "app secret invalid",
    41012: "user id is invalid error",
    43008: "department not found",
    99991400: "request trigger frequency limit",
    99991661: "Missing access token for authorization. Please make a request with token attached.",
    99991663: "Invalid access token for authorization. Please make a test attempt using valid access token.",
    99991672: "Access denied. One of the following scopes is required: ",
    99992354: "The request you send is not a valid {open_message_id} or not exists",
    99992402: "field validation failed",
    230001: "Your request contains an invalid request parameter, ext=",
    230002: "The bot can not be outside the group.",
    230011: "The message is recalled.",
    230013: "Bot has NO availability to this user.",
    230018: "These operations are NOT allowed at current group settings.",
    230025: "The length of the message content reaches its limit.",
    230031: "The message has exceeded the period in which it can be updated.",
    230071: "This group does not support reply in thread.",
    230099: "Failed to create card content, ext=",
    231001: "reaction type is invalid.",
    231007: "The operator has no permission to delete the reaction.",
    234001: "Invalid request param.",
    234003: "File not in msg.",
    234006: "The file size exceed the max value.",
}


class FeishuError(WorkspaceError):
    """Raised when Feishu refuses a call. `more` are further words of its message."""

    def __init__(self, code: int, more: str = "", status: int = 400, **details: Any) -> None:
        super().__init__(str(code))
        self.code, self.status, self.details = code, status, details
        self.words = WORDS.get(code, "the call was refused") + more


def refuse_card(inner: int, words: str, path: str) -> FeishuError:
    """Build the refusal of a card, with the inner code and the place that Feishu names."""
    return FeishuError(230099, f"ErrCode: {inner}; ErrMsg: {words}; ErrPath: ROOT{path}; ")
