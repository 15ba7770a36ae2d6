"""Norms as small pytrees: value, dual value, gradient, and the nearest point of a segment to the origin.

The numbers of a norm (p, the matrix) are leaves, so they can be traced, swept and vmapped like any hyperparameter.
All functions take one vector `[d]`; map them for more.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from omm_jax.numerics import divide, dot, is_concrete, safe_divide


@runtime_checkable
class Norm(Protocol):
    """A norm that is strictly convex and differentiable away from 0 (the paper's Assumption 1)."""

    def value(self, x: jax.Array) -> jax.Array:
        """The norm of x."""
        ...

    def dual(self, w: jax.Array) -> jax.Array:
        """The dual norm of w, the one a margin is divided by."""
        ...

    def gradient(self, x: jax.Array) -> jax.Array:
        """The gradient of the norm at x (the paper's l(x)), of dual norm 1; 0 at 0."""
        ...

    def half_square_gradient(self, x: jax.Array) -> jax.Array:
        """The gradient of half the squared norm, norm(x) l(x): a bijection onto the dual space."""
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class L2:
    """The Euclidean norm."""

    p: ClassVar[float] = 2.0

    def value(self, x: jax.Array) -> jax.Array:
        """sqrt(x.x)."""
        return jnp.sqrt(dot(x, x))

    def dual(self, w: jax.Array) -> jax.Array:
        """The Euclidean norm is its own dual."""
        return self.value(w)

    def gradient(self, x: jax.Array) -> jax.Array:
        """x / norm(x)."""
        return divide(x, self.value(x))

    def half_square_gradient(self, x: jax.Array) -> jax.Array:
        """The identity."""
        return x


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Lp:
    """The p-norm, 1 < p < inf; make it with `lp(p)`."""

    p: ArrayLike

    def value(self, x: jax.Array) -> jax.Array:
        """(sum |x_i|^p)^(1/p), scaled by the largest entry so that no power overflows."""
        return _lp_value(x, self.p)

    def dual(self, w: jax.Array) -> jax.Array:
        """The norm of exponent p / (p - 1)."""
        return _lp_value(w, self.p / (self.p - 1))

    def gradient(self, x: jax.Array) -> jax.Array:
        """sign(x_i) (|x_i| / norm(x))^(p-1)."""
        ratio = safe_divide(jnp.abs(x), self.value(x))
        return jnp.sign(x) * _power(ratio, self.p - 1)

    def half_square_gradient(self, x: jax.Array) -> jax.Array:
        """norm(x) times the gradient of the norm."""
        return self.value(x) * self.gradient(x)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Quadratic:
    """The norm sqrt(x'Ax) of a positive definite A; make it with `quadratic(A)`."""

    matrix: jax.Array
    inverse: jax.Array

    def value(self, x: jax.Array) -> jax.Array:
        """sqrt(x'Ax)."""
        return jnp.sqrt(jnp.maximum(dot(x, self.matrix @ x), 0))

    def dual(self, w: jax.Array) -> jax.Array:
        """sqrt(w'A^-1 w)."""
        return jnp.sqrt(jnp.maximum(dot(w, self.inverse @ w), 0))

    def gradient(self, x: jax.Array) -> jax.Array:
        """Ax / norm(x)."""
        return divide(self.matrix @ x, self.value(x))

    def half_square_gradient(self, x: jax.Array) -> jax.Array:
        """Ax."""
        return self.matrix @ x


def _power(base: jax.Array, exponent: ArrayLike) -> jax.Array:
    positive = base > 0
    return jnp.where(positive, jnp.where(positive, base, 1) ** exponent, 0)


def _lp_value(x: jax.Array, p: ArrayLike) -> jax.Array:
    size = jnp.abs(x)
    largest = jnp.max(size)
    # The sum is at least 1 because the largest entry contributes exactly 1.
    total = jnp.sum(_power(safe_divide(size, largest), p))
    return largest * jnp.where(largest > 0, total, 1) ** (1 / p)


l2 = L2()


def lp(p: ArrayLike) -> L2 | Lp:
    """The p-norm for 1 < p < inf. A concrete p = 2 gives the closed form `l2`.

    Example:
        >>> float(lp(3.0).value(jnp.array([1.0, 0.0])))
        1.0
    """
    if not is_concrete(p) or np.ndim(p) > 0:
        return Lp(p)
    if not 1 < np.asarray(p) < np.inf:
        raise ValueError(f"lp expects an exponent with 1 < p < inf, got p = {p}: the norm must be strictly convex")
    return l2 if np.asarray(p) == 2 else Lp(p)


def quadratic(matrix: ArrayLike) -> Quadratic:
    """The Mahalanobis norm sqrt(x'Ax) of a symmetric positive definite matrix `[d, d]`."""
    if is_concrete(matrix):
        a = np.asarray(matrix)
        if a.ndim != 2 or a.shape[0] != a.shape[1]:
            raise ValueError(f"quadratic expects a square matrix [d, d], got shape {a.shape}")
        if not np.allclose(a, a.T):
            raise ValueError("quadratic expects a symmetric matrix: pass (A + A.T) / 2 if that is what you mean")
        if not (np.isfinite(a).all() and np.linalg.eigvalsh(a)[0] > 0):
            raise ValueError("quadratic expects a positive definite matrix: its smallest eigenvalue must be positive")
    array = jnp.asarray(matrix)
    return Quadratic(array, jnp.linalg.inv(array))
