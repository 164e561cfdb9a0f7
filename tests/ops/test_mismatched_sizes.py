"""Sizes that don't fit: what eager execution rejects, compiled code rejects too, whoever tells it the sizes.

One input of a primitive's sample is made larger along one axis. If the eager call fails then, compiled code must fail as
well: with a size that only the call's arguments tell, and with one that the program computes.
"""

import numpy as np
import pytest
from table_support import OWN, some_cases, tensor

import tvtf as tf
from tvtf.core.argument_error import ArgumentError
from tvtf.errors import OpError

REJECTIONS = (OpError, ArgumentError, ValueError, TypeError)


def rejected_eagerly(prim):
    """Calls that eager execution rejects, one for each axis: the case, the larger input and its axis, and all inputs."""
    found = set()
    for case in some_cases(prim):
        if not case.is_compiled or len(case.arrays) < 2:
            continue
        for index, array in enumerate(case.arrays):
            for axis in [i for i, size in enumerate(array.shape) if size]:
                if (index, axis) in found:
                    continue
                arrays = list(case.arrays)
                arrays[index] = np.concatenate([array, np.take(array, [-1], axis)], axis)
                if rejects(lambda *inputs, case=case: prim.bind(*inputs, **case.attrs), map(tensor, arrays)):
                    found.add((index, axis))
                    yield case, index, axis, arrays


def rejects(function, arguments):
    try:
        function(*arguments)
    except REJECTIONS:
        return True
    return False


def accepted_by_compiled_code(prim, case, index, axis, arrays):
    """What compiled code accepts of a call that eager execution rejects, one line for each way of telling the size."""

    def of_argument(*inputs):
        return prim.bind(*inputs, **case.attrs)

    def of_computed_size(keep, *inputs):
        """Masks the larger input, but keeps all of it."""
        masked = tf.boolean_mask(inputs[index], keep, axis=axis)
        return prim.bind(*inputs[:index], masked, *inputs[index + 1 :], **case.attrs)

    tensors = [tensor(a) for a in arrays]
    specs = [tf.TensorSpec.from_tensor(t) for t in tensors]
    dims = list(arrays[index].shape)
    specs[index] = tf.TensorSpec([*dims[:axis], None, *dims[axis + 1 :]], specs[index].dtype)
    keep = tf.ones([dims[axis]], tf.bool)
    name = f"{case.name}: input {index} of shape {arrays[index].shape}, axis {axis}"
    fits = tf.function(of_computed_size, autograph=False)
    if rejects(fits, [tf.ones([dims[axis] - 1], tf.bool), *map(tensor, case.arrays)]):
        return  # nothing that this sample needs may be computed
    if not rejects(tf.function(of_argument, autograph=False, input_signature=specs), tensors):
        yield f"{name}, an argument's size"
    if not rejects(tf.function(of_computed_size, autograph=False), [keep, *tensors]):
        yield f"{name}, a computed size"


COMPILED = [p for p in OWN if p.lower is not None or p.host]


@pytest.mark.sweep
@pytest.mark.parametrize("prim", COMPILED, ids=lambda p: p.name)
def test_compiled_code_rejects_sizes_that_eager_execution_rejects(prim):
    accepted = [line for call in rejected_eagerly(prim) for line in accepted_by_compiled_code(prim, *call)]
    assert not accepted, "\n".join(["", *accepted])
