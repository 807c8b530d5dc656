"""Order of channels over the lanes of the blocked layout."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mnexport.blocked.channel_padding import ChannelPadding

PARTS = st.lists(st.integers(1, 40), min_size=1, max_size=4)


@given(counts=PARTS, block=st.sampled_from([8, 16]))
def test_every_channel_has_one_lane_and_the_rest_are_zeros(counts: list[int], block: int) -> None:
    lanes = ChannelPadding.joined([ChannelPadding.of(count, block) for count in counts])
    assert lanes.channels == sum(counts)
    assert len(lanes) == sum(-(-count // block) * block for count in counts)
    assert [lanes.channel_of_lane[lane] for lane in lanes.lane_of_channel] == list(range(sum(counts)))
    assert lanes.full == all(count % block == 0 for count in counts)
    assert lanes.trailing == all(count % block == 0 for count in counts[:-1])


@given(counts=PARTS, axis=st.integers(0, 1))
def test_values_are_spread_to_the_lanes_of_their_channels(counts: list[int], axis: int) -> None:
    lanes = ChannelPadding.joined([ChannelPadding.of(count, 8) for count in counts])
    values = np.arange(1, lanes.channels * 3 + 1, dtype=np.float32).reshape(lanes.channels, 3)
    values = values if axis == 0 else np.ascontiguousarray(values.T)
    spread = lanes.spread(values, axis=axis)
    assert spread.dtype == np.float32
    np.testing.assert_array_equal(np.take(spread, lanes.lane_of_channel, axis=axis), values)
    assert spread.sum() == values.sum()
    assert spread.shape[axis] == len(lanes)
