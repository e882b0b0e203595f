"""What is left of the year's leave: counted as the card of a request counts it, and told to its owner alone."""

from __future__ import annotations

from tests.tools.office import LI, ZHANG, facts, office, refused

TWO_DAYS = {
    "leave_type": "annual",
    "start_date": "2026-11-23",
    "end_date": "2026-11-24",
    "reason": "x",
    "approver": "李四",
}
NEXT_YEAR = {**TWO_DAYS, "start_date": "2027-03-01", "end_date": "2027-03-01"}
SICK = {**TWO_DAYS, "leave_type": "sick", "start_date": "2026-12-01", "end_date": "2026-12-02"}


async def test_what_is_approved_and_what_waits_is_taken_from_the_year() -> None:
    there = office()
    assert (await there.look(ZHANG, "leave_balance"))["balances"] == [
        {"kind": "年假", "days_a_year": "10", "approved": "0", "waiting": "0", "left": "10"}
    ]
    request = await there.start(TWO_DAYS)
    (waiting,) = (await there.look(ZHANG, "leave_balance"))["balances"]
    assert (waiting["waiting"], waiting["approved"], waiting["left"]) == ("2", "0", "8")
    await there.decide(LI, f"{request}-1", "approve")
    (approved,) = (await there.look(ZHANG, "leave_balance"))["balances"]
    assert (approved["waiting"], approved["approved"], approved["left"]) == ("0", "2", "8")
    await there.start(SICK)
    assert (await there.look(ZHANG, "leave_balance"))["balances"] == [approved], "sick leave is not taken from it"


async def test_it_says_what_the_card_of_the_next_request_says() -> None:
    there = office()
    await there.start(TWO_DAYS)
    (known,) = (await there.look(ZHANG, "leave_balance"))["balances"]
    later = {**TWO_DAYS, "start_date": "2026-12-07", "end_date": "2026-12-07", "approver": ""}
    plan = await there.plan(ZHANG, "start_process", process="leave", form=later)
    left, whole = int(known["left"]) - 1, known["days_a_year"]
    assert ("余额", f"年假：2026 年批准后还剩 {left} 天 / 全年 {whole} 天") in facts(plan)


async def test_each_year_has_its_own_and_a_colleague_s_is_not_touched() -> None:
    there = office()
    await there.start(NEXT_YEAR)
    assert [one["left"] for one in (await there.look(ZHANG, "leave_balance"))["balances"]] == ["10"]
    assert [one["left"] for one in (await there.look(ZHANG, "leave_balance", year=2027))["balances"]] == ["9"]
    assert [one["left"] for one in (await there.look(LI, "leave_balance", year=2027))["balances"]] == ["10"]
    assert (await refused(there.look(ZHANG, "leave_balance", year=1900))).code == "no_calendar"


async def test_a_person_s_own_number_of_days_goes_first() -> None:
    there = office()
    mine = ZHANG.model_copy(update={"allowance": 15})
    there.people.known = [mine, *(one for one in there.people.known if one.id != ZHANG.id)]
    assert [one["left"] for one in (await there.look(mine, "leave_balance"))["balances"]] == ["15"]
