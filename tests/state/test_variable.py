"""Variables: values read before an update don't change, and updates allocate only if memory is shared."""

import copy
import threading

import numpy as np
import pytest

import tvtf as tf

FOUR = np.arange(4, dtype=np.float32)


def rejected(error, program, *args, **kwargs):
    with pytest.raises(error) as caught:
        program(*args, **kwargs)
    return str(caught.value)


def eager_update(v):
    v.assign_add(tf.ones([4]))


def whole_assignment(v):
    v.assign(v + 1.0)


COMPILED = tf.function(lambda v: v.assign_add(tf.ones([4])))
SWAPPED = tf.function(lambda v: v.assign(tf.reverse(v, [0])[::-1] + 1.0))


UPDATES = {"eager": eager_update, "assign": whole_assignment, "compiled": COMPILED, "compiled into new memory": SWAPPED}
TAKEN = {
    "numpy": lambda v: v.numpy(),
    "read_value": lambda v: v.read_value(),
    "value": lambda v: v.value(),
    "identity": tf.identity,
    "asarray": np.asarray,
    "array of a read": lambda v: np.asarray(v.read_value()),
    "view of that": lambda v: np.asarray(v.read_value())[1:][None],
    "dlpack": lambda v: np.from_dlpack(v.read_value()),
    "view of dlpack": lambda v: np.from_dlpack(v.read_value()).reshape(2, 2)[1],
    "memoryview": lambda v: memoryview(np.asarray(v.read_value())),
    "iterator": lambda v: [*v],
    "captured": lambda v: tf.function(lambda: v.read_value())(),
}


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("taken", TAKEN)
def test_what_was_taken_keeps_its_value(taken, update, before):
    v = tf.Variable(FOUR)
    for _ in range(before):
        UPDATES[update](v)
    found = TAKEN[taken](v)
    expected = np.array(found).tolist()
    for n in range(3):
        UPDATES[update](v)
        assert np.array(found).tolist() == expected
        assert v.numpy().tolist() == (FOUR + before + n + 1).tolist()


def test_bfloat16_keeps_its_value_too():
    v = tf.Variable(tf.zeros([4], tf.bfloat16))
    step = tf.function(lambda: v.assign_add(tf.ones([4], tf.bfloat16)))
    step()
    taken = v.read_value()
    step()
    step()
    assert (taken.numpy().tolist(), v.numpy().tolist()) == ([1.0] * 4, [3.0] * 4)


def adding_ones(v):
    def step():  # without a result: a function can't return the operation
        v.assign_add(tf.ones([4]), read_value=False)

    return step


def test_an_unshared_variable_is_updated_in_place():
    v = tf.Variable(FOUR)
    for update in adding_ones(v), tf.function(adding_ones(v)):
        update()
        place = v._array.ctypes.data
        update()
        update()
        assert v._array.ctypes.data == place


def test_a_shared_variable_is_copied_once():
    v = tf.Variable(FOUR)
    step = tf.function(adding_ones(v))
    step()
    place = v._array.ctypes.data
    taken = v.read_value()
    step()
    moved = v._array.ctypes.data
    assert moved != place
    step()
    assert v._array.ctypes.data == moved
    assert taken.numpy().tolist() == (FOUR + 1).tolist()


def test_the_initial_value_stays_the_callers():
    source = FOUR.copy()
    tensor = tf.constant(FOUR)
    a, b = tf.Variable(source), tf.Variable(tensor)
    source[:] = 9
    a.assign_add(tf.ones([4]))
    b.assign_add(tf.ones([4]))
    assert a.numpy().tolist() == b.numpy().tolist() == (FOUR + 1).tolist()
    assert tensor.numpy().tolist() == FOUR.tolist()


def test_assigning_one_to_another_shares_nothing():
    a, b = tf.Variable(FOUR), tf.Variable(FOUR)
    a.assign(b)
    a.assign_add(tf.ones([4]))
    assert b.numpy().tolist() == FOUR.tolist()


def test_error_messages():
    v = tf.Variable([1.0, 2.0], name="weights")
    assert rejected(ValueError, v.assign, [1.0, 2.0, 3.0]) == (
        "Cannot assign value to variable 'weights:0': Shape mismatch. The variable shape (2,), and the assigned value shape "
        "(3,) are incompatible."
    )
    assert rejected(ValueError, v.assign, tf.constant([1, 2])) == (
        "Tensor conversion requested dtype float32 for Tensor with dtype int32: "
        "<tf.Tensor: shape=(2,), dtype=int32, numpy=array([1, 2], dtype=int32)>"
    )
    assert rejected(ValueError, tf.Variable, [1.0], shape=[2]) == (
        "In this `tf.Variable` creation, the initial value's shape ((1,)) is not compatible with the explicitly supplied `shape` argument ([2])."
    )
    assert v.numpy().tolist() == [1.0, 2.0]


def test_rejected_while_traced():
    v = tf.Variable(1.0)
    assert rejected(NotImplementedError, tf.function(lambda: v.numpy(), autograph=False)) == (
        "numpy() is only available when eager execution is enabled."
    )
    assert rejected(TypeError, tf.function(lambda: bool(v), autograph=False)).startswith("Using a symbolic `tf.Tensor`")
    with pytest.raises(NotImplementedError):
        tf.function(lambda: np.asarray(v), autograph=False)()


def test_repr_while_traced_has_no_value():
    seen = []
    v = tf.Variable(1.0, name="v")
    tf.function(lambda: seen.append(repr(v)), autograph=False)()
    assert seen == ["<tf.Variable 'v:0' shape=() dtype=float32>"]


def test_an_initial_value_made_in_a_trace_is_computed_outside():
    made = []

    @tf.function(autograph=False)
    def f(x):
        if not made:
            made.append(tf.Variable(lambda: tf.ones([2]) * 3.0))
        return made[0] * x

    assert f(tf.constant(2.0)).numpy().tolist() == [6.0, 6.0]
    assert made[0].numpy().tolist() == [3.0, 3.0]


def test_name_scopes_name_variables():
    with tf.name_scope("outer"), tf.name_scope("inner"):
        assert tf.Variable(1.0, name="v").name == "outer/inner/v:0"


def test_deepcopies_are_their_own():
    v = tf.Variable([1.0], name="v", trainable=False)
    copied = copy.deepcopy({"a": v, "b": v})
    assert copied["a"] is copied["b"] is not v
    copied["a"].assign([2.0])
    assert (v.numpy()[0], copied["b"].numpy()[0], copied["a"].trainable, copied["a"].name) == (1.0, 2.0, False, "v:0")


def test_the_result_of_an_assignment_is_the_variable():
    v = tf.Variable([1.0], name="v")
    unread = v.assign_add([1.0])
    assert repr(unread) == "<tf.Variable 'UnreadVariable' shape=(1,) dtype=float32, numpy=array([2.], dtype=float32)>"
    assert unread.ref() == v.ref()
    unread.assign([5.0])
    assert (v.numpy()[0], unread.numpy()[0]) == (5.0, 5.0)
    assert (unread + 1.0).numpy().tolist() == [6.0]
    with tf.GradientTape() as tape:
        y = v.assign_add([1.0]) * 3.0
    assert tape.gradient(y, v).numpy().tolist() == [3.0]


def test_threads_add_without_loss():
    v = tf.Variable(tf.zeros([64]))
    one = tf.ones([64])

    def work():
        for _ in range(100):
            v.assign_add(one)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert v.numpy().tolist() == [800.0] * 64


@pytest.mark.parametrize(
    "value", [np.zeros((0, 3), np.float32), np.float32(2.0), np.array([True, False]), np.array([[1, 2]], np.int8)]
)
def test_every_form_is_updated_compiled(value):
    v = tf.Variable(value)
    same = tf.function(lambda x: v.assign(x))
    same(tf.constant(value))
    same(tf.constant(value))
    assert v.numpy().tolist() == np.asarray(value).tolist()
    assert v.dtype == np.asarray(value).dtype
