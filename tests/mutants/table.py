"""Which files are changed, and which tests have to notice it: the quick and near ones first."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]

_CARDS = (
    "tests/approvals/test_press_guards.py",
    "tests/approvals/test_lifecycle.py",
    "tests/approvals/test_press.py",
    "tests/approvals/test_delivery.py",
    "tests/stories/test_decisions.py",
    "tests/stories/test_taken_back.py",
)
_PRESSES = (
    *_CARDS,
    "tests/approvals/test_*.py",
    "tests/stories/test_authority.py",
    "tests/stories/test_crashes.py",
    "tests/stories/test_opinions.py",
    "tests/stories/test_finished_cards.py",
    "tests/stories/test_same_again.py",
    "tests/stories/test_held_up.py",
    "tests/golden/test_stories.py",
)
_QUEUE = (
    "tests/queue/test_scripts.py",
    "tests/queue/test_leases.py",
    "tests/queue/test_rate_limits.py",
    "tests/queue/test_checkpoint.py",
    "tests/queue/test_lanes.py",
    "tests/queue/test_lanes_model.py",
    "tests/queue/test_worker.py",
    "tests/queue/test_round_trips.py",
    "tests/queue/test_*.py",
    "tests/app/test_dispatch.py",
    "tests/storage/test_journal.py",
    "tests/conversation/test_memory.py",
)
_SCRIPTS = (
    *_QUEUE,
    "tests/conversation/test_compaction.py",
    "tests/storage/test_budget_counters.py",
    "tests/approvals/test_press_guards.py",
    "tests/approvals/test_press.py",
    "tests/stories/test_crashes.py",
    "tests/stories/test_stops.py",
    "tests/stories/test_fairness.py",
)
_WRITES = ("tests/queue/test_scripts.py", "tests/storage/test_history.py", *_SCRIPTS)
_TURN = (
    "tests/conversation/test_turn_guards.py",
    "tests/conversation/test_turn.py",
    "tests/conversation/test_retry.py",
    "tests/conversation/test_budget.py",
    "tests/conversation/test_progress.py",
    "tests/conversation/test_memory.py",
    "tests/conversation/test_asking_again.py",
    "tests/conversation/test_compaction.py",
    "tests/stories/test_outages.py",
    "tests/stories/test_stops.py",
    "tests/stories/test_privacy.py",
    "tests/stories/test_crashes.py",
    "tests/stories/test_decisions.py",
    "tests/stories/test_what_people_see.py",
)
_MAIL = (
    "tests/tools/test_completeness.py",
    "tests/tools/test_mail.py",
    "tests/stories/test_mail.py",
    "tests/stories/test_impostors.py",
)
_ENGINE = (
    "tests/tools/workflow/test_reducer.py",
    "tests/tools/workflow/test_authority.py",
    "tests/tools/workflow/test_caused.py",
    "tests/tools/workflow/test_votes.py",
    "tests/tools/workflow/test_assigning.py",
    "tests/tools/workflow/test_authority_now.py",
    "tests/tools/workflow/test_rolling_limits.py",
    "tests/tools/workflow/test_administration.py",
    "tests/tools/workflow/test_choice.py",
    "tests/tools/workflow/test_duplicates.py",
    "tests/tools/workflow/test_standing.py",
    "tests/tools/workflow/test_semantics.py",
    "tests/tools/workflow/test_engine.py",
    "tests/tools/workflow/test_store.py",
    "tests/tools/workflow/test_audit.py",
    "tests/tools/workflow/test_redis_store.py",
    "tests/tools/workflow/test_invariants.py",
)
_STORE = ("tests/tools/workflow/test_store_scripts.py", "tests/tools/workflow/test_redis_store.py", *_ENGINE)
_REDACTION = (
    "tests/core/test_logs.py",
    "tests/core/test_redaction*.py",
    "tests/linear/test_entries.py",
    "tests/cli/test_unread.py",
    "tests/tracing/test_lines.py",
)

TESTS: dict[str, tuple[str, ...]] = {
    "bot/approvals/state.py": (
        "tests/approvals/test_state_records.py",
        "tests/approvals/test_state.py",
        *_CARDS,
        "tests/stories/test_crashes.py",
        "tests/golden/test_stories.py",
    ),
    "bot/approvals/authorization.py": (
        "tests/approvals/test_authorization.py",
        "tests/approvals/test_deputies.py",
        "tests/approvals/test_fresh_presses.py",
        *_CARDS,
        "tests/stories/test_authority.py",
    ),
    "bot/approvals/press.py": (
        "tests/approvals/test_press_guards.py",
        "tests/approvals/test_fresh_presses.py",
        "tests/approvals/test_delivery.py",
        *_PRESSES,
    ),
    "bot/approvals/effect_runner.py": (
        "tests/approvals/test_effects.py",
        "tests/approvals/test_press_guards.py",
        "tests/approvals/test_fresh_presses.py",
        *_PRESSES,
        "tests/conversation/test_asking_again.py",
    ),
    "bot/approvals/card_editor.py": (
        "tests/approvals/test_effects.py",
        *_PRESSES,
        "tests/conversation/test_asking_again.py",
    ),
    "bot/approvals/call_args.py": ("tests/approvals/test_effects.py", "tests/approvals/test_dialogs.py", *_PRESSES),
    "bot/approvals/dialogs.py": (
        "tests/approvals/test_dialogs.py",
        "tests/core/test_forged_keys.py",
        "tests/stories/test_invisible.py",
        *_CARDS,
    ),
    "bot/approvals/refusals.py": (
        "tests/approvals/test_refusals.py",
        "tests/approvals/test_delivery.py",
        *_PRESSES,
    ),
    "bot/approvals/lifecycle.py": ("tests/approvals/test_lifecycle.py", *_PRESSES),
    "bot/approvals/openings.py": ("tests/approvals/test_openings.py", *_PRESSES),
    "bot/approvals/delivery.py": ("tests/approvals/test_copies.py", "tests/approvals/test_delivery.py", *_PRESSES),
    "bot/approvals/duplicates.py": ("tests/approvals/test_duplicates.py", "tests/stories/test_same_again.py", *_CARDS),
    "bot/approvals/waiters.py": (
        "tests/approvals/test_waiters.py",
        *_CARDS,
        "tests/conversation/test_memory.py",
        "tests/golden/test_stories.py",
    ),
    "bot/approvals/render.py": (
        "tests/approvals/test_render.py",
        "tests/golden/test_stories.py",
        *_CARDS,
        "tests/stories/test_finished_cards.py",
        "tests/stories/test_opinions.py",
        "tests/tools/mcp/test_shown.py",
        "tests/stories/test_long_texts.py",
    ),
    "bot/approvals/opinion_drafts.py": (
        "tests/approvals/test_opinion_drafts.py",
        "tests/stories/test_opinions.py",
        *_CARDS,
        "tests/golden/test_stories.py",
    ),
    "bot/approvals/suggestions.py": ("tests/approvals/test_suggestions.py", "tests/golden/test_stories.py"),
    "bot/approvals/outbox.py": ("tests/approvals/test_outbox.py", "tests/stories/test_crashes.py"),
    "bot/queue/lanes.py": _QUEUE,
    "bot/queue/writes.py": (*_WRITES, "tests/storage/test_dead_letters.py"),
    "bot/queue/worker.py": (
        "tests/queue/test_backing_off.py",
        "tests/queue/test_worker.py",
        *_QUEUE,
        "tests/stories/test_rolling.py",
    ),
    "bot/queue/lua/apply.lua": _SCRIPTS,
    "bot/queue/lua/checkpoint.lua": _SCRIPTS,
    "bot/queue/lua/claim.lua": _SCRIPTS,
    "bot/queue/lua/commit.lua": _SCRIPTS,
    "bot/queue/lua/common.lua": _SCRIPTS,
    "bot/queue/lua/extend.lua": _SCRIPTS,
    "bot/queue/lua/pump.lua": _SCRIPTS,
    "bot/queue/lua/put.lua": _SCRIPTS,
    "bot/queue/lua/retry.lua": _SCRIPTS,
    "bot/queue/lua/slot.lua": _SCRIPTS,
    "bot/queue/lua/stop.lua": _SCRIPTS,
    "bot/queue/lua/writes.lua": _WRITES,
    "bot/core/records.py": (
        "tests/core/test_records.py",
        "tests/golden/test_records.py",
        "tests/core/test_forged_keys.py",
        "tests/approvals/test_state.py",
        *_CARDS,
        "tests/conversation/test_turn.py",
    ),
    "bot/core/effect_parts.py": ("tests/core/test_effect_parts.py", "tests/approvals/test_press.py"),
    "bot/core/redaction.py": _REDACTION,
    "bot/core/logs.py": _REDACTION,
    "bot/core/disclosure.py": (
        "tests/core/test_disclosure.py",
        "tests/conversation/test_memory.py",
        "tests/stories/test_privacy.py",
    ),
    "bot/app/ingress.py": (
        "tests/app/test_ingress.py",
        "tests/approvals/test_press.py",
        "tests/stories/test_channel.py",
        "tests/stories/test_full.py",
        "tests/stories/test_bad_input.py",
        "tests/stories/test_stops.py",
        "tests/stories/test_other_redis.py",
        "tests/stories/test_outages.py",
    ),
    "bot/app/dispatch.py": (
        "tests/app/test_dispatch.py",
        "tests/queue/test_giving_up.py",
        *_CARDS,
        "tests/stories/test_dead.py",
        "tests/stories/test_time.py",
    ),
    "bot/conversation/turn.py": _TURN,
    "bot/storage/approvals.py": (
        "tests/storage/test_approvals.py",
        "tests/approvals/test_state.py",
        *_PRESSES,
        "tests/conversation/test_asking_again.py",
        "tests/cli/test_filters.py",
    ),
    "bot/storage/spending.py": (
        "tests/storage/test_spending.py",
        "tests/storage/test_budget_counters.py",
        "tests/cli/test_usage.py",
        "tests/conversation/test_budget.py",
    ),
    "bot/storage/dead_letters.py": (
        "tests/storage/test_dead_letters.py",
        "tests/queue/test_giving_up.py",
        "tests/stories/test_dead.py",
        "tests/cli/test_cli.py",
    ),
    "tools/mail/completeness.py": _MAIL,
    "tools/mail/send_email.py": _MAIL,
    "tools/mail/smtp.py": _MAIL,
    "tools/workflow/engine/reducer.py": _ENGINE,
    "tools/workflow/engine/transitions.py": _ENGINE,
    "tools/workflow/engine/authority.py": _ENGINE,
    "tools/workflow/engine/votes.py": ("tests/tools/workflow/test_votes.py", *_ENGINE),
    "tools/workflow/engine/embedded.py": ("tests/tools/workflow/test_embedded.py", *_ENGINE),
    "tools/workflow/engine/redis_store.py": _STORE,
    "tools/workflow/engine/announce.lua": _STORE,
    "tools/workflow/engine/delegate.lua": _STORE,
    "tools/workflow/engine/save.lua": _STORE,
    "bot/evaluation/judge.py": ("tests/evaluation/test_judge.py", "tests/evaluation/test_scenarios.py"),
}
"""Tests by file, as patterns."""


def list_tests(path: str) -> list[str]:
    """The test files of a file, none twice."""
    found = (sorted(ROOT.glob(pattern)) for pattern in TESTS[path])
    return list(dict.fromkeys(str(file.relative_to(ROOT)) for files in found for file in files))
