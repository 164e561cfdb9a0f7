"""Optimizers with the API and the arithmetic of Keras 3, and learning rate schedules.

Source: https://keras.io/api/optimizers/
"""

from tvtf.api.namespaces import install as _install
from tvtf.frontend.library.plain_optimizers import schedules
from tvtf.frontend.library.plain_optimizers.adam import Adam, AdamW
from tvtf.frontend.library.plain_optimizers.base import Optimizer, deserialize, get, serialize
from tvtf.frontend.library.plain_optimizers.mixed_precision import LossScaleOptimizer
from tvtf.frontend.library.plain_optimizers.rmsprop import RMSprop
from tvtf.frontend.library.plain_optimizers.sgd import SGD

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
