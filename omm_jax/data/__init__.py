"""Data sets: the packed Adult set, the paper's variants of it and how they are made, and generated streams."""

from omm_jax.data.adult import adult, adult_features
from omm_jax.data.dataset import Dataset
from omm_jax.data.generators import Sample, bad_perceptron, clusters, orthogonal_adversary
from omm_jax.data.paper import PAPER_THETAS, adult_variant, paper_variant
from omm_jax.data.transformations import Variant, bias_control, feature_scaling, margin_normalisation

__all__ = [
    "PAPER_THETAS",
    "Dataset",
    "Sample",
    "Variant",
    "adult",
    "adult_features",
    "adult_variant",
    "bad_perceptron",
    "bias_control",
    "clusters",
    "feature_scaling",
    "margin_normalisation",
    "orthogonal_adversary",
    "paper_variant",
]
