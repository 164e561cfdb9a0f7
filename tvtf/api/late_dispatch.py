"""Dispatch of public functions on ragged and sparse tensors, without importing the modules that handle them.

A handler is looked up in its module only if that is imported already: before that no ragged or sparse tensor can exist.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from tvtf.core.primitive import add_handler

RAGGED = (
    "abs acos acosh add add_n as_string asin asinh atan atan2 atanh bitcast bitwise.bitwise_and "
    "bitwise.bitwise_or bitwise.bitwise_xor bitwise.invert bitwise.left_shift bitwise.right_shift boolean_mask "
    "broadcast_dynamic_shape broadcast_to cast ceil clip_by_value concat cos cosh cumsum "
    "debugging.assert_equal debugging.assert_greater debugging.assert_greater_equal debugging.assert_less "
    "debugging.assert_less_equal debugging.assert_near debugging.assert_none_equal debugging.check_numerics "
    "divide dtypes.complex dtypes.saturate_cast dynamic_partition equal exp expand_dims fill floor gather "
    "gather_nd greater greater_equal identity image.adjust_brightness image.adjust_gamma "
    "image.convert_image_dtype image.random_brightness image.stateless_random_brightness io.decode_base64 "
    "io.encode_base64 less less_equal linalg.matmul log logical_and logical_or math.angle math.bincount math.bessel_i0 "
    "math.bessel_i0e math.bessel_i1 math.bessel_i1e math.conj math.digamma math.divide_no_nan math.erf "
    "math.erfc math.erfcinv math.erfinv math.expm1 math.floordiv math.floormod math.igamma math.igammac "
    "math.imag math.is_finite math.is_inf math.is_nan math.lgamma math.log1p math.log_sigmoid math.logical_not "
    "math.logical_xor math.multiply_no_nan math.ndtri math.nextafter math.real math.reciprocal "
    "math.reciprocal_no_nan math.reduce_std math.reduce_variance reduce_logsumexp math.rint math.rsqrt math.softplus "
    "math.softsign math.special.sinc math.squared_difference math.truediv math.unsorted_segment_max "
    "math.unsorted_segment_mean math.unsorted_segment_min math.unsorted_segment_prod math.unsorted_segment_sqrt_n "
    "math.unsorted_segment_sum math.xdivy math.xlog1py math.xlogy "
    "math.zeta maximum minimum multiply negative nn.dropout nn.elu nn.embedding_lookup "
    "nn.experimental.stateless_dropout nn.gelu nn.leaky_relu nn.relu nn.relu6 nn.selu nn.silu nn.softmax "
    "nn.softplus nn.softsign nn.swish not_equal one_hot ones ones_like pow rank reduce_all reduce_any "
    "reduce_max reduce_mean reduce_min reduce_prod reduce_sum reshape reverse round shape sigmoid sign sin "
    "sinh size sparse.bincount split sqrt square squeeze stack stop_gradient strings.as_string strings.format strings.join strings.length "
    "strings.lower strings.regex_full_match strings.regex_replace strings.strip strings.substr "
    "strings.to_hash_bucket strings.to_hash_bucket_fast strings.to_hash_bucket_strong strings.to_number "
    "strings.unicode_script strings.unicode_transcode strings.upper subtract tan tanh tile truncatediv "
    "truncatemod where zeros zeros_like"
)
SPARSE = (
    "abs asin asinh atan atanh cast divide identity math.bessel_i0e math.bessel_i1e math.bincount math.erf math.negative "
    "math.sign math.sin math.sqrt math.square math.tan math.tanh rank shape size stop_gradient"
)
HANDLER_MODULES = {"tvtf.composites.ragged.dispatch": RAGGED, "tvtf.composites.sparse.operators": SPARSE}
"""Module -> the public functions that it handles: it defines ``HANDLERS``, and ``takes`` for the arguments to handle."""


def add_handlers() -> None:
    """Registers handlers that implement public functions, such as ``tf.abs``, for ragged and sparse tensors.

    A handler is looked up in its module when it is called. So registering imports none of these modules.
    """
    for module, paths in HANDLER_MODULES.items():
        for path in paths.split():
            add_handler(path, partial(_is_handled_by, module), partial(_call_handler, module, path))


def _is_handled_by(module: str, value: Any) -> bool:
    """Returns whether a module's handlers accept an argument; before the module is imported they accept none."""
    takes = getattr(sys.modules.get(module), "takes", None)
    return takes is not None and takes(value)


def _call_handler(module: str, path: str, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls the handler of an imported module for the public function ``tf.<path>`` on arguments."""
    return sys.modules[module].HANDLERS[path](function, *args, **kwargs)
