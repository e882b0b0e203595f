import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.queue.keys import Keys


def test_a_key_names_its_partition_and_any_other_name_has_a_steady_one() -> None:
    assert Keys().build_key(3, "run", "R03abc") == "cs:{q03}:run:R03abc"
    assert Keys("other").build_key(3) == "other:{q03}"
    assert (Keys("other").wakeup_list, Keys("other").stop_channel) == ("other:bell", "other:stop")
    for lane in ("slack:T1:D1", "A03short", "A03abcdefghijkl9", "a03abcdefghijkl", "\ud83d", ""):
        assert Keys().get_partition(lane) == Keys().get_partition(lane) < 8
    assert Keys(partitions=100).get_partition("123456789") == 0x31C3 % 100, "as the Redis Cluster specification has it"


def test_what_is_no_key_of_a_partition_is_refused() -> None:
    for key in ("cs:bell", "other:{q03}:x", "{q03}:x", "cs:x:{q03}:y", ""):
        with pytest.raises(ValueError, match="not a key of a partition"):
            Keys().parse_partition(key)
    for count in (0, 101):
        with pytest.raises(ValueError, match="1 to 100"):
            Keys(partitions=count)


@given(st.integers(0, 99), st.sampled_from("ARTL"))
def test_a_derived_id_leads_back_to_its_partition(partition: int, kind: str) -> None:
    keys = Keys(partitions=100)
    derived = keys.derive_id(kind, partition, "call")
    assert (len(derived), derived[0]) == (15, kind)
    assert keys.get_partition(derived) == keys.get_partition(f"{derived}:expire") == partition


@given(st.integers(0, 7), st.text())
def test_home_reads_the_partition_back(partition: int, part: str) -> None:
    assert Keys().parse_partition(Keys().build_key(partition, part)) == partition
