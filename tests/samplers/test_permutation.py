"""The keyed permutation: a bijection at every length, the same in every form and for ever."""

from __future__ import annotations

import pickle

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from arrayfeed.samplers import Permutation
from arrayfeed.samplers.cipher import Cipher
from arrayfeed.samplers.keys import epoch_key, epoch_keys, mix, mix_words, root_words, seed_as_json
from arrayfeed.samplers.table import TABLE_LIMIT, shuffled_rows

KEY = (0x0123456789ABCDEF, 0xFEDCBA9876543210)

# Lengths at which bit-wise domains change: powers of two and their neighbours, and 4**k + 1, where a well-known peer
# loses a record.
EDGES = sorted(
    {length for k in range(1, 22) for length in (2**k - 1, 2**k, 2**k + 1) if length > 2000}
    | {4**k + 1 for k in range(6, 11)}
    | {TABLE_LIMIT - 1, TABLE_LIMIT, TABLE_LIMIT + 1}
)


def assert_bijection(images: np.ndarray, length: int) -> None:
    seen = np.bincount(images, minlength=length)
    assert len(seen) == length
    assert (seen == 1).all()


def test_it_is_a_bijection_of_every_length_up_to_2000() -> None:
    """Every number has one image and every image one number, and `inverse` finds it."""
    for length in range(2001):
        permutation = Permutation(length, KEY)
        numbers = np.arange(length)
        images = permutation.forward(numbers)
        assert_bijection(images, length)
        assert np.array_equal(permutation.inverse(images), numbers)
        assert len(permutation) == length


@pytest.mark.parametrize("length", EDGES)
def test_it_is_a_bijection_where_domains_change(length: int) -> None:
    """Exhaustively, at 2**k - 1, 2**k, 2**k + 1 and 4**k + 1 up to 2**21."""
    for key in (KEY, (0, 0)):
        permutation = Permutation(length, key)
        numbers = np.arange(length)
        images = permutation.forward(numbers)
        assert_bijection(images, length)
        assert np.array_equal(permutation.inverse(images), numbers)


def test_the_cipher_is_a_bijection_of_short_lengths_too() -> None:
    """It is only used for long ones; short ones reach its corners: sides of 1, excess, cycle walking."""
    for length in range(1, 800):
        cipher = Cipher(length, KEY)
        numbers = np.arange(length, dtype=np.uint64)
        images = cipher.forward(numbers)
        assert_bijection(images.astype(np.int64), length)
        assert np.array_equal(cipher.inverse(images), numbers)
        assert [cipher.at(number) for number in range(length)] == images.tolist()


@given(
    length=st.integers(1, 2**63 - 1) | st.integers(TABLE_LIMIT - 2, TABLE_LIMIT + 3000),
    words=st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
    fractions=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20),
)
def test_any_length_and_key_can_be_undone(length: int, words: tuple[int, int], fractions: list[float]) -> None:
    """Images stay in range, differ where numbers do, and lead back; one at a time or as an array."""
    permutation = Permutation(length, words)
    numbers = np.array(sorted({min(int(fraction * length), length - 1) for fraction in fractions} | {0, length - 1}))
    images = permutation.forward(numbers)

    assert images.dtype == np.int64
    assert 0 <= images.min() <= images.max() < length
    assert len(set(images.tolist())) == len(numbers)
    assert np.array_equal(permutation.inverse(images), numbers)
    assert [permutation[number] for number in numbers.tolist()] == images.tolist()


@pytest.mark.parametrize("length", [10, TABLE_LIMIT, TABLE_LIMIT + 1, 10**12, 2**63 - 1])
def test_arrays_of_any_shape_and_stride_are_mapped_alike(length: int) -> None:
    """Empty, strided, two-dimensional and longer than one chunk: each number's image depends on it alone."""
    permutation = Permutation(length, KEY)
    numbers = np.random.default_rng(0).integers(0, length, 40_000)
    images = permutation.forward(numbers)

    assert np.array_equal(permutation.forward(numbers[::-3]), images[::-3])
    assert np.array_equal(permutation.forward(numbers.reshape(200, 200)), images.reshape(200, 200))
    assert np.array_equal(permutation.inverse(images.reshape(200, 200)), numbers.reshape(200, 200))
    assert permutation.forward(numbers[:0]).shape == (0,)
    assert np.array_equal(permutation.forward(numbers), images), "the input must not change"


@pytest.mark.parametrize("length", [1, 1000, TABLE_LIMIT, TABLE_LIMIT + 1])
def test_images_along_a_range_are_those_of_its_numbers(length: int) -> None:
    """From any number, to any, at any step that goes up."""
    permutation = Permutation(length, KEY)
    for numbers in (range(length), range(length - 1, length), range(0, length, 3), range(length // 3, length // 2 + 1, 7)):
        found = permutation.along(numbers)
        assert found.dtype == np.int64 and found.flags.writeable
        assert found.tolist() == permutation.forward(np.array(numbers)).tolist()


def test_rows_of_a_table_are_the_permutations_of_their_keys() -> None:
    """Many short permutations at once are those that each key gives alone, however many are made in one step."""
    root = root_words(3, "test")
    for length in (0, 1, 2, 7, 1000):
        keys = epoch_keys(root, np.arange(100_000 // max(1, length) if length < 100 else 150))
        rows = shuffled_rows(keys, length)
        for row in (0, 1, len(rows) // 2, len(rows) - 1):
            alone = Permutation(length, (int(keys[0][row]), int(keys[1][row])))
            assert rows[row].tolist() == alone.forward(np.arange(length)).tolist()


def test_keys_decide_the_permutation() -> None:
    """Each of the 128 bits of a key matters, at short and long lengths."""
    for length in (1000, TABLE_LIMIT + 1):
        numbers = np.arange(1000)
        images = {tuple(Permutation(length, KEY).forward(numbers).tolist())}
        for word in range(2):
            for bit in range(0, 64, 7):
                key = (KEY[0] ^ (word == 0) << bit, KEY[1] ^ (word == 1) << bit)
                images.add(tuple(Permutation(length, key).forward(numbers).tolist()))
        assert len(images) == 21


def test_keys_of_seeds_and_epochs_never_meet() -> None:
    """Seeds, purposes and epochs are hashed, not added: seed 0 epoch 1 is not seed 1 epoch 0."""
    seeds = [0, 1, 2, 3, -1, -2, 255, 256, -128, -129, 2**63, 2**64, -(2**64), 10**100, -(10**100)]
    keys = set()
    for seed in seeds:
        for purpose in ("shuffle", "blocks"):
            first, second = epoch_keys(root_words(seed, purpose), np.arange(1000))
            keys |= set(first.tolist()) | set(second.tolist())

    assert len(keys) == 2 * 2 * 1000 * len(seeds)


def test_mixing_words_one_by_one_or_as_an_array_is_the_same() -> None:
    """The plain and the vectorised form of the bijection agree, and no two words meet."""
    words = np.random.default_rng(1).integers(0, 2**64, 1000, dtype=np.uint64)
    words[:2] = 0, 2**64 - 1
    mixed = mix_words(words.copy())

    assert mixed.tolist() == [mix(word) for word in words.tolist()]
    assert len(set(mixed.tolist())) == 1000


def test_the_key_of_one_epoch_is_that_among_many() -> None:
    """Whether made by Python's integers or by NumPy; of epochs that no loop reaches, too."""
    root = root_words(7, "test")
    epochs = np.array([0, 1, 2, 1000, 1 << 40, (1 << 63) - 1])
    first, second = epoch_keys(root, epochs)

    assert [epoch_key(root, epoch) for epoch in epochs.tolist()] == [*zip(first.tolist(), second.tolist(), strict=True)]


def test_seeds_fit_into_states() -> None:
    """Small seeds are stored as they are; others as text that differs where they do."""
    seeds = [0, 7, -7, 2**53 - 1, 2**53, -(2**53), 2**255, 2**256 - 1, 2**256, -(2**256), 10**5000, 10**5000 + 1]
    stored = [seed_as_json(seed) for seed in seeds]

    assert stored[:4] == [0, 7, -7, 2**53 - 1]
    assert stored[4] == "0x20000000000000"
    assert len(set(stored)) == len(seeds)
    assert max(len(str(text)) for text in stored) <= 72


def test_it_pickles_without_its_table() -> None:
    """100 bytes or so, before and after use."""
    permutation = Permutation(TABLE_LIMIT, KEY)
    images = permutation.forward(np.arange(TABLE_LIMIT))
    data = pickle.dumps(permutation)

    assert len(data) < 200
    assert np.array_equal(pickle.loads(data).forward(np.arange(TABLE_LIMIT)), images)
    assert repr(permutation) == "Permutation(65536, key=(0x123456789abcdef, 0xfedcba9876543210))"


def test_wrong_lengths_and_keys_are_refused() -> None:
    """The message has the value and the bounds."""
    for length in (-1, 2**63, 10**30):
        with pytest.raises(ValueError, match=rf"length is {length}; .* 0 <= length < 2\*\*63"):
            Permutation(length, KEY)
    for key in ((-1, 0), (0, 2**64)):
        with pytest.raises(ValueError, match=r"0 <= word < 2\*\*64"):
            Permutation(5, key)
    with pytest.raises(TypeError):
        Permutation(5.0, KEY)  # type: ignore[arg-type]
    for length in (5, TABLE_LIMIT + 1):
        for number in (-1, length):
            with pytest.raises(IndexError, match=f"number {number} is out of range for a permutation of {length}"):
                Permutation(length, KEY)[number]
