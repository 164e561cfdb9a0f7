"""tvtf: TensorFlow 2's way of writing programs over a real, open compiler."""

from __future__ import annotations

import sys as _sys

from tvtf.runtime import threads as _threads

_threads.configure()

from tvtf import dtypes, errors, nest, ops  # noqa: E402
from tvtf.context import executing_eagerly  # noqa: E402
from tvtf.dtypes import *  # noqa: E402,F403
from tvtf.namespaces import install as _install  # noqa: E402
from tvtf.primitive import public_names as _public_names  # noqa: E402
from tvtf.shape import TensorShape, TensorSpec  # noqa: E402
from tvtf.tensor import Tensor, constant, convert_to_tensor, is_tensor  # noqa: E402
from tvtf.variable import Variable  # noqa: E402
from tvtf.frontend import control as _control  # noqa: E402,F401
from tvtf.frontend.function import function  # noqa: E402
from tvtf.frontend.tape import GradientTape, UnconnectedGradients  # noqa: E402

_install(_sys.modules[__name__], _public_names())
