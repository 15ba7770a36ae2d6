"""A two-class data set."""

from typing import NamedTuple

import numpy as np


class Dataset(NamedTuple):
    """Examples and labels, as NumPy arrays on the host."""

    x: np.ndarray  # [n, d], floating
    y: np.ndarray  # [n], +1 or -1, of the dtype of x
