"""Experiments, each a command `python -m experiments.NAME`: runs write files, analyses read files only."""
