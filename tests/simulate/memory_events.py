"""Random streams of memory events for the property tests."""

from hypothesis import strategies as st

# Sizes that meet every class and rounding: small, 1 to 10 MiB, large, and a byte to each side of a boundary.
SIZES = st.one_of(
    st.integers(1, 2**21),
    st.integers(2**20, 12 * 2**20),
    st.integers(10 * 2**20, 70 * 2**20),
    st.sampled_from([2**20, 2**20 + 1, 10 * 2**20 - 512, 10 * 2**20, 20 * 2**20]),
)
POOLS = st.sampled_from([(None, 0), (None, 0), (None, 0), (None, 1), ("graph", 1)])


@st.composite
def events_in(draw, most: int = 60):
    """(events, whether segments are expandable): every free names a live key, the private pool is released last."""
    events, live, key = [], [], 0
    for _ in range(draw(st.integers(1, most))):
        action = draw(st.integers(0, 11))
        if action < 6 or not live:
            pool, stream = draw(POOLS)
            events.append(("alloc", key, draw(SIZES), pool, stream))
            live.append(key)
            key += 1
        elif action < 10:
            events.append(("free", live.pop(draw(st.integers(0, len(live) - 1)))))
        elif action < 11:
            events.append(("empty_cache",))
        else:
            events.append(("stage", draw(st.sampled_from(["rollout", "actor_update"]))))
    return events, draw(st.booleans())
