"""How learners look in figures: colours that survive colour blindness, marks that survive a black-and-white print."""

from pathlib import Path
from typing import Any, NamedTuple


class Look(NamedTuple):
    """Colour, line and marker of a learner."""

    color: str
    line: Any
    marker: str


# Okabe and Ito's palette; black and grey for the two exact ones.
LOOKS = {
    "n-OMM": Look("#000000", "-", "*"),
    "ce-OMM": Look("#009E73", (0, (5, 1)), "s"),
    "e-OMM": Look("#0072B2", "-", "o"),
    "ROMMA": Look("#E69F00", (0, (3, 1, 1, 1)), "^"),
    "a-ROMMA": Look("#D55E00", "--", "v"),
    "PUMMA": Look("#56B4E9", "-.", "D"),
    "Perceptron": Look("#999999", (0, (1, 1)), "P"),
    "ALMA": Look("#CC79A7", (0, (3, 2)), "X"),
    "PA": Look("#7A7A00", "-", "h"),
    "PA-I": Look("#8C510A", "--", "<"),
    "PA-II": Look("#762A83", "-.", ">"),
    "OGD": Look("#555555", ":", "d"),
}


def pyplot() -> Any:
    """matplotlib.pyplot without a screen, set for print; an error in words if it is not installed."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError('figures need matplotlib: pip install "omm_jax[experiments]"') from error
    matplotlib.use("agg")
    from matplotlib import pyplot

    pyplot.rcParams.update(
        {
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.25,
            "legend.frameon": False,
            "svg.hashsalt": "omm_jax",
        }
    )
    return pyplot


def save(figure: Any, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG, and say where."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    figure.savefig(paths[0], dpi=100)
    figure.savefig(paths[1], metadata={"Date": None})
    for path in paths:
        print(f"wrote {path}")
    return paths
