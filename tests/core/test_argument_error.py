"""Errors for wrong arguments name the op and change no state; users' own errors are not converted."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.frontend.library import plain_optimizers


@pytest.mark.parametrize("make", [plain_optimizers.SGD, plain_optimizers.Adam])
@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(lambda: tf.constant([1.0, 1.0, 1.0]), id="shape"),
        pytest.param(lambda: tf.constant(["a", "b"]), id="dtype"),
        pytest.param(lambda: tf.IndexedSlices(tf.constant([1.0]), tf.constant([9]), tf.constant([2])), id="row"),
    ],
)
def test_a_step_with_one_bad_gradient_changes_nothing(make, bad):
    first, second = tf.Variable([1.0, 2.0]), tf.Variable([3.0, 4.0])
    optimizer = make(0.1)
    optimizer.build([first, second])
    before = [v.numpy() for v in optimizer.variables]
    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.UnimplementedError)):
        optimizer.apply_gradients([(tf.constant([1.0, 1.0]), first), (bad(), second)])
    assert first.numpy().tolist() == [1.0, 2.0]
    assert second.numpy().tolist() == [3.0, 4.0]
    assert all(np.array_equal(v.numpy(), b) for v, b in zip(optimizer.variables, before))


def test_a_rejected_draw_leaves_the_generator():
    generator = tf.random.Generator.from_seed(1)
    state = generator.state.numpy()
    for call in (lambda: generator.normal([-1]), lambda: generator.uniform([2], dtype=tf.string)):
        with pytest.raises(tf.errors.InvalidArgumentError):
            call()
        assert generator.state.numpy().tolist() == state.tolist()


def test_what_breaks_in_an_op_is_raised_in_its_name():
    with pytest.raises(TypeError, match=r"Einsum can't work with the arguments \(None, .*: 'NoneType' object"):
        tf.einsum(None, [1.0])


def test_an_object_without_repr_is_no_further_error():
    class WithoutRepr:
        def __repr__(self):
            raise RuntimeError("not whole")

    with pytest.raises(TypeError, match=r"Einsum can't work with the arguments \(<.*WithoutRepr"):
        tf.einsum(WithoutRepr(), [1.0])


@pytest.mark.parametrize("wrong", [lambda x: x.nope, lambda x: {}[0], lambda x: [][3], lambda x: 1 / 0])
def test_errors_of_users_are_not_converted(wrong):
    def raised(call):
        with pytest.raises(Exception) as caught:
            call()
        return caught.value

    alone, within = raised(lambda: wrong(tf.constant(1.0))), raised(lambda: tf.map_fn(wrong, tf.constant([1.0])))
    assert (type(within), str(within)) == (type(alone), str(alone))


def test_too_large_sizes_raise_out_of_memory():
    with pytest.raises(tf.errors.ResourceExhaustedError, match="OOM"):
        tf.zeros([2**50])


@pytest.mark.parametrize("sizes", [(0, 0), (0, 3), (3, 0)])
def test_unknown_sizes_of_zero_that_divide_are_survived(sizes):
    spec = tf.TensorSpec([None], tf.int32)
    rows = tf.function(lambda x, y: tf.reshape(y, [tf.shape(x)[0], -1]), input_signature=[spec, spec])
    try:
        found = rows(*(tf.zeros([size], tf.int32) for size in sizes))
    except tf.errors.InvalidArgumentError:
        assert sizes == (0, 3)
    else:
        assert found.shape == (sizes[0], 0)


@pytest.mark.parametrize("edge", [np.nan, np.inf])
def test_boxes_beyond_numbers_are_rejected(edge):
    with pytest.raises(tf.errors.InvalidArgumentError, match="not finite"):
        tf.image.crop_and_resize(tf.ones([1, 4, 4, 1]), [[0.0, 0.0, edge, 1.0]], [0], [2, 2])


@pytest.mark.parametrize("padding", [3, None, 1.5])
def test_a_padding_of_another_type_is_rejected(padding):
    with pytest.raises(TypeError, match="padding"):
        tf.nn.conv2d(tf.ones([1, 4, 4, 1]), tf.ones([2, 2, 1, 1]), 1, padding)
