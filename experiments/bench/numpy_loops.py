"""The loop anyone writes first: one order after the other, one example after the other, vectors in NumPy.

Each learner is a class with `step(x, y)`; mistakes and updates are counted in `counts`. Scores are computed once.
"""

import math

import numpy as np


class Omm:
    """e-OMM for rho = 1, ce-OMM for rho = 0."""

    def __init__(self, d: int, rho: float):
        self.rho, self.v, self.w, self.b, self.gamma, self.counts = rho, {}, np.zeros(d, np.float32), 1.0, 0.0, [0, 0]

    def step(self, x: np.ndarray, y: float) -> None:
        """Show one example."""
        score = self.w.dot(x) + self.b
        mistake = (score >= 0) != (y > 0)
        self.counts[0] += mistake
        started = len(self.v) == 2
        if (not mistake and y * score >= self.rho * self.gamma) if started else y in self.v:
            return
        self.counts[1] += 1
        if started:
            mine, other = self.v[y], self.v[-y]
            step = mine - x
            size = step.dot(step)
            if size > 0:
                self.v[y] = mine - min(max((mine - other).dot(step) / size, 0), 1) * step
        else:
            self.v[y], self.b = x, y
        if len(self.v) == 2:
            u = self.v[1.0] - self.v[-1.0]
            length = math.sqrt(u.dot(u))
            self.w, self.gamma = u / length, length / 2
            self.b = -self.w.dot(self.v[1.0] + self.v[-1.0]) / 2


class Pumma:
    """PUMMA(delta) for p = 2."""

    def __init__(self, d: int, delta: float):
        self.delta, self.points, self.v, self.w = delta, {}, None, np.zeros(d, np.float32)
        self.b, self.counts = 1.0, [0, 0]

    def step(self, x: np.ndarray, y: float) -> None:
        """Show one example."""
        score = self.w.dot(x) + self.b
        mistake = (score >= 0) != (y > 0)
        self.counts[0] += mistake
        started = len(self.points) == 2
        if (not mistake and y * score >= 1 - self.delta) if started else y in self.points:
            return
        self.counts[1] += 1
        self.points[y] = x
        if len(self.points) < 2:
            self.b = y
            return
        z = self.points[1.0] - self.points[-1.0]
        if self.v is None:
            self.v = z
        else:
            step = self.v - z
            size = step.dot(step)
            if size > 0:
                self.v = self.v - min(max(self.v.dot(step) / size, 0), 1) * step
        square = self.v.dot(self.v)
        self.w = 2 * self.v / square
        self.b = -self.v.dot(self.points[1.0] + self.points[-1.0]) / square


class Romma:
    """ROMMA for level 0, a-ROMMA for level 1."""

    def __init__(self, d: int, level: float):
        self.level, self.v, self.w, self.counts = level, None, np.zeros(d, np.float32), [0, 0]

    def step(self, x: np.ndarray, y: float) -> None:
        """Show one example."""
        score = self.w.dot(x)
        self.counts[0] += (score >= 0) != (y > 0)
        if y * score > self.level or (y * score == self.level and self.level > 0):
            return
        self.counts[1] += 1
        target = y * x
        if self.v is None:
            self.v = target
        else:
            step = self.v - target
            size = step.dot(step)
            if size > 0:
                self.v = self.v - min(max(self.v.dot(step) / size, 0), 1) * step
        self.w = self.v / self.v.dot(self.v)


class Perceptron:
    """The Perceptron."""

    def __init__(self, d: int, unused: float):
        self.w, self.counts = np.zeros(d, np.float32), [0, 0]

    def step(self, x: np.ndarray, y: float) -> None:
        """Show one example."""
        score = self.w.dot(x)
        self.counts[0] += (score >= 0) != (y > 0)
        if y * score <= 0:
            self.counts[1] += 1
            self.w += np.float32(y) * x


class Alma:
    """ALMA(alpha) for p = 2, on normalised examples."""

    def __init__(self, d: int, alpha: float):
        self.alpha, self.w, self.counts = alpha, np.zeros(d, np.float32), [0, 0]

    def step(self, x: np.ndarray, y: float) -> None:
        """Show one example."""
        root = math.sqrt(self.counts[1] + 1)
        score = self.w.dot(x)
        self.counts[0] += (score >= 0) != (y > 0)
        if y * score > (1 - self.alpha) * math.sqrt(8) / self.alpha / root:
            return
        self.counts[1] += 1
        self.w = self.w + np.float32(y * math.sqrt(2) / root) * x
        size = math.sqrt(self.w.dot(self.w))
        if size > 1:
            self.w = self.w / np.float32(size)


LOOPS = {
    "ce-OMM": (Omm, 0.0),
    "e-OMM": (Omm, 1.0),
    "ROMMA": (Romma, 0.0),
    "a-ROMMA": (Romma, 1.0),
    "PUMMA": (Pumma, 0.01),
    "Perceptron": (Perceptron, 0.0),
    "ALMA": (Alma, 0.7),
}


def run_numpy(name: str, x: np.ndarray, y: np.ndarray, order: np.ndarray) -> tuple[int, int]:
    """Mistakes and updates of one pass."""
    kind, parameter = LOOPS[name]
    learner, labels = kind(x.shape[1], parameter), y.tolist()
    for i in order.tolist():
        learner.step(x[i], labels[i])
    return tuple(learner.counts)
