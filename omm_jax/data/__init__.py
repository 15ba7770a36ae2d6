"""Data sets: the packed Adult set, the paper's variants of it, and the transformations they are made with."""

from omm_jax.data.adult import adult, adult_features
from omm_jax.data.dataset import Dataset
from omm_jax.data.paper import PAPER_THETAS, adult_variant, paper_variant
from omm_jax.data.transformations import Variant, bias_control, feature_scaling, margin_normalisation

__all__ = [
    "PAPER_THETAS",
    "Dataset",
    "Variant",
    "adult",
    "adult_features",
    "adult_variant",
    "bias_control",
    "feature_scaling",
    "margin_normalisation",
    "paper_variant",
]
