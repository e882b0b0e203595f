"""A rolling restart, a poisonous message, a model that is away: the longer way through, with real processes."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.chaos import check
from tests.chaos.facts import Facts
from tests.chaos.plan import Wanted
from tests.chaos.trials import poisoned, rolling, silent


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_rolling_restart_under_load_delivers_nothing_twice_and_loses_nothing() -> None:
    rolled = await rolling(Wanted(3, 14, 6, 3, seconds=7, speed=2))  # which no busy machine outlasts
    assert check.wrong(rolled.facts) == []
    assert rolled.redelivered == {}, "what was begun is finished or handed over: no delivery is counted again"
    assert rolled.restarts == 3 and rolled.ends == [0, 0, 0], "each ended by itself, within its grace"
    assert len(rolled.facts.spoken) == 84


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_poisonous_message_is_set_aside_and_the_conversation_goes_on() -> None:
    trial = await poisoned()
    [letter] = trial.buried.dead
    assert "poison was swallowed" in letter.item.error and "c0-1" in letter.item.body
    assert answers(trial.buried) == ["c0-0", "c0-2"], "what came after it was answered"
    assert [letter.item.id in post.text for post in trial.buried.posts if post.key.startswith("dead:")] == [True]
    assert letter.item.id in trial.listed and "poison was swallowed" in trial.listed
    assert letter.item.id in trial.retried, trial.retried
    assert answers(trial.healed) == ["c0-0", "c0-2", "c0-1"] and not trial.healed.dead


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_while_the_model_is_away_messages_wait_and_people_are_told_once() -> None:
    wanted = Wanted(3, 8, 3, 2, seconds=2)
    facts = await silent(wanted, seconds=4)
    assert check.wrong(facts) == [], "all are answered afterwards, in order"
    told = Counter(post.channel + post.key.partition(":")[0] for post in facts.posts if ":down:" in post.key)
    assert len(told) == wanted.conversations and set(told.values()) == {1}, told


def answers(facts: Facts) -> list[str]:
    """Tags of the answers, as they came."""
    return [check.tag_of(post.text) for post in facts.posts if post.key.endswith(":final")]
