"""From a few measured runs to a machine's factors: Bayesian shrinkage to what is usual.

For rows i with figure y_i (seconds or GiB), forecast f(x_i, t) under log-factors t, and features z_i:

    log y_i = log f(x_i, t) + g(z_i) + noise,   t ~ N(usual, spread^2),   g ~ GP(0, k),
    k(z, z') = residual^2 exp(-|z - z'|_1 / reach) + place^2 [same place]

t is the maximum a posteriori by damped Gauss-Newton steps, with rows that fit badly weighted
down (Student's t with 4 degrees of freedom); g is what is left over and alike for like layouts.
A figure may also be a bound: a run that fitted needed at most the card, one that did not at least
as much. Bounds enter by their normal probability (Tobin, 1958), so one that is far off says nothing.
With no rows the forecast is the usual one, and its spread says how little that is worth.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from math import erfc, exp, pi, sqrt

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Forecast = Callable[[Vector], Vector]  # log-factors -> log of the figure, row by row

ROUNDS = 25
FREEDOM = 4.0
SETTLED = 1e-4  # the largest move of a log-factor that ends the search
STEP = 1e-4  # of a log-factor, for slopes


class Bound(IntEnum):
    """What a figure says of the truth: that it is it, at most it, or at least it."""

    EXACT = 0
    AT_MOST = -1
    AT_LEAST = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Usual:
    """What factors are over many machines, and how well the formulas then fit. All in logs."""

    mean: Vector
    spread: Vector
    noise: float  # of one measurement
    residual: float  # what the formulas miss of one layout, alike in like ones
    reach: float  # how far in feature space that likeness goes
    place: float  # what they miss of everything at one place


@dataclass(frozen=True, kw_only=True, slots=True)
class Points:
    """Where rows lie: features (rows x features), and a number for the place of each."""

    features: Vector
    places: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.places)


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibrated:
    """A machine's log-factors, and what its calibration rows had left over."""

    usual: Usual
    mean: Vector
    covariance: Vector  # factors x factors
    points: Points  # of the rows
    precision: Vector  # rows x rows, inverse of the residuals' covariance
    left: Vector  # rows: log measured - log forecast

    def predict(self, forecast: Forecast, points: Points) -> tuple[Vector, Vector]:
        """Log of the figure and its standard deviation for new rows."""
        middle = forecast(self.mean)
        slopes = _slopes(forecast, self.mean, middle)
        near = likeness(points, self.points, self.usual)
        weights = near @ self.precision
        mean = middle + weights @ self.left
        known = np.einsum("ij,ij->i", weights, near)
        doubt = np.einsum("ij,jk,ik->i", slopes, self.covariance, slopes)
        missed = self.usual.residual**2 + self.usual.place**2
        variance = doubt + np.maximum(missed - known, np.zeros(())) + self.usual.noise**2
        return mean, np.sqrt(variance)


def calibrate(
    usual: Usual,
    forecast: Forecast,
    figures: Vector,
    points: Points,
    bounds: tuple[Bound, ...] = (),
) -> Calibrated:
    """Shrink the factors of one machine from `figures` of its measured rows.

    `bounds` says of each figure whether it is one; none given: all are exact.
    """
    count = len(figures)
    if count == 0:
        return Calibrated(
            usual=usual,
            mean=usual.mean,
            covariance=np.diag(usual.spread**2),
            points=points,
            precision=np.zeros((0, 0)),
            left=np.zeros(0),
        )
    logs = np.log(figures)
    sides = bounds or (Bound.EXACT,) * count
    alike = likeness(points, points, usual)
    prior = np.diag(1.0 / usual.spread**2)
    factors = usual.mean.copy()
    for _ in range(ROUNDS):
        middle = forecast(factors)
        left, noise = _residuals(usual, logs, middle, sides)
        slopes = _slopes(forecast, factors, middle)
        inverse = np.linalg.inv(alike + np.diag(noise))
        curvature = slopes.T @ inverse @ slopes + prior
        pull = slopes.T @ inverse @ left + prior @ (usual.mean - factors)
        move = np.linalg.solve(curvature, pull)
        move *= min(1.0, 1.0 / float(np.max(np.abs(move)) + 1e-12))
        factors = factors + move
        if float(np.max(np.abs(move))) < SETTLED:
            break
    middle = forecast(factors)
    left, noise = _residuals(usual, logs, middle, sides)
    precision = np.linalg.inv(alike + np.diag(noise)).astype(np.float64)
    slopes = _slopes(forecast, factors, middle)
    covariance = np.linalg.inv(slopes.T @ precision @ slopes + prior).astype(np.float64)
    return Calibrated(
        usual=usual,
        mean=factors,
        covariance=covariance,
        points=points,
        precision=precision,
        left=left,
    )


def _residuals(
    usual: Usual, logs: Vector, middle: Vector, sides: tuple[Bound, ...]
) -> tuple[Vector, Vector]:
    """What is left of each row, and the variance with which it counts."""
    scale = usual.noise**2 + usual.residual**2 + usual.place**2
    left, noise = logs - middle, np.empty(len(logs))
    for row, side in enumerate(sides):
        if side is Bound.EXACT:
            believed = (FREEDOM + 1) / (FREEDOM + left[row] ** 2 / scale)
            noise[row] = usual.noise**2 / believed
        else:
            push, weight = _bound(-side * float(left[row]) / sqrt(scale))
            left[row] = side * sqrt(scale) * push / weight
            noise[row] = scale / weight
    return left, noise


def _bound(room: float) -> tuple[float, float]:
    """Slope and curvature of log Phi(room): how hard a bound pushes that is `room` deviations off."""
    room = max(room, -6.0)
    below = max(0.5 * erfc(-room / sqrt(2)), 1e-300)
    push = exp(-(room**2) / 2) / sqrt(2 * pi) / below
    return push, max(push * (push + room), 1e-6)


def likeness(some: Points, others: Points, usual: Usual) -> Vector:
    """Covariance of what the formulas miss: most for equal layouts at one place."""
    apart = np.abs(some.features[:, None, :] - others.features[None, :, :]).sum(axis=2)
    same = some.places[:, None] == others.places[None, :]
    near: Vector = usual.residual**2 * np.exp(-apart / usual.reach) + usual.place**2 * same
    return near


def _slopes(forecast: Forecast, factors: Vector, middle: Vector) -> Vector:
    """d log figure / d log factor: rows x factors, by forward differences."""
    columns = []
    for index in range(len(factors)):
        moved = factors.copy()
        moved[index] += STEP
        columns.append((forecast(moved) - middle) / STEP)
    return np.stack(columns, axis=1)
