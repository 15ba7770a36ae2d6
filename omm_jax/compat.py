"""Refuses the one jax release that computes wrong numbers."""

BROKEN_JAX = "0.10.2"


def check_jax(version: str) -> None:
    """Raise ImportError when `version` of jax or jaxlib is the one with wrong results on CPU.

    jax 0.10.2 returns wrong values on CPU for a vmapped matrix-vector product followed by a reduction
    (from 16,385 rows in float64 and 32,769 in float32; jax-ml/jax issue 39103). Margins are exactly that.
    """
    if version == BROKEN_JAX:
        raise ImportError(
            f"omm_jax refuses to run on jax/jaxlib {BROKEN_JAX}: on CPU it silently returns wrong values for a vmapped "
            "matrix-vector product followed by a reduction (jax-ml/jax issue 39103). "
            'Install another release, for example: pip install "jax!=0.10.2" "jaxlib!=0.10.2"'
        )
