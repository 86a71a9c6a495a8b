from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.core.errors import DamagedError, SpecError
from argosy.data.order import Cursor, Sequences, interleaved, parse_cursor, permutation

sizes = st.lists(st.integers(1, 60), min_size=1, max_size=4)
seeds = st.integers(-(2**40), 2**40)


def streams(lengths: list[int], sequence: int) -> dict[str, np.ndarray]:
    """A stream per length in windows; every token is another number."""
    ends = np.cumsum([0, *(length * sequence + 1 for length in lengths)])
    return {
        f"s{which}": np.arange(start, stop, dtype=np.uint32)
        for which, (start, stop) in enumerate(pairwise(ends.tolist()))
    }


# Cursors


@given(st.integers(0, 2**60), st.integers(0, 2**60))
def test_a_cursor_comes_back_from_its_text(epoch: int, position: int) -> None:
    cursor = Cursor(epoch=epoch, position=position)

    assert parse_cursor(cursor.text()) == cursor


def test_the_text_of_a_cursor_is_canonical_json() -> None:
    assert Cursor(epoch=3, position=14).text() == '{"epoch":3,"position":14}'


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", "null", '{"epoch":1}', '{"epoch":"1","position":2}',
     '{"epoch":1.5,"position":2}', '{"epoch":-1,"position":2}', '{"epoch":1,"position":-2}',
     '{"epoch":true,"position":2}'],
)  # fmt: skip
def test_what_is_no_cursor_is_damaged(text: str) -> None:
    with pytest.raises(DamagedError, match="not a data cursor"):
        parse_cursor(text)


# Permutations


@given(st.integers(0, 500), seeds, st.integers(0, 9))
def test_a_permutation_has_every_index_once(size: int, seed: int, epoch: int) -> None:
    assert sorted(permutation(size, seed, epoch).tolist()) == list(range(size))


def test_the_order_is_the_same_with_every_version_on_every_machine() -> None:
    # By the definition of splitmix64 in plain integers; SHA-256("7,1")[:8], little-endian.
    def mixed(x: int) -> int:
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
        return x ^ (x >> 31)

    base = 0xFCB5BCEC3F836285
    keys = [mixed((index * 0x9E3779B97F4A7C15 + base) % 2**64) for index in range(1, 11)]
    assert permutation(10, 7, 1).tolist() == sorted(range(10), key=keys.__getitem__)
    assert permutation(10, 7, 1).tolist() == [2, 7, 9, 0, 1, 5, 4, 3, 8, 6]


def test_a_permutation_looks_shuffled() -> None:
    order = permutation(10_000, 0, 0)

    assert abs(np.corrcoef(order, np.arange(10_000))[0, 1]) < 0.05
    assert abs(np.corrcoef(order, permutation(10_000, 0, 1))[0, 1]) < 0.05
    assert abs(np.corrcoef(order, permutation(10_000, 1, 0))[0, 1]) < 0.05


@given(sizes, seeds)
def test_every_beginning_of_an_epoch_holds_each_source_in_proportion(
    lengths: list[int], seed: int
) -> None:
    order = interleaved(lengths, seed, 0)

    which = np.searchsorted(np.cumsum(lengths), order, side="right")
    for source, length in enumerate(lengths):
        share = length / sum(lengths)
        so_far = np.cumsum(which == source)
        due = share * np.arange(1, len(order) + 1)
        assert np.abs(so_far - due).max() <= 1 + len(lengths) / 2


# Sequences


@given(sizes, st.integers(1, 9), seeds)
def test_an_epoch_holds_every_window_once_and_every_prediction_once(
    lengths: list[int], sequence: int, seed: int
) -> None:
    data = Sequences(streams(lengths, sequence), sequence=sequence, seed=seed)

    batch, cursor = data.batch(Cursor(), len(data))

    assert batch.shape == (sum(lengths), sequence + 1)
    assert cursor == Cursor(epoch=1)
    targets = np.concatenate([stream[1:] for stream in streams(lengths, sequence).values()])
    assert sorted(batch[:, 1:].ravel().tolist()) == targets.tolist()
    assert (np.diff(batch, axis=1) == 1).all()


@given(sizes, st.integers(1, 5), seeds, st.lists(st.integers(0, 90), max_size=8))
def test_the_order_does_not_depend_on_the_batches_it_is_read_in(
    lengths: list[int], sequence: int, seed: int, cuts: list[int]
) -> None:
    at_once = Sequences(streams(lengths, sequence), sequence=sequence, seed=seed)
    whole, end = at_once.batch(Cursor(), sum(cuts))

    cursor, pieces = Cursor(), [np.empty((0, sequence + 1), np.int64)]
    for size in cuts:
        # Another process each time: nothing but the cursor is carried over.
        resumed = Sequences(streams(lengths, sequence), sequence=sequence, seed=seed)
        piece, cursor = resumed.batch(parse_cursor(cursor.text()), size)
        pieces.append(piece)

    assert (np.concatenate(pieces) == whole).all()
    assert cursor == end


@given(sizes, seeds, st.integers(1, 5), st.integers(1, 12))
def test_ranks_cut_the_batch_that_one_host_alone_would_have(
    lengths: list[int], seed: int, ranks: int, each: int
) -> None:
    data = Sequences(streams(lengths, 3), sequence=3, seed=seed)
    start = Cursor(epoch=2, position=len(data) - 1)
    whole, end = data.batch(start, ranks * each)

    shares = [
        data.batch(start, ranks * each, slice(rank * each, (rank + 1) * each))
        for rank in range(ranks)
    ]

    assert (np.concatenate([rows for rows, _ in shares]) == whole).all()
    assert {cursor for _, cursor in shares} == {end}


def test_epochs_differ_and_so_do_seeds() -> None:
    def first(seed: int, epoch: int) -> list[int]:
        data = Sequences(streams([40], 2), sequence=2, seed=seed)
        rows, _ = data.batch(Cursor(epoch=epoch), 40)
        return rows[:, 0].tolist()  # type: ignore[no-any-return]

    assert len({tuple(first(*key)) for key in ((0, 0), (0, 1), (1, 0))}) == 3
    assert first(5, 7) == first(5, 7)


def test_the_order_of_naming_the_sources_does_not_matter() -> None:
    named = streams([7, 5, 9], 2)
    turned = dict(reversed(list(named.items())))

    one, _ = Sequences(named, sequence=2, seed=1).batch(Cursor(), 21)
    other, _ = Sequences(turned, sequence=2, seed=1).batch(Cursor(), 21)

    assert (one == other).all()


def test_tokens_that_fill_no_window_are_left_out() -> None:
    data = Sequences({"a": np.arange(12)}, sequence=4)

    rows, _ = data.batch(Cursor(), 2)

    assert len(data) == 2
    assert sorted(rows.tolist()) == [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8]]


@pytest.mark.parametrize(
    ("limit", "starts"), [(1, [0]), (2, [0, 10]), (3, [0, 6, 12]), (5, [0, 4, 8, 12, 16]), (99, 10)]
)
def test_evaluation_sees_windows_spread_over_the_whole_text(
    limit: int, starts: list[int] | int
) -> None:
    data = Sequences({"a": np.arange(21, dtype=np.uint16)}, sequence=2)

    rows = data.spread(limit)

    expected = list(range(0, 20, 2)) if isinstance(starts, int) else starts
    assert rows.dtype == np.int64
    assert rows[:, 0].tolist() == expected


@pytest.mark.parametrize("length", [0, 1, 8])
def test_a_source_shorter_than_one_sequence_is_refused(length: int) -> None:
    with pytest.raises(SpecError) as caught:
        Sequences({"b": np.arange(99), "a": np.arange(length)}, sequence=8)

    assert str(caught.value) == (
        f"source a: shorter than one sequence: {length} tokens, 9 are needed\n"
        "  add text, or lower training.sequence"
    )
    assert len(Sequences({"a": np.arange(9)}, sequence=8)) == 1


def test_a_site_without_a_source_is_refused() -> None:
    with pytest.raises(SpecError, match="no source"):
        Sequences({}, sequence=8)


def test_a_cursor_from_other_data_is_refused() -> None:
    data = Sequences({"a": np.arange(12)}, sequence=4)

    with pytest.raises(SpecError, match="the cursor stands at sequence 2, the data has 2"):
        data.batch(Cursor(position=2), 1)
