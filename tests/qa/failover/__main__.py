"""`deploy/qa failover`: a store that loses what it has not confirmed, again and again. Ends with 1 when something was
lost, came twice or differs without a word, with 2 when nothing could be judged, with 130 when it was told to end."""

import asyncio
import sys
import time
from functools import partial

from bot.queue.scripts import ConfirmedBy
from tests.qa.chaos.store import Absent
from tests.qa.command import INTERRUPTED, WRONG, Parser, draw_seed, end_like_ctrl_c, read_whole_number
from tests.qa.failover.run import Order, describe, judge, run_order
from tests.qa.failover.stores import open_server_with_power_cuts, open_watched_servers

STORES = {
    "sentinel": open_watched_servers,
    "power": partial(open_server_with_power_cuts, fsync="always"),
    "everysec": partial(open_server_with_power_cuts, fsync="everysec"),
}


def main(words: list[str] | None = None) -> int:
    parser = Parser(prog="deploy/qa failover", description=str(__doc__).partition(":")[2].partition("Ends")[0])
    parser.add_argument(
        "--store",
        choices=STORES,
        default="sentinel",
        help="sentinel: a replica that lags takes over; power: a server whose power is cut, with appendfsync always; "
        "everysec: the same with appendfsync everysec (default: %(default)s)",
    )
    parser.add_argument(
        "--confirm", choices=[*ConfirmedBy], default="auto", help="REDIS_CONFIRM of the bots (default: %(default)s)"
    )
    parser.add_argument("--seed", type=read_whole_number(0), default=0, metavar="N", help="0: any (default)")
    told = parser.parse_args(words)
    order = Order(confirm=told.confirm, seed=told.seed or draw_seed())
    print(f"seed {order.seed}", flush=True)
    began_s = time.monotonic()
    try:
        facts = asyncio.run(run_order(order, STORES[told.store], partial(print, flush=True)))
    except Absent as absent:
        print(absent)
        return WRONG
    except KeyboardInterrupt:
        return INTERRUPTED
    for finding in (findings := judge(facts)):
        print(f"FOUND  {finding}")
    print(f"{describe(facts)}; {time.monotonic() - began_s:.0f} s")
    print(f"{len(findings)} findings" if findings else "Nothing lost, nothing twice, every difference said.")
    return int(bool(findings))


if __name__ == "__main__":
    end_like_ctrl_c()
    sys.exit(main())
