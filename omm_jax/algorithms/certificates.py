"""What the learners with a bias of their own share: nothing is known until each class has shown one point.

Before the first example the classifier is (0, +1), while one class is seen it is (0, y1); the first point of each
class is always taken, later points of the first class are ignored until the other arrives.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from omm_jax.algorithm import Trigger


class Seen(NamedTuple):
    """Which classes have shown a point."""

    pos: jax.Array  # bool
    neg: jax.Array  # bool

    @classmethod
    def nothing(cls) -> "Seen":
        """Neither class has been seen."""
        return cls(jnp.zeros((), bool), jnp.zeros((), bool))

    def both(self) -> jax.Array:
        """Whether the initialisation is over."""
        return self.pos & self.neg

    def has(self, y: jax.Array) -> jax.Array:
        """Whether the class of label y has been seen."""
        return jnp.where(y > 0, self.pos, self.neg)

    def add(self, y: jax.Array) -> "Seen":
        """The same with the class of label y."""
        return Seen(self.pos | (y > 0), self.neg | (y < 0))

    def linear(self, w: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(w, b) once both classes are seen, before that the constant classifier."""
        constant = jnp.where(self.neg & ~self.pos, -1, 1).astype(w.dtype)
        return jnp.where(self.both(), w, 0), jnp.where(self.both(), b, constant)

    def threshold(self, y: jax.Array, trigger: Trigger) -> Trigger:
        """The trigger once both classes are seen; before that +inf for an unseen class, -inf for the seen one."""
        waiting = jnp.where(self.has(y), -jnp.inf, jnp.inf).astype(trigger.level.dtype)
        return Trigger(jnp.where(self.both(), trigger.level, waiting), self.both() & trigger.inclusive)
