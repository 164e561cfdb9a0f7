"""Optimizers with the API and the arithmetic of Keras 3, and learning-rate schedules.

Source: https://keras.io/api/optimizers/
"""

from tvtf.namespaces import install as _install
from tvtf.optimizers import schedules
from tvtf.optimizers.adam import Adam, AdamW
from tvtf.optimizers.base import Optimizer, deserialize, get, serialize
from tvtf.optimizers.mixed_precision import LossScaleOptimizer
from tvtf.optimizers.rmsprop import RMSprop
from tvtf.optimizers.sgd import SGD

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "LossScaleOptimizer",
    "Optimizer",
    "RMSprop",
    "deserialize",
    "get",
    "schedules",
    "serialize",
]
_install()
