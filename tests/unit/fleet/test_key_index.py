"""The index of keys against a dictionary of them."""

from collections.abc import Callable

import numpy as np
import pytest

from streamgp.fleet import key_index
from streamgp.fleet.directory import Directory
from streamgp.fleet.frames import Key
from streamgp.fleet.key_index import NEW, KeyIndex

MAKES: dict[str, Callable[[int], Key]] = {
    "short text": lambda i: f"k{i}",
    "long text": lambda i: f"{i:05d}, a key that is longer than twelve bytes, and not of ASCII: ä{i}",
    "whole numbers": lambda i: (-1) ** i * i,
    "of 64 bits and more": lambda i: 2**64 - 1 + i,
}


def grown(make: Callable[[int], Key], sizes: list[int]) -> tuple[KeyIndex, dict[Key, int]]:
    """Return an index to which keys came in parts of these sizes, and the dictionary of the same."""
    index, known = KeyIndex(), {}
    for size in sizes:
        new = [make(i) for i in range(len(known), len(known) + size)]
        index.add(new)
        known |= {key: len(known) + i for i, key in enumerate(new)}
    return index, known


def check(index: KeyIndex, known: dict[Key, int], make: Callable[[int], Key]) -> None:
    rng = np.random.default_rng(0)
    asked: list[Key | None] = [make(i) for i in rng.integers(0, 2 * len(known), 500).tolist()]
    asked[::7] = [None] * len(asked[::7])
    assert index.find(asked).tolist() == [NEW if key is None else known.get(key, NEW) for key in asked]
    assert len(index) == len(known)
    assert index.names() == list(known)
    at = rng.permutation(len(known))
    assert index.names(at) == [list(known)[i] for i in at.tolist()]


@pytest.mark.parametrize("sizes", [[3], [4_096], [4_097], [10, 5_000, 1, 300], [5_000, 5_000, 700]])
@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_finds_what_a_dictionary_finds(make: Callable[[int], Key], sizes: list[int]) -> None:
    check(*grown(make, sizes), make)


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_keys_with_the_same_hash_are_told_apart(make: Callable[[int], Key], monkeypatch: pytest.MonkeyPatch) -> None:
    own = key_index._hashes
    monkeypatch.setattr(key_index, "_hashes", lambda keys: own(keys) % np.uint64(301))
    check(*grown(make, [5_000, 700]), make)


def test_an_empty_index_knows_nobody() -> None:
    assert KeyIndex().find(["a", 3, None]).tolist() == [NEW] * 3
    assert KeyIndex().names() == []


@pytest.mark.parametrize("keys", [10, 6_000])
def test_keys_of_the_other_kind_are_unknown(keys: int) -> None:
    text, number = KeyIndex(), KeyIndex()
    text.add([str(i) for i in range(keys)])
    number.add(list(range(keys)))
    assert text.find([5, "5", None]).tolist() == [NEW, 5, NEW]
    assert number.find(["5", 5, None]).tolist() == [NEW, 5, NEW]


def test_a_key_may_have_more_rows_than_32_bits_count() -> None:
    directory = Directory(8)
    directory.add(["a", "b"])
    many = 2**31 - 1
    directory.restore(np.arange(2), {"rows": np.array([many, 1]), "seen": np.array([0.0, 1.0])})
    directory.count(np.array([0, 1, 0]), np.arange(3.0), np.zeros(3, bool), np.zeros(3, bool))
    assert directory.rows.tolist() == [many + 2, 2]
    assert directory.book(np.array([1, 0]))["rows"].tolist() == [2, many + 2]
    assert directory.seen.tolist() == [2.0, 1.0]
