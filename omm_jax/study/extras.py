"""The packages that studies need and the core does not."""

import importlib.util


class MissingExtraError(ImportError):
    """A package of an extra is not installed; the message names the command that installs it."""


def need(*packages: str) -> None:
    """Raise MissingExtraError unless all packages are installed."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(f'this needs {package}, which is not installed: pip install "omm_jax[experiments]"')
