"""Literal NumPy float64 transcriptions of every learner, written from the published closed forms.

Independent of the package on purpose: nothing here knows of the segment kernel, of certificates where the published
rule works on w, or of JAX. Each learner is a class with `score(x)`, `wants(x, y)` (the trigger) and `update(x, y)`.
"""

import math

import numpy as np
import scipy.optimize


def sign(value):
    """sign(0) = +1."""
    return 1.0 if value >= 0 else -1.0


class Perceptron:
    def __init__(self, d):
        self.w = np.zeros(d)

    def classifier(self):
        return self.w, 0.0

    def score(self, x):
        return self.w @ x

    def level(self, y):
        return 0.0

    def wants(self, x, y):
        return y * self.score(x) <= 0

    def update(self, x, y):
        self.w = self.w + y * x


class Alma:
    """ALMA_2(alpha; B, C)."""

    def __init__(self, d, alpha=0.7):
        self.w, self.k, self.alpha = np.zeros(d), 1, alpha
        self.B, self.C = math.sqrt(8) / alpha, math.sqrt(2)

    def classifier(self):
        return self.w, 0.0

    @staticmethod
    def unit(x):
        length = math.sqrt(x @ x)
        return x / length if length > 0 else x

    def score(self, x):
        return self.w @ self.unit(x)

    def level(self, y):
        return (1 - self.alpha) * self.B / math.sqrt(self.k)

    def wants(self, x, y):
        return y * self.score(x) <= self.level(y)

    def update(self, x, y):
        self.w = self.w + self.C / math.sqrt(self.k) * y * self.unit(x)
        self.w = self.w / max(1.0, math.sqrt(self.w @ self.w))
        self.k += 1


class AlmaP:
    """ALMA_p(alpha; B, C) in its published form: w itself is kept, and mapped forth and back by f."""

    def __init__(self, d, p, alpha=0.7):
        self.w, self.k, self.alpha, self.p = np.zeros(d), 1, alpha, p
        self.q = p / (p - 1)
        self.B, self.C = math.sqrt(8) / alpha, math.sqrt(2)

    def classifier(self):
        return self.w, 0.0

    @staticmethod
    def norm(x, p):
        return np.sum(np.abs(x) ** p) ** (1 / p)

    def image(self, w, q):
        """The gradient of half the squared q-norm."""
        length = self.norm(w, q)
        return np.sign(w) * np.abs(w) ** (q - 1) / length ** (q - 2) if length > 0 else np.zeros_like(w)

    def score(self, x):
        return self.w @ (x / self.norm(x, self.p))

    def level(self, y):
        return (1 - self.alpha) * self.B * math.sqrt(self.p - 1) / math.sqrt(self.k)

    def wants(self, x, y):
        return y * self.score(x) <= self.level(y)

    def update(self, x, y):
        rate = self.C / (math.sqrt(self.p - 1) * math.sqrt(self.k))
        w = self.image(self.image(self.w, self.q) + rate * y * x / self.norm(x, self.p), self.p)
        self.w = w / max(1.0, self.norm(w, self.q))
        self.k += 1


class Romma:
    """ROMMA on w, Li and Long's formula."""

    def __init__(self, d):
        self.w, self.started = np.zeros(d), False

    def classifier(self):
        return self.w, 0.0

    def score(self, x):
        return self.w @ x

    def level(self, y):
        return 0.0

    def wants(self, x, y):
        return y * self.score(x) <= 0

    def update(self, x, y):
        xx, ww, wx = x @ x, self.w @ self.w, self.w @ x
        if not self.started or self.replaces(xx, ww, y * wx):
            self.w, self.started = y * x / xx, True
        else:
            D = xx * ww - wx**2
            self.w = (xx * ww - y * wx) / D * self.w + ww * (y - wx) / D * x

    def replaces(self, xx, ww, ywx):
        return False


class AggressiveRomma(Romma):
    """a-ROMMA: the margin trigger, and its special case."""

    def __init__(self, d, delta=0.0):
        super().__init__(d)
        self.delta = delta

    def level(self, y):
        return 1 - self.delta

    def wants(self, x, y):
        return y * self.score(x) < 1 - self.delta

    def replaces(self, xx, ww, ywx):
        return ywx >= xx * ww


class TwoPoint:
    """The initialisation shared by PUMMA and OMM: predict +1, then the first label until the other class arrives."""

    def __init__(self, d):
        self.points = {}
        self.d = d

    def ready(self):
        return len(self.points) == 2

    def constant(self):
        return next(iter(self.points)) if self.points else 1.0

    def score(self, x):
        if not self.ready():
            return self.constant()
        w, b = self.classifier()
        return w @ x + b

    def wants(self, x, y):
        if not self.ready():
            return y not in self.points
        return self.fires(y * self.score(x), y)


class Pumma(TwoPoint):
    """PUMMA for p = 2 on w, the published three cases."""

    def __init__(self, d, delta=0.01):
        super().__init__(d)
        self.delta = delta
        self.w = np.zeros(d)

    def classifier(self):
        if not self.ready():
            return np.zeros(self.d), self.constant()
        return self.w, -self.w @ (self.points[1.0] + self.points[-1.0]) / 2

    def level(self, y):
        return 1 - self.delta

    def fires(self, a, y):
        return a < 1 - self.delta

    def update(self, x, y):
        first = not self.ready()
        self.points[y] = x
        if not self.ready():
            return
        z = self.points[1.0] - self.points[-1.0]
        zz, ww, wz = z @ z, self.w @ self.w, self.w @ z
        if first or 2 * wz >= ww * zz:
            self.w = 2 * z / zz
        elif wz < 2:
            D = ww * zz - wz**2
            self.w = (ww * zz - 2 * wz) / D * self.w + ww * (2 - wz) / D * z


class Omm(TwoPoint):
    """e-OMM(rho) for l2: the paper's beta_*(u, z) with u = v+ - v- and z = u - s."""

    def __init__(self, d, rho=1.0):
        super().__init__(d)
        self.rho = rho

    def gamma(self):
        u = self.points[1.0] - self.points[-1.0]
        return math.sqrt(u @ u) / 2

    def classifier(self):
        if not self.ready():
            return np.zeros(self.d), self.constant()
        vp, vn = self.points[1.0], self.points[-1.0]
        length = 2 * self.gamma()
        w = (vp - vn) / length if length > 0 else np.zeros(self.d)
        return w, -w @ (vp + vn) / 2

    def level(self, y):
        return self.rho * self.gamma()

    def fires(self, a, y):
        return a < self.level(y) or sign(y * a) != y

    def update(self, x, y):
        if not self.ready():
            self.points[y] = x
            return
        u = self.points[1.0] - self.points[-1.0]
        z = y * (self.points[y] - x)
        uz, zz = u @ z, z @ z
        if zz == 0 or uz < 0:
            beta = 0.0
        elif uz > zz:
            beta = 1.0
        else:
            beta = uz / zz
        self.points[y] = (1 - beta) * self.points[y] + beta * x


def nearest(u, s, p):
    """beta of the point of [u, s] nearest 0 in the p-norm, from the sign of the derivative."""

    def slope(beta):
        h = (1 - beta) * u + beta * s
        return np.sum(np.sign(h) * np.abs(h) ** (p - 1) * (s - u))

    if slope(0.0) >= 0:
        return 0.0
    if slope(1.0) <= 0:
        return 1.0
    return scipy.optimize.brentq(slope, 0.0, 1.0, xtol=1e-16, rtol=8.9e-16)


class OmmP(Omm):
    """e-OMM(rho) for the p-norm."""

    def __init__(self, d, p, rho=1.0):
        super().__init__(d, rho)
        self.p = p

    def gamma(self):
        return AlmaP.norm(self.points[1.0] - self.points[-1.0], self.p) / 2

    def classifier(self):
        if not self.ready():
            return np.zeros(self.d), self.constant()
        vp, vn = self.points[1.0], self.points[-1.0]
        w = np.sign(vp - vn) * (np.abs(vp - vn) / (2 * self.gamma())) ** (self.p - 1)
        return w, -w @ (vp + vn) / 2

    def update(self, x, y):
        if not self.ready():
            self.points[y] = x
            return
        other = self.points[-y]
        beta = nearest(self.points[y] - other, x - other, self.p)
        self.points[y] = (1 - beta) * self.points[y] + beta * x


class PummaP(Pumma):
    """PUMMA for the p-norm: the certificate v, w = 2 f^-1(v) / ||v||^2."""

    def __init__(self, d, p, delta=0.01):
        super().__init__(d, delta)
        self.p = p

    def update(self, x, y):
        first = not self.ready()
        self.points[y] = x
        if not self.ready():
            return
        z = self.points[1.0] - self.points[-1.0]
        self.v = z if first else self.v + nearest(self.v, z, self.p) * (z - self.v)
        length = AlmaP.norm(self.v, self.p)
        image = np.sign(self.v) * np.abs(self.v) ** (self.p - 1) / length ** (self.p - 2)
        self.w = 2 * image / length**2


class Biased:
    """A homogeneous learner shown (x, c); ALMA normalises x and then takes (x^, c) as it stands, unless `before`."""

    def __init__(self, inner, c, before=False):
        self.inner, self.c = inner, c
        self.first = lambda x: x
        if isinstance(inner, Alma) and not before:
            self.first, inner.unit = Alma.unit, lambda x: x

    def lift(self, x):
        return np.append(self.first(x), self.c)

    def classifier(self):
        w, _ = self.inner.classifier()
        return w[:-1], self.c * w[-1]

    def score(self, x):
        return self.inner.score(self.lift(x))

    def level(self, y):
        return self.inner.level(y)

    def wants(self, x, y):
        return self.inner.wants(self.lift(x), y)

    def update(self, x, y):
        self.inner.update(self.lift(x), y)


def literal_run(learner, x, y, order):
    """Show a transcription the stream: mistakes, positions of the updates, final (w, b), margin, tau by brute force."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    mistakes, updates, tau = 0, [], -1
    for t, i in enumerate(np.asarray(order)):
        mistakes += sign(learner.score(x[i])) != y[i]
        if learner.wants(x[i], y[i]):
            updates.append(t)
            learner.update(x[i], y[i])
            w, b = learner.classifier()
            if tau < 0 and np.min(y * (x @ w + b)) > 0:
                tau = t + 1
    w, b = learner.classifier()
    smallest = np.min(y * (x @ w + b))
    margin = smallest / math.sqrt(w @ w) if smallest > 0 else math.nan
    return {"mistakes": mistakes, "updates": updates, "w": w, "b": b, "margin": margin, "tau": tau}
