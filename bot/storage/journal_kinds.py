"""The kinds of journal records. Code that writes another kind adds it here; a test compares this list with the code."""

from __future__ import annotations

from bot.core.records import ApprovalState, EffectState

KINDS = frozenset(
    {
        *("approval.requested", "approval.advised", "approval.reminded", "approval.edited", "approval.renewed"),
        *("approval.asked_again", "approval.refused"),
        *(f"approval.{state.value}" for state in ApprovalState if state is not ApprovalState.OPEN),
        *(f"effect.{state.value}" for state in EffectState if state),
        "alert",
        "chat.refused",
        "command",
        *("feedback", "files.shown"),
        *("form.refused", "form.submitted"),
        *("history.folded", "history.not_folded"),
        *("item.dead", "item.newer", "item.retried"),
        *("lane.caught_up", "lane.full"),
        *("message.agreed", "message.changed", "message.deleted", "message.empty", "message.ignored"),
        *("message.received", "message.too_long"),
        *("model.down", "model.tools_refused"),
        "notice",
        "picture",
        *("person.exported", "person.forgotten", "person.left"),
        *("process.deploy", "process.migrate", "process.assign"),
        *("run.anew", "run.answered", "run.cancelled", "run.finished", "run.refused", "run.stopped"),
        *("set.opened", "set.pressed", "set.refused"),
        "step",
        *("store.accepted", "store.copied", "store.restored"),
        "version",
    }
)
