"""Finds decisions that the store has lost. A store that was restored, or taken over by another server, may lack the
last writes: a card is open there, but its decider sees *Approved by you* and no buttons.

Every open card is compared with the copies that its readers see. Where the two differ, the card is shown as the store
has it. Its reader and the person who asked for the decision are told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Literal

from bot.approvals.delivery import shows_record
from bot.core.records import ApprovalState
from bot.core.work_items import NotifyPerson, RefreshCard
from bot.features.contract import Core, Feature, Work
from bot.queue.lanes import Lease
from bot.queue.scripts import ScriptRunner
from bot.queue.store_watch import StoreWatch, forget_takeover, pause_job
from bot.queue.writes import EnqueueItem, Write, apply_writes
from bot.storage.approvals import ApprovalStore
from tools.spec import StoredModel, TextRef

AT_ONCE = 20
"""Most cards that one item compares and one message names."""


async def find_lost_decisions_later(scripts: ScriptRunner, cause: str, partitions: Sequence[int] = ()) -> None:
    """Enqueue a comparison of the open cards of these partitions (of all, if none is given). `cause`: one comparison is
    made per cause. Raises StoreUnavailableError."""
    keys, by_reader = scripts.keys, defaultdict[str, list[str]](list)
    approvals = ApprovalStore(scripts.redis, keys)
    for id in [id for one in partitions or range(keys.partitions) for id in await approvals.list_open_ids(one)]:
        approval = await approvals.find_readable_approval(id)
        for reader in dict(approval.copies) if approval else ():
            by_reader[reader].append(id)
    for reader, cards in by_reader.items():
        lane = f"notice:{reader}"
        for first in range(0, len(cards), AT_ONCE):
            work = FindLostDecisions(person=reader, approvals=tuple(cards[first : first + AT_ONCE]))
            put = EnqueueItem(lane, f"lost:{cause}:{reader}:{cards[first]}", work.model_dump_json())
            await apply_writes(scripts.redis, keys, keys.get_partition(lane), [put])


class FindLostDecisions(StoredModel):
    """The store may have lost its last writes: these cards are open there, while a person may see them as decided."""

    kind: Literal["find_lost_decisions"] = "find_lost_decisions"
    person: str
    approvals: tuple[str, ...]


def build(core: Core) -> Feature:
    return Feature(
        work=(Work(model=FindLostDecisions, handle=partial(find_lost_decisions, core)),),
        jobs=(pause_job(partial(compare_taken_over_partitions, core.stores.watch), core.stores.watch),),
    )


async def compare_taken_over_partitions(watch: StoreWatch) -> None:
    """Enqueue a comparison of the partitions that another server has taken over."""
    for partition, since in watch.takeovers.items():
        await find_lost_decisions_later(watch.scripts, since, [partition])
        await forget_takeover(watch.scripts, partition)
    watch.takeovers = {}


async def find_lost_decisions(core: Core, lease: Lease, work: FindLostDecisions) -> Sequence[Write]:
    """Compare the cards with the copies that this person sees."""
    person, id = await core.platform.directory.find_person(work.person), lease.item.id
    if person is None:
        return []
    records = [await core.stores.approvals.find_readable_approval(one) for one in work.approvals]
    lost = [
        one
        for one in records
        if one is not None and one.state is ApprovalState.OPEN and not await shows_record(core.cards, one, person)
    ]
    refresh = RefreshCard().model_dump_json()  # in the card's own lane, so that no older state is shown last
    refreshes = [EnqueueItem(one.id, f"{id}:{one.id}", refresh) for one in lost]
    titles = tuple(one.proposal.title for one in lost)
    told = [_build_notice(work.person, "restored.open_again", titles, id)] if lost else []
    asked = [
        _build_notice(author, "restored.undecided_again", (one.proposal.title,), f"{id}:{one.id}")
        for one in lost
        if (author := one.proposal.requester) and author != work.person
    ]
    return [*refreshes, *told, *asked]


def _build_notice(person: str, key: str, titles: tuple[TextRef, ...], id: str) -> Write:
    notice = NotifyPerson(person=person, text=TextRef(key=key), more=titles)
    return EnqueueItem(f"notice:{person}", f"{id}:told", notice.model_dump_json())
