"""`deploy/qa failover`: a store that loses what it has not confirmed, again and again. Ends with 1 when something was
lost, came twice or differs without a word, with 2 when nothing could be judged, with 130 when it was told to end."""

import asyncio
import time
from functools import partial

from bot.queue.scripts import ConfirmedBy
from tests.qa.chaos.store import Absent
from tests.qa.command import Parser, draw_seed, print_findings, read_whole_number, run_command
from tests.qa.failover.run import Order, describe, judge, run_order
from tests.qa.failover.stores import open_server_with_power_cuts, open_watched_servers

STORES = {
    "sentinel": open_watched_servers,
    "power": partial(open_server_with_power_cuts, fsync="always"),
    "everysec": partial(open_server_with_power_cuts, fsync="everysec"),
}


def main() -> int:
    parser = Parser(prog="deploy/qa failover", description=str(__doc__).partition(":")[2].partition("Ends")[0])
    text = "sentinel: a replica that lags takes over; power: a server whose power is cut, with appendfsync always; "
    text += "everysec: the same with appendfsync everysec (default: %(default)s)"
    parser.add_argument("--store", choices=STORES, default="sentinel", help=text)
    text = "REDIS_CONFIRM of the bots (default: %(default)s)"
    parser.add_argument("--confirm", choices=[*ConfirmedBy], default="auto", help=text)
    parser.add_argument("--seed", type=read_whole_number(0), default=0, metavar="N", help="0: any (default)")
    told = parser.parse_args()
    order = Order(confirm=told.confirm, seed=told.seed or draw_seed())
    print(f"seed {order.seed}", flush=True)
    began_s = time.monotonic()
    facts = asyncio.run(run_order(order, STORES[told.store], partial(print, flush=True)))
    print(f"{describe(facts)}; {time.monotonic() - began_s:.0f} s")
    return print_findings(judge(facts), "Nothing lost, nothing twice, every difference said.")


if __name__ == "__main__":
    run_command("failover", main, Absent)
