"""The pooled fit of a fleet to the rows of the warm-up."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from streamgp.fleet import products
from streamgp.fleet.experts import TOGETHER, FleetExperts
from streamgp.fleet.features import FeatureMap
from streamgp.fleet.model import FleetModel
from streamgp.fleet.prior import ROUGH_STEPS, FittedPrior, PooledPrior, Sums, fit, root
from streamgp.fleet.scales import REACH, YOUNG, KeyMoments, PoolScales
from streamgp.fleet.settings import FleetSettings
from streamgp.fleet.states import put, take
from streamgp.fleet.steps import Steps
from streamgp.stream.passed_rows import stand_ins
from streamgp.table.calendar import AUTO, CYCLES, DAY, WEEKEND, calendar_width

# The number of features of every expert; it is larger if there are more inputs.
FEATURES = 20
MIN_FREQUENCIES = 3
# The lengthscales are multiplied by the root of the number of inputs.
LENGTHSCALES = (1.0, 2.0, 4.0, 8.0)
MAX_SEASON = 60  # rows
# A key counts for the season once it has so many seasons.
MIN_SEASONS = 3
MIN_CORRELATION = 0.3
# The prior is fitted to the rows of so many keys at most.
MAX_KEYS = 512
# The first guess of the variance of the weights, and of those of which few rows say little: of products and the year.
FIRST_GUESS, SMALL_GUESS = 0.3, 0.01
# FleetExperts: which features, and the factor on the weights' deviation from the prior per unit of time, or per day
# where rows come within days.
EXPERTS = (("linear", 1.0), ("curved", 1.0), ("waved", 0.98))
# Where there are no products, the curved expert would be the linear one again.
WITHOUT_PRODUCTS = (("linear", 1.0), ("waved", 0.999), ("waved", 0.98))
# The discounts of the levels of noise.
DISCOUNTS = np.array([0.8, 0.98])
# Degrees of freedom of the parts of every prediction.
DOF = np.tile(1.0 / (1.0 - DISCOUNTS), len(EXPERTS))
# Cycles of the calendar, with the largest gap between rows for each, in seconds.
LARGEST_GAPS = {"day": 0.25 * DAY, "week": 2.0 * DAY, "year": 60.0 * DAY}
# How many times as fast the fastest wave of a cycle may be: four give the day two peaks of any place and height.
FASTEST = {"day": 4, "week": 3, "month": 1, "year": 1}


class PooledRows(NamedTuple):
    """Rows of many keys in the order in which they came, with the number of each one's key; y may be NaN."""

    key: Int[np.ndarray, " n"]
    times: Float[np.ndarray, " n"]
    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]

    def part(self, at: slice) -> "PooledRows":
        """Return some of the rows."""
        return PooledRows(*(a[at] for a in self))


def ranks(key: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Return how many rows of the same key stand before each."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    new = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(key) else np.zeros(0, np.int64)
    rank = np.empty(len(key), np.int64)
    rank[order] = np.arange(len(key)) - np.repeat(new, np.diff(np.r_[new, len(key)]))
    return rank


def rounds(key: Int[np.ndarray, " n"]) -> list[Int[np.ndarray, " m"]]:
    """Group rows by how many rows of the same key stand before them."""
    rank = ranks(key)
    by_rank = np.argsort(rank, kind="stable")
    return np.split(by_rank, np.cumsum(np.bincount(rank))[:-1]) if len(key) else []


def fit_fleet(rows: PooledRows, settings: FleetSettings, dated: bool, zone: str | None) -> FleetModel:
    """Fit what all keys share to the rows of the warm-up."""
    known = ~np.isnan(rows.y)
    by_key = [np.flatnonzero(rows.key == k) for k in np.unique(rows.key[known])[:MAX_KEYS].tolist()]
    values = np.column_stack([rows.y, rows.X])
    scales = PoolScales.of([values[at[known[at]]] for at in by_key])
    steps = Steps.of(rows.key, rows.times, dated, zone)
    season = settings.season
    if season == "auto":
        season = find_season([_between(rows.y[at]) for at in by_key])
    looked_back = tuple(sorted({*settings.lags, int(season)} if season else {*settings.lags}))
    entries = _entries(settings.calendar, steps.unit, dated)
    # A day's rows, where errors are carried on from row to row.
    a_day = DAY / steps.unit if "day" in entries and 1 in looked_back else 0.0
    plain = _plain(looked_back, entries, rows.X.shape[1], a_day)
    inputs = plain.num_linear - 1
    count = max(MIN_FREQUENCIES, (FEATURES - plain.num_linear) // 2)
    draws = np.random.default_rng(settings.random_state).normal(size=(count, inputs))
    sample = np.concatenate(by_key)
    sample.sort()
    sample = PooledRows(*(a[sample] for a in rows))
    standardised, candidates = _standardised(plain, scales, sample), []
    for lengthscale in LENGTHSCALES:
        tried = replace(plain, frequencies=draws / (lengthscale * np.sqrt(max(inputs, 1))))
        sums = _sums(tried, standardised)
        candidates.append((fit(sums, np.diag(_guess(tried)), ROUGH_STEPS), tried, sums))
    _, features, sums = max(candidates, key=lambda candidate: candidate[0].log_evidence)
    used = {"linear": np.arange(features.num_linear), "curved": features.curved, "waved": features.waved}
    chosen = EXPERTS if len(features.pairs) else WITHOUT_PRODUCTS
    kinds = [kind for kind, _ in chosen]
    carries = np.array([features.short > 0 and kind != "linear" for kind in kinds])
    counted = [sums.counted(1.0 / TOGETHER) if each else sums for each in carries.tolist()]
    fitted = [_fitted(of, used[kind], _guess(features)) for of, kind in zip(counted, kinds, strict=True)]
    num_weights = len(kinds) * len(DISCOUNTS)
    prior = PooledPrior(
        np.stack([each.mean for each in fitted]),
        np.stack([root(each.cov) for each in fitted]),
        np.full(num_weights, -np.log(num_weights)),
    )
    experts = FleetExperts(
        np.array([decay for _, decay in chosen]) ** (1.0 / max(a_day, 1.0)),
        np.array([each.noise_var for each in fitted]),
        carries,
        DISCOUNTS,
        fitted[-1].start,
    )
    return FleetModel(features, scales, experts, steps, [prior], target=settings.target_map)


def _plain(lags: tuple[int, ...], entries: tuple[str, ...], inputs: int, a_day: float) -> FeatureMap:
    """Return the features, but for Fourier features, of rows of which so many come a day if there are several."""
    short = sum(lag < a_day for lag in lags)
    pairs = products.chosen(len(lags), entries, inputs, with_lag=1 in lags and not short)
    return FeatureMap(lags, entries, inputs, short, pairs, np.zeros((0, 0)))


def _guess(features: FeatureMap) -> Float[np.ndarray, " f"]:
    """Return the first guess of the variance of each feature's weight."""
    guess, at = np.full(features.num_features, FIRST_GUESS), 1 + len(features.lags)
    for entry in features.calendar:
        width = calendar_width((entry,))
        if entry == "year":
            guess[at : at + width] = SMALL_GUESS
        at += width
    guess[features.num_linear : features.num_curved] = SMALL_GUESS
    return guess


def _entries(calendar: Sequence[str], unit: float, dated: bool) -> tuple[str, ...]:
    """Return the entries of a calendar, with the cycles that rows so far apart show for ``auto``.

    A cycle has the waves that rows so far apart tell from each other: more than two rows each.
    """
    shown = [cycle for cycle, largest in LARGEST_GAPS.items() if dated and AUTO in calendar and unit <= largest]
    found = []
    for entry in (*shown, *(entry for entry in calendar if entry != AUTO)):
        waves = range(2, FASTEST.get(entry, 1) + 1)
        found += [entry, *(f"{entry}/{wave}" for wave in waves if CYCLES[entry] / wave > 2.0 * unit)]
    if {"day", "week"} <= set(shown):
        found.append(WEEKEND)
    return tuple(found)


def find_season(targets: list[np.ndarray]) -> int | None:
    """Find the season of the keys, in rows: the first high peak of their mean autocorrelation, if there is one.

    That of the differences, in which neither a level nor a trend correlates.
    """
    total, seen = np.zeros(MAX_SEASON + 2), np.zeros(MAX_SEASON + 2)
    for y in targets:
        d = np.diff(y)
        scale = np.median(np.abs(d)) if len(d) else 0.0
        if scale > 0.0:
            d = np.clip(d, -REACH * scale, REACH * scale)
            d = d - d.mean()
            # The key is a straight line.
            if not d @ d > 0.0:
                continue
            most = min(MAX_SEASON + 1, len(d) // MIN_SEASONS)
            total[: most + 1] += [
                d[lag:] @ d[: len(d) - lag] / (d @ d) * len(d) / (len(d) - lag) for lag in range(most + 1)
            ]
            seen[: most + 1] += 1.0
    mean = total / np.maximum(seen, 1.0)
    inner = np.arange(2, MAX_SEASON + 1)
    peaks = inner[
        (mean[inner] > MIN_CORRELATION) & (mean[inner] >= mean[inner - 1]) & (mean[inner] >= mean[inner + 1])
    ]
    high = peaks[mean[peaks] > 0.9 * mean[peaks].max()] if len(peaks) else peaks
    return int(high[0]) if len(high) else None


def _between(y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return targets with those that are missing on a line between their neighbours."""
    rows, known = np.arange(len(y)), ~np.isnan(y)
    return np.interp(rows, rows[known], y[known])


def _fitted(sums: Sums, used: Int[np.ndarray, " u"], guess: Float[np.ndarray, " f"]) -> FittedPrior:
    """Fit the prior of some of the features; the others have no weight."""
    features, found = sums.cross.shape[1], fit(sums.of(used), np.diag(guess[used]))
    mean, cov = np.zeros(features), np.zeros((features, features))
    mean[used], cov[np.ix_(used, used)] = found.mean, found.cov
    return replace(found, mean=mean, cov=cov)


class _Standardised(NamedTuple):
    """Rows of so many keys as the filters will see them, but for outliers: inputs of the features, and targets."""

    keys: int
    key: Int[np.ndarray, " n"]
    Z: Float[np.ndarray, "n z"]
    u: Float[np.ndarray, " n"]


def _standardised(features: FeatureMap, scales: PoolScales, rows: PooledRows) -> _Standardised:
    """Return the rows with a target in units of the scales that their keys had before them."""
    key = np.unique(rows.key, return_inverse=True)[1]
    num_keys = int(key.max()) + 1
    past = np.full((num_keys, features.width), np.nan)
    moments = KeyMoments.none(num_keys, 1 + features.num_inputs)
    kept: list[tuple[Any, ...]] = []
    for at in rounds(key):
        k, y, X = key[at], rows.y[at], rows.X[at]
        before = take(moments, k)
        center, scale = scales.locate(before)
        Z = features.standardise(past[k], X, rows.times[at], center, scale)
        kept.append((k, Z, (y - center[:, 0]) / scale[:, 0]))
        known = ~np.isnan(y)
        # A row without a target is passed over as `FleetModel.pass_over` does, but that nothing is predicted yet.
        moves = known | (before.count[:, 0] >= YOUNG)
        last = np.where(known, y, stand_ins(past[k], max(features.lags, default=0), 1)[:, 0])
        past[k[moves]] = np.concatenate([past[k[moves], 1:], last[moves, None]], axis=1)
        k, y, X, before, scale = k[known], y[known], X[known], take(before, known), scale[known]
        ordinary = np.zeros(len(k), bool)
        put(moments, k, scales.learn_row(before, past[k], np.column_stack([y, X]), scale, ordinary))
    k, Z, u = (np.concatenate(each) for each in zip(*kept, strict=True))
    usable = np.abs(u) <= REACH  # and known
    return _Standardised(num_keys, k[usable], Z[usable], u[usable])


def _sums(features: FeatureMap, rows: _Standardised) -> Sums:
    """Return the sums of every key over the rows."""
    num_keys, k, u, phi = rows.keys, rows.key, rows.u, features(rows.Z)
    F = features.num_features
    gram, cross = np.zeros((num_keys, F, F)), np.zeros((num_keys, F))
    for i in range(num_keys):
        mine = k == i
        gram[i], cross[i] = phi[mine].T @ phi[mine], u[mine] @ phi[mine]
    return Sums(gram, cross, np.bincount(k, u * u, num_keys), np.bincount(k, minlength=num_keys).astype(float))
