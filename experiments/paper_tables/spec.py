"""What the tables are made of: learners, variants of the data, passes; and the values the paper printed."""

import csv
import functools
from pathlib import Path
from typing import NamedTuple

import omm_jax as omm

# In the order of the paper's rows.
LEARNERS = ("n-OMM", "ce-OMM", "e-OMM", "ROMMA", "a-ROMMA", "PUMMA", "Perceptron", "ALMA")
# Moving all points changes nothing for these.
INVARIANT = ("n-OMM", "ce-OMM", "e-OMM", "PUMMA")
PASSES = (1, 5)


class Setting(NamedTuple):
    """One learner on one variant of the data: what all replicates of a cell share."""

    learner: str
    theta: float
    zero_bias: bool
    passes: int

    @property
    def name(self) -> str:
        """A file name."""
        bias = "zero-bias" if self.zero_bias else "bias"
        return f"{self.learner}_theta-{self.theta:g}_{bias}_passes-{self.passes}"

    @property
    def tau(self) -> bool:
        """Whether to find tau: in five passes full of updates it takes most of the time, so there only if printed."""
        few = self.learner in (*INVARIANT, "Perceptron") or (self.zero_bias and self.theta == 0)
        return self.passes == 1 or few or self in _with_tau()

    @property
    def biased(self) -> bool:
        """Whether the learner gets one more coordinate: it has no bias of its own and needs one."""
        return not self.zero_bias and self.learner not in INVARIANT

    @property
    def source(self) -> "Setting":
        """The setting whose runs stand for this one: translation-invariant learners see one variant like any other."""
        passes = 1 if self.learner == "n-OMM" else self.passes
        if self.learner in INVARIANT:
            return Setting(self.learner, 0.0, True, passes)
        return self._replace(passes=passes)


class Printed(NamedTuple):
    """A row of the paper's tables; margin and tau are None where the paper has a dash."""

    setting: Setting
    D_bar_over_D: float
    mistakes: int
    margin: float | None
    tau: int | None
    seconds: float


def settings(passes: tuple[int, ...] = PASSES, thetas: tuple[float, ...] = omm.data.PAPER_THETAS) -> list[Setting]:
    """All cells of the tables, those of one variant of the data together."""
    return [
        Setting(learner, theta, zero_bias, count)
        for zero_bias in (True, False)
        for theta in thetas
        for learner in LEARNERS
        for count in passes
    ]


def runs(passes: tuple[int, ...] = PASSES, every_variant: bool = False) -> list[Setting]:
    """The settings to run for the tables: translation-invariant learners on one variant, unless on every one."""
    wanted = settings(passes)
    if every_variant:
        return [setting for setting in wanted if setting.learner != "n-OMM" or setting.passes == 1]
    return list(dict.fromkeys(setting.source for setting in wanted))


def make(setting: Setting, variant: omm.data.Variant) -> omm.Algorithm:
    """The learner as the paper ran it: with one more coordinate where it has no bias of its own and needs one."""
    algorithm = omm.ALGORITHMS[setting.learner]()
    if not setting.biased:
        return algorithm
    return omm.with_bias(algorithm, -variant.D_bar if "ROMMA" in setting.learner else 1.0)


def printed() -> list[Printed]:
    """The 160 rows of the paper's two tables."""
    with (Path(__file__).parent / "printed.csv").open() as file:
        return [
            Printed(
                Setting(row["algorithm"], float(row["theta"]), row["b_star"] == "0", int(row["passes"])),
                float(row["Dbar_over_D"]),
                int(row["mistakes"]),
                float(row["margin"]) if row["margin"] else None,
                int(row["tau"]) if row["tau"] else None,
                float(row["seconds"]),
            )
            for row in csv.DictReader(file)
        ]


@functools.cache
def _with_tau() -> frozenset[Setting]:
    return frozenset(row.setting for row in printed() if row.tau is not None)
