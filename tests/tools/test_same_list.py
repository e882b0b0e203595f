"""What is made of all people is made once for each list of them."""

from __future__ import annotations

from collections.abc import Sequence

from tools.people.same_list import remember_by_list


def test_it_is_made_again_for_another_list_only() -> None:
    made = list[Sequence[str]]()

    @remember_by_list
    def count(people: Sequence[str]) -> tuple[int, ...]:
        made.append(people)
        return (len(people) + 1_000,)

    people = ("Ann", "Bob")
    assert count(people) is count(people) and len(made) == 1
    equal = tuple(["Ann", "Bob"])
    assert count(equal) is count(people)  # the same value, though it was made again
    assert len(made) == 3


def test_what_may_change_is_not_remembered() -> None:
    @remember_by_list
    def count(people: Sequence[str]) -> int:
        return len(people)

    people = ["Ann"]
    assert count(people) == 1
    people.append("Bob")
    assert count(people) == 2
