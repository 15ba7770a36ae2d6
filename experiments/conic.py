"""The maximum margin by a conic solver (Clarabel): an independent oracle, and the one to be faster than."""

from collections.abc import Sequence

import numpy as np

# A tolerance the solver cannot attain makes it stop anywhere: take the tightest that it says it has solved to.
TIGHTEST = (1e-13, 1e-12, 1e-11, 1e-10, 1e-9)


def conic_max_margin(
    x: np.ndarray, y: np.ndarray, tolerances: Sequence[float] = TIGHTEST
) -> tuple[float, np.ndarray, float]:
    """gamma, w (of unit norm) and b of a data set, in the Euclidean norm.

    Solves min |w|^2/2 subject to y (w.x + b) >= 1 on data that are centred and scaled to size 1.

    Args:
        x: examples `[n, d]`.
        y: labels `[n]`, +1 or -1.
        tolerances: tried one after the other until the solver says "Solved".
    """
    try:
        import clarabel
        from scipy import sparse
    except ImportError as error:
        raise ImportError('the conic solver is an extra: pip install "omm_jax[bench]"') from error

    n, d = x.shape
    centre = x.mean(axis=0)
    size = np.abs(x - centre).max()
    rows = sparse.csc_matrix(-y[:, None] * np.hstack([(x - centre) / size, np.ones((n, 1))]))
    hessian = sparse.csc_matrix(sparse.diags(np.append(np.ones(d), 0.0)))
    for tolerance in tolerances:
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        cones = [clarabel.NonnegativeConeT(n)]
        solution = clarabel.DefaultSolver(hessian, np.zeros(d + 1), rows, -np.ones(n), cones, settings).solve()
        if str(solution.status) == "Solved":
            w, b = np.asarray(solution.x[:d]), solution.x[d]
            length = np.linalg.norm(w)
            return size / length, w / length, size * b / length - centre @ w / length
    raise RuntimeError(f"the conic solver ended with {solution.status} on a problem of shape {x.shape}")
