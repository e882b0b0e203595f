"""A process file is refused if something could pass as approved that nobody approved, or if it could come to a stop;
the verdict is that of playing it through."""

from decimal import Decimal
from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.harness.corpus import corpus
from tests.tools.workflow.drawing import compiled, drawn, flows
from tests.tools.workflow.tokens import Arrow, Game, Play, Tokens, is_task, nodes_of
from tools.workflow.bpmn import soundness
from tools.workflow.bpmn.expressions import Value
from tools.workflow.bpmn.graph import InvalidDefinitionError, check_graph
from tools.workflow.bpmn.semantics import check_decision_outcomes
from tools.workflow.bpmn.soundness import PetriNet, StateSearch, build_outgoing_marking, list_lone_tasks

JOINED = "\njoin+ -> fine? -> all_rejected: decision_a == 'reject' || decision_b == 'reject' else all_approved"


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
        markings = soundness.check_soundness(StateSearch("p"), PetriNet(nodes), nodes["submitted"])
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
    assert 20 <= sum(plainly_sound(game.everything(), game) for game in games) <= 80


TWO = "submitted -> split+ -> a, b -> join+ -> fine?\n"
CHAIN = "submitted -> a -> g?\nrevise -> again? -> a: decision == 'resubmit' else all_withdrawn\n"
MEANT = {
    "one task": "submitted -> a -> g? -> all_approved: decision == 'approve' else all_rejected",
    "asked for by name": "submitted -> a -> g? -> all_approved: decision_a == 'approve' else all_rejected",
    "asked the other way round": "submitted -> a -> g? -> all_rejected: !('approve' == decision) else all_approved",
    "approved and small": CHAIN + """
        g? -> all_approved: decision == 'approve' && days < 9
        g? -> b -> h?: decision == 'approve' else revise
        h? -> all_approved: decision == 'approve' else all_rejected""",
    "everybody is told of a rejection": CHAIN + "g? -> all_approved: decision == 'approve' else cc -> revise",
    "both, one question":
        TWO + "fine? -> all_approved: decision_a == 'approve' && decision_b == 'approve' else all_rejected",
    "both, one after the other": TWO + """
        fine? -> all_rejected: decision_a == 'reject' else second?
        second? -> all_rejected: decision_b == 'reject' else all_approved""",
    "both, denied":
        TWO + "fine? -> all_approved: !(decision_a == 'reject' || decision_b == 'reject') else all_rejected",
    "a part of its own kind": """submitted -> split+ -> a, rule -> join+
        join+ -> fine? -> all_approved: decision_a == 'approve' else all_rejected""",
    "a person beside a copy": """submitted -> split+ -> a, cc -> join+
        join+ -> fine? -> all_approved: decision_a == 'approve' else all_rejected""",
    "two levels in a part": """submitted -> split+ -> a -> ga? -> ma? -> join+ -> fine?
        ga? -> boss -> ma?: decision == 'approve'
        split+ -> b -> join+
        fine? -> all_rejected: decision_a == 'reject' || decision_b == 'reject' || decision_boss == 'reject'
        fine? -> all_approved""",
    "revised and again side by side": """submitted -> in? -> split+ -> a, b -> join+ -> fine?
        fine? -> all_approved: decision_a == 'approve' && decision_b == 'approve' else revise -> again?
        again? -> in?: decision == 'resubmit' else all_withdrawn""",
    # parts that come together
    "two tasks": "submitted -> split+ -> a, b -> join+" + JOINED,
    "a rejection told in its part": """submitted -> split+ -> a -> ga? -> ma? -> join+
        ga? -> cc_a -> ma?: decision == 'reject'
        split+ -> b -> join+""" + JOINED,
    "a service task on the way": """submitted -> split+ -> a -> join+
        split+ -> cc -> b -> join+""" + JOINED,
    "a part that may be skipped": """submitted -> split+ -> a -> join+
        split+ -> g? -> skip? -> join+
        g? -> b -> skip?: days > 3""" + JOINED,
    "parts in parts": """submitted -> split+ -> two+ -> a, b -> one+ -> join+
        split+ -> mail -> join+""" + JOINED,
    "two splits, one join": """submitted -> split+ -> a -> join+
        split+ -> two+ -> b, mail -> join+""" + JOINED,
}  # fmt: skip


@corpus("name", *MEANT)
def test_parts_that_come_together_and_decisions_that_mean_what_people_think_are_accepted(name: str) -> None:
    compiled(drawn(MEANT[name]))


WRONG = {
    # name: (arrows, element, part of the reason)
    "a choice after a split": (
        "submitted -> split+ -> a, b -> both? -> later -> all_rejected", "both",
        "may come to 'later' twice; only a parallel gateway brings parallel parts together",
    ),
    "a part that starts everything again": (
        """submitted -> all? -> split+ -> a -> join+
        split+ -> b -> g? -> join+
        g? -> all?: days > 1""" + JOINED, "split", "may come to 'a' twice",
    ),
    "a part with two ways to the join": (
        """submitted -> split+ -> a -> join+
        split+ -> b -> g? -> join+
        g? -> cc -> join+: days > 1""" + JOINED, "join", "may wait for ever for",
    ),
    "a join of one way in a loop": (
        "submitted -> again+ -> a -> g? -> again+: days > 1 else all_rejected", "again",
        "may wait for ever for 'g_again'",
    ),
    "one of two is enough": (
        TWO + "fine? -> all_approved: decision_a == 'approve' || decision_b == 'approve' else all_rejected", "a",
        "'reject' here leads to 'all_approved'; after the parallel part a gateway has to ask for decision_a",
    ),
    "one is not asked for": (
        TWO + "fine? -> all_approved: decision_a == 'approve' else all_rejected", "b",
        "'reject' here leads to 'all_approved'; after the parallel part",
    ),
    "the form can say approve": (
        "submitted -> a -> g? -> all_approved: decision == currency else all_rejected", "a",
        "'reject' here leads to 'all_approved'",
    ),
    "a decision after a split": (
        """submitted -> a -> split+ -> b -> join+ -> all_rejected
        split+ -> g? -> m? -> join+
        g? -> cc -> m?: decision == 'approve'""", "g_cc", "after 'split' it is unclear",
    ),
}  # fmt: skip


@corpus("name", *WRONG)
def test_unsound_processes_and_decisions_that_could_be_got_round_are_refused(name: str) -> None:
    arrows, element, reason = WRONG[name]
    with pytest.raises(InvalidDefinitionError) as refused:
        compiled(drawn(arrows))
    assert (refused.value.element, reason in refused.value.reason) == (element, True), refused.value


def test_a_rejection_is_not_forgotten_even_where_a_task_could_be_given_out_twice() -> None:
    arrows = flows("""
        submitted -> split+ -> a -> join+ -> fine? -> all_approved: decision_a == 'approve' else all_rejected
        split+ -> cc -> a
    """)
    nodes = nodes_of(arrows)
    net, search = PetriNet(nodes), StateSearch("p")
    first = build_outgoing_marking(nodes["submitted"])
    markings = frozenset(search.explore_states([first], lambda m: (move.apply_to(m) for move in net.list_moves(m))))
    with pytest.raises(InvalidDefinitionError, match="may be forgotten"):
        check_decision_outcomes(search, net, nodes["submitted"], nodes, markings)


def random_process(random: Random) -> str:
    """One to three stages, each a task or two tasks side by side, with any question at all after it."""
    stages = random.randint(1, 3)
    first = [f"in{n}?" for n in range(stages)]
    lines, tasks = [f"submitted -> {first[0]}"], []
    for n, entry in enumerate(first):
        mine = [f"t{n}"] if random.random() < 0.4 else [f"a{n}", f"b{n}"]
        tasks += mine
        if len(mine) == 1:
            lines.append(f"{entry} -> t{n} -> out{n}?")
        else:
            lines += [f"{entry} -> split{n}+ -> a{n} -> join{n}+ -> out{n}?", f"split{n}+ -> b{n} -> join{n}+"]
        lines += questions(random, n, [*first[n + 1 :], "all_approved"], mine, tasks)
    again = random.choice(("all_withdrawn", "all_withdrawn", "all_rejected"))
    lines += [
        "revise -> again?",
        f"again? -> {again}",
        f"again? -> {random.choice(first)}: decision == 'resubmit'",
        f"in0? -> {random.choice(('rule -> all_approved', 'all_rejected'))}: days < 1",
    ]
    return "\n".join(lines)


def questions(random: Random, n: int, onward: list[str], mine: list[str], tasks: list[str]) -> list[str]:
    targets = [onward[0], onward[0], random.choice(onward), "revise", "all_rejected", f"in{n}?"]
    good = " && ".join(f"decision_{t} == 'approve'" for t in mine)
    if random.random() < 0.6:
        conditions = [good] if random.random() < 0.7 else [f"{good} && {asked(random, tasks)}", good]
        chosen = [*(random.choice(targets[:3]) for _ in conditions), random.choice(("revise", "all_rejected"))]
    else:
        conditions = [asked(random, tasks) for _ in range(random.randint(1, 2))]
        chosen = [random.choice(targets) for _ in range(len(conditions) + 1)]
    distinct = {target: condition for target, condition in zip(chosen, [*conditions, ""], strict=True)}
    default = chosen[-1]
    lines = [f"out{n}? -> {target}: {condition}" for target, condition in distinct.items() if target != default]
    return [*lines, f"out{n}? -> {default}"]


def asked(random: Random, tasks: list[str], depth: int = 2) -> str:
    if depth and random.random() < 0.5:
        left, right = asked(random, tasks, depth - 1), asked(random, tasks, depth - 1)
        return random.choice((f"({left} && {right})", f"({left} || {right})", f"!({left})"))
    name = random.choice(["decision", *(f"decision_{t}" for t in tasks[-3:])])
    word = random.choice(("approve", "reject"))
    return random.choice((f"{name} == '{word}'", f"{name} != '{word}'", "days > 3", "currency == 'CNY'"))


def accepted(arrows: str) -> bool:
    try:
        compiled(drawn(arrows))
    except InvalidDefinitionError:
        return False
    return True


def wrongs(arrows: str, random: Random, plays: int) -> set[str]:
    """What went wrong in so many random plays: ends that do not fit what people decided."""
    found = set()
    for _ in range(plays):
        days, currency = Decimal(random.randint(0, 5)), random.choice(("CNY", "approve", "reject"))
        form: dict[str, Value] = {"days": days, "currency": currency}
        play = Play(flows(arrows), form, random)
        end = play.run()
        if end == "all_approved" and not play.answered:
            found.add("approved by nobody")
        if end == "all_approved" and play.rejected:
            found.add("approved though rejected")
        if play.withdrawn and end != "all_withdrawn":
            found.add("withdrawn but goes on")
        if end == "all_withdrawn" and not play.withdrawn:
            found.add("withdrawn by nobody")
    return found


@given(st.randoms(use_true_random=False))
def test_whatever_people_decide_an_accepted_process_ends_as_they_decided(random: Random) -> None:
    arrows = random_process(random)
    if not accepted(arrows):
        event("refused")
        return
    event("accepted")
    assert wrongs(arrows, random, plays=20) == set()


def test_random_processes_are_of_both_kinds_and_playing_finds_what_is_wrong_with_the_refused() -> None:
    processes = [random_process(Random(seed)) for seed in range(100)]
    refused = [arrows for arrows in processes if not accepted(arrows)]
    assert 10 < len(refused) < 90
    found = [wrongs(arrows, Random(0), plays=20) for arrows in refused]
    assert set().union(*found) >= {"approved though rejected", "withdrawn but goes on"}


@corpus("name", "one of two is enough", "one is not asked for", "the form can say approve")
def test_playing_a_refused_process_shows_why(name: str) -> None:
    assert "approved though rejected" in wrongs(WRONG[name][0], Random(1), plays=100)
