"""The generic x86 processor models that code is compiled for, by the microarchitecture levels of the x86-64 ABI."""

from __future__ import annotations

from typing import NamedTuple

from tvm.target import Target, codegen

_AVX2_LEVEL = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_AVX512_LEVEL = (*_AVX2_LEVEL, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")


class ProcessorModel(NamedTuple):
    """A processor model of LLVM: its name, the feature that its vector width needs, and all features that it adds."""

    name: str
    vector_feature: str
    features: tuple[str, ...]


MODELS = (
    ProcessorModel("x86-64-v4", "avx512f", _AVX512_LEVEL),
    ProcessorModel("x86-64-v3", "avx2", _AVX2_LEVEL),
)
"""The models, the one with more instructions first (System V ABI, AMD64 supplement, table 3.1)."""


def supported_model(target: Target) -> ProcessorModel | None:
    """Returns the best model whose code runs on a processor: the processor has all of its features. None if there is none."""
    for model in MODELS:
        if all(codegen.target_has_features(feature, target) for feature in model.features):
            return model
    return None


def model_of_vector_width(target: Target) -> ProcessorModel | None:
    """Returns the model with a processor's vector width, or None. The processor may lack other features of the model."""
    for model in MODELS:
        if codegen.target_has_features(model.vector_feature, target):
            return model
    return None
