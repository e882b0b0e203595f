"""Builds the feature of this folder."""

from __future__ import annotations

from bot.core.work_items import REJECT_SET, SET_CHOICES, OpenSet, RefreshSet
from bot.features.contract import Core, DialogPress, Feature, Work, tell_person
from bot.features.sets.day_facts import DayFacts, TeamIndex
from bot.features.sets.morning_lists import MorningLists, OpenMorningList, StartMorning
from bot.features.sets.set_store import ApprovalSetStore
from bot.features.sets.sets import ApprovalSets

JOURNAL_KINDS = ("set.opened", "set.pressed", "set.refused")


def build(core: Core) -> Feature:
    sets = ApprovalSets(
        core=core,
        sets=ApprovalSetStore(core.stores.redis, core.stores.keys),
        facts=DayFacts(tool_services=core.tool_services, teams=TeamIndex(core.platform.directory)),
    )
    mornings = MorningLists(core=core, approval_sets=sets, at=core.settings.morning_time)
    return Feature(
        work=(
            Work(model=OpenSet, handle=sets.open_set, give_up=tell_person),
            Work(model=RefreshSet, handle=sets.refresh_set, is_owed=True),
            Work(model=StartMorning, handle=mornings.start_morning),
            Work(model=OpenMorningList, handle=mornings.open_list, is_owed=True),
        ),
        presses={
            **dict.fromkeys(SET_CHOICES, sets.handle_press),
            REJECT_SET: DialogPress(handle=sets.handle_press, build=sets.build_dialog, check=sets.check_dialog),
        },
        follow_event=mornings.follow_event,
        jobs=(mornings.plan_mornings,),
    )
