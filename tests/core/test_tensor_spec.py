"""``tf.TensorSpec`` and ``BoundedTensorSpec``: equality, bounds, messages."""

import pickle

import numpy as np
import pytest

import tvtf as tf
from tvtf.core.tensor_spec import BoundedTensorSpec


def test_specs_of_different_names_differ():
    """As in TensorFlow 2.21; compatible they are nevertheless."""
    a, b, nameless = (tf.TensorSpec([1, 2], name=name) for name in ("a", "b", None))
    assert a == tf.TensorSpec([1, 2], name="a")
    assert a != b and a != nameless
    assert (len({a, b}), {a: 1}.get(b)) == (2, None)
    assert a.is_compatible_with(b) and a.is_subtype_of(nameless) and not a.is_subtype_of(b)
    assert a != tf.TensorSpec([1, 2], tf.int32, "a") and a != tf.TensorSpec([1, 3], name="a") and a != "a"


def spec(**changes):
    return BoundedTensorSpec(
        **{"shape": [2], "dtype": tf.float32, "minimum": 0, "maximum": [1, 2], "name": "n"} | changes
    )


def test_bounds_are_arrays_that_can_not_be_changed():
    bounded = spec()
    assert (bounded.minimum.dtype, bounded.maximum.tolist()) == (np.float32, [1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        bounded.maximum[0] = 3
    assert repr(bounded) == (
        "BoundedTensorSpec(shape=(2,), dtype=tf.float32, name='n', minimum=array(0., dtype=float32), "
        "maximum=array([1., 2.], dtype=float32))"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"minimum": None}, "`minimum` can not be None."),
        ({"maximum": None}, "`maximum` can not be None."),
        ({"minimum": [1, 2, 3]}, r"`minimum` \[1, 2, 3\] is not compatible with shape \(2,\)."),
        ({"shape": [None, 3], "maximum": [1, 2]}, r"`maximum` \[1, 2\] is not compatible with shape \(None, 3\)."),
    ],
)
def test_bounds_are_checked(changes, message):
    with pytest.raises(ValueError, match=message):
        spec(**changes)


def test_bounded_specs_are_equal_if_their_bounds_are():
    assert spec() == spec(minimum=[0, 0]) == pickle.loads(pickle.dumps(spec()))
    assert spec() != spec(maximum=2) and spec() != spec(name="m")
    assert spec() != tf.TensorSpec([2], name="n") and tf.TensorSpec([2], name="n") != spec()
    assert len({spec(), spec()}) == 1


def test_bounds_of_another_spec_or_of_the_dtype():
    assert BoundedTensorSpec.from_spec(spec()) == spec()
    whole = BoundedTensorSpec.from_spec(tf.TensorSpec([8, 3], tf.int32, "x"))
    assert (whole.name, int(whole.minimum), int(whole.maximum)) == ("x", -(2**31), 2**31 - 1)
    assert BoundedTensorSpec.from_tensor(tf.zeros([2])) == tf.TensorSpec([2])


def test_a_bounded_spec_in_a_signature_and_a_message():
    double = tf.function(lambda x: x * 2, input_signature=[spec()])
    assert double(tf.constant([1.0, 5.0])).numpy().tolist() == [2.0, 10.0]
    coder = tf.__internal__.saved_model
    message = coder.encode_structure({"a": spec()})
    value = message.dict_value.fields["a"].bounded_tensor_spec_value
    assert (value.name, value.dtype, [dim.size for dim in value.shape.dim]) == ("n", 1, [2])
    assert coder.decode_proto(message) == {"a": spec()}
