"""The kinds of journal records that the bot writes without its features, which name theirs in `JOURNAL_KINDS`. Code
that writes another kind adds it to its list; a test compares the lists with the code."""

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
        *("item.dead", "item.newer", "item.retried"),
        *("lane.caught_up", "lane.full"),
        *("message.agreed", "message.empty", "message.ignored", "message.received", "message.too_long"),
        *("model.down", "model.tools_refused"),
        "notice",
        *("person.exported", "person.forgotten", "person.left"),
        *("process.deploy", "process.migrate", "process.assign"),
        *("run.answered", "run.cancelled", "run.finished", "run.refused", "run.stopped"),
        "step",
        *("store.accepted", "store.copied", "store.restored"),
        "version",
    }
)
