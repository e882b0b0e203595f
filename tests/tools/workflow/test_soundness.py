from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.harness.corpus import corpus
from tests.tools.workflow.drawing import compiled, drawn
from tests.tools.workflow.tokens import Arrow, Game, Tokens, is_task, nodes_of
from tools.workflow.bpmn.graph import InvalidDefinitionError, check_graph
from tools.workflow.bpmn.soundness import PetriNet, StateSearch, check_soundness, list_lone_tasks

JOINED = """
    join+ -> fine?
    fine? -> all_rejected: decision_a == 'reject' || decision_b == 'reject'
    fine? -> all_approved
"""
UNSOUND = {
    # name: (arrows, element, part of the reason)
    "a choice after a split": (
        """submitted -> split+ -> a -> both? -> later -> all_rejected
        split+ -> b -> both?""",
        "both",
        "may come to 'later' twice; only a parallel gateway brings parallel parts together",
    ),
    "a part that starts everything again": (
        """submitted -> all? -> split+ -> a -> join+
        split+ -> b -> g? -> join+
        g? -> all?: days > 1"""
        + JOINED,
        "split",
        "may come to 'a' twice",
    ),
    "a part with two ways to the join": (
        """submitted -> split+ -> a -> join+
        split+ -> b -> g? -> join+
        g? -> cc -> join+: days > 1"""
        + JOINED,
        "join",
        "may wait for ever for",
    ),
    "a join of one way in a loop": (
        """submitted -> again+ -> a -> g? -> all_rejected
        g? -> again+: days > 1""",
        "again",
        "may wait for ever for 'g_again'",
    ),
}


@corpus("name", UNSOUND)
def test_an_unsound_process_is_refused(name: str) -> None:
    arrows, element, reason = UNSOUND[name]
    with pytest.raises(InvalidDefinitionError) as refused:
        compiled(drawn(arrows))
    assert (refused.value.element, reason in refused.value.reason) == (element, True), refused.value


SOUND = {
    "two tasks": """submitted -> split+ -> a -> join+
        split+ -> b -> join+""",
    "a service task on the way": """submitted -> split+ -> a -> join+
        split+ -> cc -> b -> join+""",
    "a part that may be skipped": """submitted -> split+ -> a -> join+
        split+ -> g? -> skip? -> join+
        g? -> b -> skip?: days > 3""",
    "parts in parts": """submitted -> split+ -> two+ -> a -> one+ -> join+
        two+ -> b -> one+
        split+ -> mail -> join+""",
    "two splits, one join": """submitted -> split+ -> a -> join+
        split+ -> two+ -> b -> join+
        two+ -> mail -> join+""",
}


@corpus("name", SOUND)
def test_parallel_parts_that_come_together_are_accepted(name: str) -> None:
    assert compiled(drawn(SOUND[name] + JOINED)).alone == frozenset()


def test_a_request_can_be_returned_to_tasks_that_are_the_only_thing_going_on() -> None:
    definition = compiled(
        drawn(f"""
            submitted -> first -> g?
            g? -> all_rejected
            g? -> split+: decision == 'approve'
            split+ -> a -> join+
            split+ -> b -> join+
            {JOINED.replace("all_approved", "last -> h?")}
            h? -> all_approved: decision == 'approve'
            h? -> all_rejected
        """)
    )
    assert definition.alone == {"first", "last"}


def random_arrows(random: Random) -> list[Arrow]:
    """Blocks in blocks, which is always sound; then perhaps an arrow is bent or a gateway exchanged for another."""
    arrows: list[Arrow] = []
    names = iter(range(1000))

    def arrow(source: str, target: str) -> str:
        arrows.append((source, target, ""))
        return target

    def block(source: str, depth: int) -> str:
        kind = random.choice(("task", "task", "row", "parallel", "choice", "loop") if depth else ("task",))
        n = next(names)
        if kind == "task":
            return arrow(source, random.choice((f"t{n}", f"t{n}", f"cc{n}")))
        if kind == "row":
            return block(block(source, depth - 1), depth - 1)
        if kind == "loop":
            arrow(source, f"in{n}?")
            arrow(block(f"in{n}?", depth - 1), f"out{n}?")
            arrow(f"out{n}?", f"in{n}?")
            return f"out{n}?"
        sign = "+" if kind == "parallel" else "?"
        arrow(source, f"split{n}{sign}")
        for _ in range(2):
            arrow(block(f"split{n}{sign}", depth - 1), f"join{n}{sign}")
        return f"join{n}{sign}"

    arrow(block("submitted", 3), "all_approved")
    for _ in range(random.choice((0, 1, 1, 2))):
        arrows = bent(arrows, random)
    return arrows


def bent(arrows: list[Arrow], random: Random) -> list[Arrow]:
    """The same with one arrow bent to another node, or one gateway of the other kind."""
    names = sorted({name for arrow in arrows for name in arrow[:2]} - {"submitted"})
    name, place = random.choice(names), random.randrange(len(arrows))
    if name[-1] in "?+" and random.random() < 0.6:
        other = name[:-1] + ("+" if name[-1] == "?" else "?")
        return [(other if a == name else a, other if b == name else b, "") for a, b, _ in arrows]
    return [(a, name if i == place else b, "") for i, (a, b, _) in enumerate(arrows)]


def plainly_sound(found: dict[Tokens, list[Tokens]] | None, game: Game) -> bool:
    """By looking at everything: no two tokens in one place, ends are clean, and from everywhere there is one."""
    if found is None or any(game.ends(tokens) and len(tokens) > 1 for tokens in found):
        return False
    ending = {tokens for tokens in found if game.ends(tokens)}
    while more := {t for t, following in found.items() if t not in ending and ending & set(following)}:
        ending |= more
    return ending == found.keys()


@settings(max_examples=200)
@given(st.randoms(use_true_random=False))
def test_the_verdict_is_that_of_playing_everything_through(random: Random) -> None:
    arrows = random_arrows(random)
    nodes, game = nodes_of(arrows), Game(arrows)
    try:
        check_graph("submitted", nodes)
    except InvalidDefinitionError:
        event("refused by its shape")
        return
    found = game.everything()
    try:
        markings = check_soundness(StateSearch("p"), PetriNet(nodes), nodes["submitted"])
    except InvalidDefinitionError:
        event("unsound")
        assert not plainly_sound(found, game)
        return
    event("sound")
    assert found is not None
    assert plainly_sound(found, game)
    single = {game.target(tokens[0]) for tokens in found if len(tokens) == 1}
    assert list_lone_tasks(PetriNet(nodes), markings) == {name for name in single if is_task(name)}


def test_the_random_processes_are_of_both_kinds() -> None:
    games = [Game(random_arrows(Random(seed))) for seed in range(100)]
    sound = sum(plainly_sound(game.everything(), game) for game in games)
    assert 20 <= sound <= 80
