"""The baseline people would write instead: one numba loop a learner, parallel over orders, shuffles in the kernel.

Written for speed, as a careful user would: fastmath, no allocation in the loop, the classifier in force kept in memory,
the order shuffled in place by a xorshift generator (cheaper than any library call). Each learner keeps its vectors in
the rows of `v` and its numbers in `s`; s[0] counts mistakes, s[1] updates. The extra coordinate of the learners with a
bias is appended to the data beforehand, as a user would do.
"""

import math

import numba
import numpy as np
from numba import njit, prange


@njit(fastmath=True, inline="always")
def _dot(a, b):
    total = a.dtype.type(0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@njit(fastmath=True, inline="always")
def _omm(v, s, x, y, rho):
    """Rows w, v+, v-; s[2] = b, s[3] = gamma, s[4] and s[5] whether a positive and a negative were seen."""
    positive, started = y > 0, s[4] + s[5] == 2
    score = _dot(v[0], x) + s[2] if started else (-1.0 if s[5] > 0 else 1.0)
    mistake = (score >= 0) != positive
    s[0] += mistake
    if started:
        if y * score >= rho * s[3] and not mistake:
            return
    elif s[4 if positive else 5] > 0:
        return
    s[1] += 1
    mine = v[1] if positive else v[2]
    other = v[2] if positive else v[1]
    if not started:
        mine[:] = x
        s[4 if positive else 5] = 1
    else:
        top = bottom = x.dtype.type(0)
        for i in range(x.shape[0]):
            step = mine[i] - x[i]
            top += (mine[i] - other[i]) * step
            bottom += step * step
        beta = min(max(top / bottom, 0.0), 1.0) if bottom > 0 else 0.0
        for i in range(x.shape[0]):
            mine[i] += x.dtype.type(beta) * (x[i] - mine[i])
    if s[4] + s[5] == 2:
        square = bias = x.dtype.type(0)
        for i in range(x.shape[0]):
            u = v[1, i] - v[2, i]
            square += u * u
            bias += u * (v[1, i] + v[2, i])
        size = math.sqrt(square)
        for i in range(x.shape[0]):
            v[0, i] = (v[1, i] - v[2, i]) / x.dtype.type(size)
        s[2], s[3] = -bias / (2 * size), size / 2


@njit(fastmath=True, inline="always")
def _pumma(v, s, x, y, delta):
    """Rows w, x+, x-, certificate; s[2] = b, s[4] and s[5] whether a positive and a negative were seen."""
    positive, started = y > 0, s[4] + s[5] == 2
    score = _dot(v[0], x) + s[2] if started else (-1.0 if s[5] > 0 else 1.0)
    mistake = (score >= 0) != positive
    s[0] += mistake
    if started:
        if y * score >= 1 - delta and not mistake:
            return
    elif s[4 if positive else 5] > 0:
        return
    s[1] += 1
    v[1 if positive else 2, :] = x
    if not started:
        s[4 if positive else 5] = 1
        beta = 1.0
    else:
        top = bottom = x.dtype.type(0)
        for i in range(x.shape[0]):
            step = v[3, i] - (v[1, i] - v[2, i])
            top += v[3, i] * step
            bottom += step * step
        beta = min(max(top / bottom, 0.0), 1.0) if bottom > 0 else 0.0
    if s[4] + s[5] == 2:
        square = bias = x.dtype.type(0)
        for i in range(x.shape[0]):
            v[3, i] += x.dtype.type(beta) * ((v[1, i] - v[2, i]) - v[3, i])
            square += v[3, i] * v[3, i]
            bias += v[3, i] * (v[1, i] + v[2, i])
        for i in range(x.shape[0]):
            v[0, i] = 2 * v[3, i] / square
        s[2] = -bias / square


@njit(fastmath=True, inline="always")
def _romma(v, s, x, y, level):
    """Rows w, certificate; level 0 is ROMMA (equality fires), above it the aggressive version."""
    signed = y * _dot(v[0], x)
    s[0] += (signed < 0) or (signed == 0 and y < 0)
    if signed > level or (signed == level and level > 0):
        return
    s[1] += 1
    if s[1] == 1:
        for i in range(x.shape[0]):
            v[1, i] = y * x[i]
    else:
        top = bottom = x.dtype.type(0)
        for i in range(x.shape[0]):
            step = v[1, i] - y * x[i]
            top += v[1, i] * step
            bottom += step * step
        beta = x.dtype.type(min(max(top / bottom, 0.0), 1.0) if bottom > 0 else 0.0)
        for i in range(x.shape[0]):
            v[1, i] += beta * (y * x[i] - v[1, i])
    square = _dot(v[1], v[1])
    for i in range(x.shape[0]):
        v[0, i] = v[1, i] / square


@njit(fastmath=True, inline="always")
def _perceptron(v, s, x, y, unused):
    signed = y * _dot(v[0], x)
    s[0] += (signed < 0) or (signed == 0 and y < 0)
    if signed > 0:
        return
    s[1] += 1
    for i in range(x.shape[0]):
        v[0, i] += y * x[i]


@njit(fastmath=True, inline="always")
def _alma(v, s, x, y, alpha):
    """Row w; x comes normalised. B = sqrt(8) / alpha, C = sqrt(2)."""
    k = s[1] + 1
    signed = y * _dot(v[0], x)
    s[0] += (signed < 0) or (signed == 0 and y < 0)
    if signed > (1 - alpha) * math.sqrt(8) / alpha / math.sqrt(k):
        return
    s[1] += 1
    rate = x.dtype.type(math.sqrt(2) / math.sqrt(k)) * y
    square = x.dtype.type(0)
    for i in range(x.shape[0]):
        v[0, i] += rate * x[i]
        square += v[0, i] * v[0, i]
    if square > 1:
        scale = x.dtype.type(1 / math.sqrt(square))
        for i in range(x.shape[0]):
            v[0, i] *= scale


@njit(parallel=True, fastmath=True)
def moved_rows(x, shift, coordinate, unit):
    """The rows of a moved data set: x + shift, of norm 1 if `unit`, with a constant coordinate unless that is 0."""
    n, d = x.shape
    rows = np.empty((n, d + (coordinate != 0)), x.dtype)
    for i in prange(n):
        square = x.dtype.type(0)
        for j in range(d):
            rows[i, j] = x[i, j] + shift[j]
            square += rows[i, j] * rows[i, j]
        if unit:
            scale = x.dtype.type(1 / math.sqrt(square))
            for j in range(d):
                rows[i, j] *= scale
        if coordinate != 0:
            rows[i, d] = coordinate
    return rows


def _loop(step):
    @njit(parallel=True, fastmath=True)
    def loop(x, y, seeds, orders, parameters):
        n, d = x.shape
        counts = np.zeros((seeds.shape[0], 2), np.int64)
        for r in prange(seeds.shape[0]):
            if orders.shape[0] > 0:
                order = orders[seeds[r]]
            else:
                order = np.arange(n).astype(np.int32)
                word = np.uint64(seeds[r]) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x1234567)
                for i in range(n - 1, 0, -1):
                    word ^= word << np.uint64(13)
                    word ^= word >> np.uint64(7)
                    word ^= word << np.uint64(17)
                    j = ((word >> np.uint64(32)) * np.uint64(i + 1)) >> np.uint64(32)
                    order[i], order[j] = order[j], order[i]
            v = np.zeros((4, d), x.dtype)
            s = np.zeros(6)
            for t in range(n):
                step(v, s, x[order[t]], y[order[t]], parameters[r])
            counts[r, 0] = s[0]
            counts[r, 1] = s[1]
        return counts

    return loop


_LOOPS = {
    "ce-OMM": _loop(_omm),
    "ROMMA": _loop(_romma),
    "PUMMA": _loop(_pumma),
    "Perceptron": _loop(_perceptron),
    "ALMA": _loop(_alma),
}
_LOOPS |= {"e-OMM": _LOOPS["ce-OMM"], "a-ROMMA": _LOOPS["ROMMA"]}
_PARAMETERS = {"ce-OMM": 0, "e-OMM": 1, "ROMMA": 0, "a-ROMMA": 1, "PUMMA": 0.01, "Perceptron": 0, "ALMA": 0.7}


def run_numba(name, x, y, seeds, parameters=None, orders=None, threads=None):
    """Mistakes and updates `[runs, 2]` of one pass each.

    Args:
        name: the learner.
        x: examples `[n, d]`.
        y: labels `[n]`.
        seeds: one a run, of its shuffle; or its row of `orders` if those are given.
        parameters: rho, the level or delta of every run; the paper's unless given.
        orders: indices `[orders, n]` to use instead of shuffling.
        threads: how many, all cores unless given.
    """
    numba.set_num_threads(threads or numba.config.NUMBA_NUM_THREADS)
    seeds = np.asarray(seeds)
    if parameters is None:
        parameters = np.full(len(seeds), _PARAMETERS[name])
    orders = np.zeros((0, 1), np.int32) if orders is None else orders
    return _LOOPS[name](x, y, seeds, orders, np.asarray(parameters, np.float64))
