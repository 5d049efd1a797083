"""Spaces: what is encoded comes back, what is drawn lies inside, and an error names the place."""

from collections import Counter
from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import config
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist

from streamgp.bandits.parameters import Choice, Integer, Real
from streamgp.bandits.space import Box, Candidates, as_space

EPS = np.finfo(float).eps
MIXED = as_space(
    {
        "gain": Real(0.1, 1000.0, log=True),
        "offset": (-3.0, 5.0),
        "count": Integer(2, 9),
        "size": Integer(1, 1000, log=True),
        "mode": ["slow", "fast", None],
    }
)
PLACES = np.array([[0.0, 7.0], [4.0, 7.0], [1.0, 9.0], [3.0, 17.0]])


def reals(log: bool) -> st.SearchStrategy[tuple[Real, float]]:
    """A range and a number in it."""

    @st.composite
    def draw(of: st.DrawFn) -> tuple[Real, float]:
        low = of(st.floats(1e-9, 1e3) if log else st.floats(-1e6, 1e6))
        one = Real(low, low * of(st.floats(1.01, 1e12)) if log else low + of(st.floats(1e-3, 1e6)), log)
        return one, of(st.floats(one.low, one.high))

    return draw()


@st.composite
def integers(of: st.DrawFn) -> tuple[Integer, int]:
    log = of(st.booleans())
    low = of(st.integers(1, 1000) if log else st.integers(-(10**6), 10**6))
    one = Integer(low, low + of(st.integers(1, 10**6)), log)
    return one, of(st.integers(one.low, one.high))


@settings(max_examples=60, deadline=None)
@given(st.booleans().flatmap(reals))
def test_a_number_comes_back(drawn):
    one, value = drawn
    u = np.array(one.encode(value, "x"))
    assert 0.0 <= u[0] <= 1.0
    widest = max(abs(one.low), abs(one.high))
    assert_allclose(one.decode(u), value, rtol=1e-13 if one.log else 0.0, atol=0.0 if one.log else 4 * EPS * widest)
    assert [one.encode(end, "x") for end in (one.low, one.high)] == [[0.0], [1.0]]
    assert [one.decode(np.array([end])) for end in (0.0, 1.0)] == pytest.approx([one.low, one.high], rel=1e-13)
    assert one.low <= one.decode(np.array([2.0])) <= one.high


@settings(max_examples=60, deadline=None)
@given(integers())
def test_a_whole_number_comes_back(drawn):
    one, value = drawn
    u = np.array(one.encode(value, "x"))
    assert 0.0 <= u[0] <= 1.0
    assert one.decode(u) == value
    assert type(one.decode(u)) is int
    assert_allclose(one.snap(u[None]), u[None], rtol=0, atol=2 * EPS)
    assert (one.decode(np.array([-0.5])), one.decode(np.array([1.5]))) == (one.low, one.high)


@pytest.mark.parametrize("one", [Real(0.1, 1000.0, log=True), Integer(1, 10_000, log=True)])
def test_equal_ratios_are_equally_far_in_logs(one):
    values = one.low * 10.0 ** np.arange(5)
    assert_allclose([one.encode(v, "x")[0] for v in values], np.linspace(0.0, 1.0, 5), atol=1e-14)


@pytest.mark.parametrize("one", [Real(-2.0, 6.0), Integer(-2, 6)])
def test_equal_steps_are_equally_far_otherwise(one):
    assert_allclose([one.encode(v, "x")[0] for v in (-2, 0, 2, 4, 6)], np.linspace(0.0, 1.0, 5), atol=1e-15)


@settings(max_examples=40, deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "gain": st.floats(0.1, 1000.0),
            "offset": st.floats(-3.0, 5.0),
            "count": st.integers(2, 9),
            "size": st.integers(1, 1000),
            "mode": st.sampled_from(["slow", "fast", None]),
        }
    )
)
def test_a_dictionary_comes_back(x):
    u = MIXED.encode(dict(reversed(x.items())))  # the order of names plays no part
    back = MIXED.decode(u)
    assert list(back) == list(MIXED.names)
    assert [back[name] for name in ("count", "size", "mode")] == [x[name] for name in ("count", "size", "mode")]
    assert_allclose([back["gain"], back["offset"]], [x["gain"], x["offset"]], rtol=1e-12, atol=1e-14)
    assert_allclose(MIXED.snap(u[None])[0], u, atol=4 * EPS)
    (again,) = MIXED.decode_all(MIXED.encode_all([x]))
    assert again == back


def test_coordinates_stand_in_the_order_of_the_parameters():
    u = MIXED.encode({"gain": 10.0, "offset": -3.0, "count": 9, "size": 1, "mode": "fast"})
    assert_allclose(u, [0.5, 0.0, 1.0, 0.0, 0.0, np.sqrt(0.5), 0.0], atol=1e-15)
    assert MIXED.groups.tolist() == [0, 1, 2, 3, 4, 4, 4]
    assert MIXED.columns == [slice(0, 1), slice(1, 2), slice(2, 3), slice(3, 4), slice(4, 7)]
    assert MIXED.continuous.tolist() == [True, True, False, False, False, False, False]
    assert [one.width for one in MIXED.parameters] == [1, 1, 1, 1, 3]


def test_points_without_names_are_arrays():
    box = as_space([(0.0, 10.0), Real(1.0, 100.0, log=True), Integer(0, 4)])
    X = np.array([[2.5, 10.0, 1.0], [0.0, 100.0, 4.0]])
    U = box.encode_all(X)
    assert_allclose(U, [[0.25, 0.5, 0.25], [0.0, 1.0, 1.0]], atol=1e-15)
    assert_allclose(box.decode_all(U), X, rtol=1e-13)
    back = box.decode(U[0])
    assert isinstance(back, np.ndarray)
    assert back.dtype == float
    assert_allclose(back, X[0], rtol=1e-13)
    assert_array_equal(box.encode([2.5, 10.0, 1]), U[0])
    assert box.encode_all(np.zeros((0, 3))).shape == box.decode_all(np.zeros((0, 3))).shape == (0, 3)


def test_one_number_needs_no_brackets():
    for space in (as_space([(0.0, 10.0)]), Candidates([[0.0], [2.5], [5.0], [10.0]])):
        for x in (2.5, [2.5], np.array(2.5), np.array([2.5]), np.float32(2.5)):
            assert_array_equal(space.encode(x), [0.25])
        for X in ([2.5, 5, 0.0], [[2.5], [5.0], [0.0]], np.array([2.5, 5.0, 0.0]), np.array([[2.5], [5], [0]])):
            assert_array_equal(space.encode_all(X), [[0.25], [0.5], [0.0]])
        assert_array_equal(space.decode(np.array([0.25])), [2.5])
        assert_array_equal(space.decode_all(np.array([[0.25], [1.0]])), [[2.5], [10.0]])
        assert space.encode_all([]).shape == (0, 1)
    named = as_space({"x": (0.0, 10.0)})
    for scalar in (np.float32(2.5), np.array(2.5), jnp.array(2.5)):
        assert named.encode({"x": scalar}) == [0.25]
        assert_array_equal(as_space([(0.0, 10.0), (0, 1)]).encode([scalar, 1]), [0.25, 1.0])
    assert named.decode_all(np.array([[0.25]])) == [{"x": 2.5}]


def test_candidates_come_back():
    plain, named = Candidates(PLACES), Candidates(PLACES.tolist(), ("north", ("east", 2), 7, None))
    unit = [[0.0, 0.0], [1.0, 0.0], [0.25, 0.2], [0.75, 1.0]]
    assert_allclose(plain.unit, unit, atol=1e-15)
    assert plain.groups.tolist() == [0, 1]
    for i in range(4):
        assert_array_equal(plain.encode(PLACES[i] * (1.0 + 2.0 * EPS)), plain.unit[i])
        assert_array_equal(plain.decode(plain.unit[i] + 0.05), PLACES[i])
        assert_array_equal(named.encode(named.labels[i]), plain.unit[i])
        assert named.decode(plain.unit[i] - 0.05) == named.labels[i]
    assert_array_equal(plain.encode_all(PLACES[[2, 0, 2]]), plain.unit[[2, 0, 2]])
    assert_array_equal(plain.decode_all(plain.unit[[2, 0]]), PLACES[[2, 0]])
    assert named.decode_all(named.encode_all([7, "north", 7])) == [7, "north", 7]
    assert plain.encode_all(np.zeros((0, 2))).shape == named.encode_all([]).shape == (0, 2)


def test_a_column_that_is_constant_plays_no_part():
    space = Candidates([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]])
    assert_array_equal(space.unit, [[0.0, 0.0], [1.0, 0.0], [0.5, 0.0]])


def test_what_is_given_and_taken_is_the_users_own():
    points = PLACES.copy()
    space = Candidates(points)
    points[0] = 99.0
    space.decode(np.zeros(2))[:] = 99.0
    assert_array_equal(space.points, PLACES)


def test_categories_are_equally_far():
    for n in (2, 3, 7):
        one = Choice(tuple("abcdefg"[:n]))
        assert_allclose(pdist([one.encode(v, "x") for v in one.values]), 1.0, rtol=1e-15)
    # As far as the ends of a number's range are.
    assert_allclose(pdist([Real(3.0, 8.0).encode(v, "x") for v in (3.0, 8.0)]), 1.0)


def test_categories_keep_their_types():
    one = as_space({"x": [1, "1", None, (2, "x"), 2.5, False]}).parameters[0]
    for value in one.values:
        back = one.decode(np.array(one.encode(value, "x")))
        assert back == value
        assert type(back) is type(value)


def test_snapping_goes_to_the_nearest():
    U = np.random.default_rng(0).uniform(-0.3, 1.3, (300, 1))
    assert_array_equal(Real(2.0, 3.0).snap(U), np.clip(U, 0.0, 1.0))
    for one, among in ((Integer(-3, 4), np.linspace(0.0, 1.0, 8)), (Integer(0, 1), np.array([0.0, 1.0]))):
        assert_allclose(one.snap(U)[:, 0], among[np.abs(U - among).argmin(axis=1)], atol=4 * EPS)
    # On a log scale the nearest number counts, so that what is snapped is what `decode` says.
    one = Integer(1, 50, log=True)
    values = 50.0 ** np.clip(U[:, 0], 0.0, 1.0)
    nearest = np.abs(values[:, None] - np.arange(1, 51)).argmin(axis=1) + 1
    assert_allclose(one.snap(U)[:, 0], np.log(nearest) / np.log(50.0), atol=1e-14)
    assert [one.decode(u) for u in U] == nearest.tolist()

    corners = np.sqrt(0.5) * np.eye(4)
    V = np.random.default_rng(1).normal(size=(300, 4))
    apart = np.square(V[:, None] - corners).sum(axis=2)
    assert_allclose(Choice(tuple("abcd")).snap(V), corners[apart.argmin(axis=1)])

    W = np.random.default_rng(2).uniform(-0.2, 1.2, (50, 7))
    for u, snapped in zip(W, MIXED.snap(W), strict=True):
        assert_allclose(MIXED.encode(MIXED.decode(u)), snapped, atol=1e-14)


def test_draws_cover_a_box_evenly():
    rng = np.random.default_rng(0)
    line = as_space([(3.0, 4.0)]).draw(rng, 64)
    assert sorted((64 * line[:, 0]).astype(int)) == list(range(64))
    plane = as_space([(0.0, 1.0), Real(1.0, 9.0, log=True)]).draw(rng, 64)
    assert len(set(map(tuple, (8 * plane).astype(int).tolist()))) == 64  # one in each of 64 squares
    counts = Counter(as_space([Integer(0, 4)]).decode_all(as_space([Integer(0, 4)]).draw(rng, 256)).ravel())
    assert all(abs(counts[value] - expected) <= 1 for value, expected in enumerate([32, 64, 64, 64, 32]))
    for n in (0, 1, 5, 64, 100):
        assert MIXED.draw(rng, n).shape == (n, 7)
    U = MIXED.draw(rng, 512)
    points = MIXED.decode_all(U)
    assert_allclose(MIXED.encode_all(points), U, atol=1e-13)
    for name, number in (("count", 8), ("mode", 3)):
        share = np.array(list(Counter(point[name] for point in points).values())) / 512
        assert len(share) == number
        assert 0.4 / number < share.min() <= share.max() < 1.4 / number


def test_draws_of_candidates_are_without_replacement():
    space, rng, number = Candidates(PLACES), np.random.default_rng(1), 1200
    for n in (0, 1, 3):
        drawn = space.draw(rng, n)
        assert drawn.shape == (n, 2)
        assert len(set(map(tuple, drawn.tolist()))) == n
    for n in (4, 9):
        assert sorted(space.draw(rng, n).tolist()) == sorted(space.unit.tolist())
    pairs = Counter(tuple(space.decode_all(space.draw(rng, 2)).ravel().tolist()) for _ in range(number))
    share = np.array(list(pairs.values())) / number
    assert len(share) == 12
    assert np.abs(share - 1 / 12).max() < 4.0 * np.sqrt(1 / 12 * 11 / 12 / number)


@pytest.mark.parametrize("space", [MIXED, Candidates(np.arange(30.0)[:, None])], ids=["box", "candidates"])
def test_the_generator_alone_decides(space):
    one, same, other = (space.draw(np.random.default_rng(seed), 16) for seed in (0, 0, 1))
    assert_array_equal(one, same)
    assert np.any(one != other)


def test_shorthands():
    names = {"a": (1, 2), "b": [0.5, 2.0], "c": ["u", "v"], "d": [1, 2, 3], "e": (True, False), "f": Integer(1, 5)}
    box = as_space(names)
    assert box.names == tuple("abcdef")
    pair, other = Real(1.0, 2.0), Choice((0.5, 2.0))
    categories = Choice(("u", "v")), Choice((1, 2, 3)), Choice((True, False))
    assert box.parameters == (pair, other, *categories, Integer(1, 5))
    wanted = Box((Real(0.0, 1.0), Real(2.0, 5.0)))
    for pairs in ([(0, 1), (2, 5)], ((0, 1), (2, 5)), [[0, 1], [2, 5]], np.array([[0, 1], [2, 5]])):
        assert as_space(pairs) == wanted
    for space in (wanted, Candidates(PLACES)):
        assert as_space(space) is space


LINE, PLANE = as_space([(0.0, 1.0)]), as_space([(0.0, 1.0), Integer(1, 5)])
NAMED, LABELLED = as_space({"x": (0.0, 1.0), "kind": ["a", "b"]}), Candidates(PLACES, tuple("nesw"))


@pytest.mark.parametrize(
    ("space", "x", "message"),
    [
        (LINE, [0.1, 0.2], r"^x: expected 1 numbers, one per parameter, got shape \(2,\)$"),
        (PLANE, 0.5, r"^x: expected 2 numbers, one per parameter, got shape \(\)$"),
        (PLANE, [[0.5, 1]], r"^x: expected 2 numbers, one per parameter, got shape \(1, 2\)$"),
        (PLANE, {"x": 0.5}, r"^x: expected 2 numbers, one per parameter, got shape \(\)$"),
        (PLANE, [[0.5], [1, 2]], r"^x\[0\]: expected a finite number, got \[0.5\]$"),
        (PLANE, [1.1, 1], r"^x\[0\]: expected a number from 0 to 1, got 1\.1$"),
        (PLANE, [-1e-6, 1], r"^x\[0\]: expected a number from 0 to 1, got -1e-06$"),
        (PLANE, [0.5, 6], r"^x\[1\]: expected a whole number from 1 to 5, got 6$"),
        (PLANE, [0.5, 0], r"^x\[1\]: expected a whole number from 1 to 5, got 0$"),
        (PLANE, [0.5, 2.5], r"^x\[1\]: expected a whole number from 1 to 5, got 2\.5$"),
        (PLANE, [np.nan, 1], r"^x\[0\]: expected a finite number, got nan$"),
        (PLANE, [0.5, np.inf], r"^x\[1\]: expected a finite number, got inf$"),
        (PLANE, [True, 1], r"^x\[0\]: expected a finite number, got True$"),
        (PLANE, [np.True_, 1], r"^x\[0\]: expected a finite number, got True$"),
        (PLANE, [0.5, True], r"^x\[1\]: expected a finite number, got True$"),
        (PLANE, ["a", 1], r"^x\[0\]: expected a finite number, got 'a'$"),
        (LINE, None, r"^x\[0\]: expected a finite number, got None$"),
        (NAMED, {"x": 2.0, "kind": "a"}, r"^x\['x'\]: expected a number from 0 to 1, got 2\.0$"),
        (NAMED, {"x": np.nan, "kind": "a"}, r"^x\['x'\]: expected a finite number, got nan$"),
        (NAMED, {"x": True, "kind": "a"}, r"^x\['x'\]: expected a finite number, got True$"),
        (NAMED, {"x": 0.5, "kind": "c"}, r"^x\['kind'\]: expected one of 'a', 'b', got 'c'$"),
        (NAMED, {"x": 0.5}, "^x: expected a dictionary of x, kind, got x$"),
        (NAMED, {"x": 0.5, "kind": "a", "y": 1}, "^x: expected a dictionary of x, kind, got x, kind, y$"),
        (NAMED, {"X": 0.5, "kind": "a"}, "^x: expected a dictionary of x, kind, got X, kind$"),
        (NAMED, [0.5, "a"], r"^x: expected a dictionary of x, kind, got \[0\.5, 'a'\]$"),
        (LABELLED, "q", "^x: expected one of the 4 labels of the candidates, got 'q'$"),
        (Candidates(PLACES), [0.0], r"^x: expected 2 numbers, got shape \(1,\)$"),
        (Candidates(PLACES), ["n", "e"], r"^x: expected 2 numbers, got \['n', 'e'\]$"),
        (Candidates(PLACES), [0.0, 7.1], r"^x: expected one of the 4 candidates, got \[0\.0, 7\.1\]$"),
        (Candidates(PLACES), [0.0, np.nan], r"^x: expected one of the 4 candidates, got \[0\.0, nan\]$"),
        # Each column has its own scale, however small beside another.
        (Candidates([[1e6, 0.0], [2e6, 1e-4]]), [1e6, 5e-5], "^x: expected one of the 2 candidates"),
        (Candidates([[1e-12], [1e-9]]), 5e-10, "^x: expected one of the 2 candidates"),
    ],
    ids=str,
)
def test_errors_name_the_place(space, x, message):
    with pytest.raises(ValueError, match=message):
        space.encode(x)
    with pytest.raises(ValueError, match=message.replace("^x", r"^X\[1\]")):
        space.encode_all([space.decode(space.draw(np.random.default_rng(0), 1)[0]), x])
    with pytest.raises(ValueError, match=message.replace("^x", "^start")):
        space.encode(x, "start")


def test_a_number_that_rounding_has_moved_counts_as_inside():
    one = Real(0.1, 0.3)
    assert one.encode(0.1 + 0.2, "x") == [1.0]  # 0.30000000000000004
    assert Real(10.0, 1000.0, log=True).encode(10.0 - 1e-9, "x") == [0.0]
    with pytest.raises(ValueError, match=r"expected a number from 0\.1 to 0\.3"):
        one.encode(0.3 + 1e-8, "x")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Real(-1e308, 1e308), r"^Real: expected numbers of at most 1e\+100 .* another unit"),
        (
            lambda: Real(-1e101, 0.0),
            r"^Real: expected numbers of at most 1e\+100 .* got -1e\+101 and 0\.0;",
        ),
        (lambda: Real(0.0, 5e-324), "^Real: expected numbers .* at least 1e-100 apart, got"),
        (lambda: Real(1e-300, 1.0, log=True), "^Real: expected low of at least 1e-100 on a log scale, got 1e-300"),
        (lambda: Integer(0, 10**400), r"^Integer: expected whole numbers of at most 2\^53"),
        (lambda: as_space([(-1e308, 1e308)]), "^Real: expected numbers of at most"),
        (lambda: Candidates([[-1e308], [1e308]]), r"^Candidates: expected numbers of at most 1e\+100, got 1e\+308"),
        (lambda: Real(1.0, 1.0), r"^Real: expected finite low < high, got 1\.0 and 1\.0"),
        (lambda: Real(0.0, np.inf), "^Real: expected finite low < high, got 0.0 and inf"),
        (lambda: Real(np.nan, 1.0), "^Real: expected finite low < high, got nan"),
        (lambda: Real(0.0, 1.0, log=True), r"^Real: expected low > 0 on a log scale, got 0\.0"),
        (lambda: Integer(5, 2), "^Integer: expected finite low < high, got 5 and 2"),
        (lambda: Integer(-1, 2, log=True), "^Integer: expected low > 0 on a log scale, got -1"),
        (lambda: Choice(("a",)), r"^Choice: expected two or more different values, got \('a',\)"),
        (lambda: Choice(("a", (1, frozenset()))), r"^Choice: expected strings, numbers, .*, got \('a', \(1, fro"),
        (lambda: as_space({1: (0, 1), "1": (0, 1)}), r"^space: expected 2 different names, got \('1', '1'\)"),
        (lambda: Choice(("a", "b", "a")), "^Choice: expected two or more different values"),
        (lambda: as_space([]), "^space: expected at least one parameter, got none"),
        (lambda: as_space({}), "^space: expected at least one parameter, got none"),
        (lambda: as_space([(0, 1), ["a", "b"]]), "^space: expected names where there are categories"),
        (lambda: as_space("ab"), "^space: expected a dictionary such as .*, got 'ab'"),
        (lambda: as_space(3), "^space: expected a dictionary such as .*, got 3"),
        (lambda: as_space({"a": (0, 1), "b": 3}), r"^space\['b'\]: expected \(low, high\), .*, got 3"),
        (lambda: as_space({"b": (1, 2, 3)}), r"^space\['b'\]: expected \(low, high\), .*, got \(1, 2, 3\)"),
        (lambda: as_space([(0, 1), 3.0]), r"^space\[1\]: expected \(low, high\), .*, got 3\.0"),
        (lambda: as_space(np.zeros(2)), r"^space\[0\]: expected \(low, high\), .*, got 0\.0"),
        (lambda: Candidates([1.0, 2.0]), r"^Candidates: expected finite numbers of shape \(n, d\), got shape \(2,\)"),
        (lambda: Candidates(np.zeros((0, 2))), r"^Candidates: .*, got shape \(0, 2\)"),
        (lambda: Candidates([[np.nan]]), "^Candidates: expected finite numbers"),
        (lambda: Candidates([[1.0, 2.0], [1.0, 2.0]]), "^Candidates: expected different points, got the same one"),
        (lambda: Candidates(PLACES, tuple("abc")), "^Candidates: expected 4 different labels, got 3"),
        (lambda: Candidates(PLACES, tuple("abca")), "^Candidates: expected 4 different labels, got 3"),
    ],
)
def test_spaces_that_make_no_sense(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.fixture
def unchecked() -> Iterator[None]:
    """As users have it, who may pass what is not quite of the type."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def test_whole_numbers_of_numpy_are_whole_numbers(unchecked):
    one = Integer(*np.array([1, 64]), log=True)
    assert one == Integer(1, 64, log=True)
    assert (type(one.low), type(one.high)) == (int, int)
    for value in (np.int32(8), np.float64(8.0), 8.0):
        assert_allclose(one.encode(value, "x"), [0.5], rtol=1e-15)
    with pytest.raises(ValueError, match=r"^Integer: expected whole numbers, got 0\.5 and 2; or use Real"):
        Integer(0.5, 2)
