"""A change is noticed however soon it comes after the one before."""

import os

from tools.file_stamps import FRESH_NS, build_stamp

WRITTEN_NS = 1_790_000_000_123_456_789


def build_status(inode: int = 7) -> os.stat_result:
    """Of a file that was written at `WRITTEN_NS`."""
    times = {"st_mtime_ns": WRITTEN_NS, "st_ctime_ns": WRITTEN_NS}
    return os.stat_result((0o100644, inode, 1, 1, 0, 0, 5, *(WRITTEN_NS // 10**9,) * 3), times)


def test_two_writes_within_one_tick_are_two_and_a_file_that_has_rested_is_not_read_again() -> None:
    read, looked = (build_stamp(build_status(), WRITTEN_NS + after) for after in (0, 3_000_000))
    assert read != looked
    read, looked = (build_stamp(build_status(), WRITTEN_NS + after) for after in (FRESH_NS, 20 * FRESH_NS))
    assert read == looked != build_stamp(build_status(inode=8), WRITTEN_NS + FRESH_NS)
    assert build_stamp(build_status(), WRITTEN_NS - 10**12) == build_stamp(build_status(), WRITTEN_NS - 10**11)
