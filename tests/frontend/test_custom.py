"""Functions with gradients of the user's own."""

import copy
import pickle

import numpy as np
import pytest

import tvtf as tf


@tf.custom_gradient
def log1pexp(x):
    e = tf.exp(x)
    return tf.math.log(1.0 + e), lambda ct: ct * (1.0 - 1.0 / (1.0 + e))


def gradient(function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_the_own_gradient_is_used_eagerly():
    assert gradient(log1pexp, tf.constant(100.0)).numpy() == 1.0


def test_the_own_gradient_is_used_by_a_tape_inside_a_function():
    assert tf.function(lambda x: gradient(log1pexp, x))(tf.constant(100.0)).numpy() == 1.0


def test_the_own_gradient_is_used_by_a_tape_around_a_compiled_function():
    assert gradient(tf.function(lambda x: log1pexp(x) * 2.0), tf.constant(100.0)).numpy() == 2.0


def test_second_order():
    x = tf.constant([0.5, -1.0])
    expected = sigmoid(x.numpy()) * (1 - sigmoid(x.numpy()))
    for function in (log1pexp, tf.function(lambda x: log1pexp(x))):
        assert np.allclose(gradient(lambda v, f=function: gradient(f, v), x), expected, rtol=1e-5)


def test_several_arguments_results_and_captures():
    factor = tf.constant(np.full(40, 3.0, np.float32))

    @tf.custom_gradient
    def scaled(x, y):
        def back(dx, dy):
            return dx * factor, None

        return (x * factor, y), back

    def loss(x):
        a, b = scaled(x, x * 2.0)
        return tf.reduce_sum(a) + tf.reduce_sum(b)

    x = tf.ones([40])
    for function in (loss, tf.function(loss)):
        assert gradient(function, x).numpy().tolist() == [3.0] * 40


def test_an_identity_with_another_gradient():
    @tf.custom_gradient
    def reversed_gradient(x):
        return x, lambda ct: -ct

    for function in (reversed_gradient, tf.function(lambda x: reversed_gradient(x))):
        assert gradient(function, tf.constant(1.0)).numpy() == -1.0


def test_another_number_of_gradients_is_rejected():
    @tf.custom_gradient
    def wrong(x):
        return x * 1.0, lambda ct: (ct, ct)

    message = "custom_gradient function 'wrong' expected to return 1 gradients, one for each argument, but returned 2"
    with pytest.raises(ValueError, match=f"^{message}$"):
        gradient(wrong, tf.constant(1.0))


def test_variables_in_a_branch():
    weight = tf.Variable(3.0)

    @tf.custom_gradient
    def scaled(x):
        return x * weight, lambda ct, variables: (ct * 7.0, [ct * x for _ in variables])

    def found(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.cond(x > 0.0, lambda: scaled(x) * 2.0, lambda: x)
        return tape.gradient(y, [x, weight])

    assert list(map(float, tf.function(found)(tf.constant(2.0)))) == [14.0, 4.0]


def test_an_error_of_a_gradient_function_is_raised_by_the_gradient_call():
    @tf.custom_gradient
    def without(x):
        def back(ct):
            raise NotImplementedError("not here")

        return x * 2.0, back

    function = tf.function(lambda x: without(x))
    assert function(tf.constant(1.0)).numpy() == 2.0
    message = "^the gradient function of 'without' raised NotImplementedError: not here$"
    with pytest.raises(LookupError, match=message):
        gradient(function, tf.constant(1.0))


def test_a_gradient_function_that_assigns_is_for_tapes_beside_it():
    count = tf.Variable(0)

    @tf.custom_gradient
    def counted(x):
        def back(ct):
            count.assign_add(1)
            return ct * 3.0

        return x * 2.0, back

    inside = tf.function(lambda x: gradient(counted, x))
    assert inside(tf.constant(1.0)).numpy() == 3.0
    assert count.numpy() == 1
    with pytest.raises(LookupError, match="^the gradient function of 'counted' assigns Variable:0: only tapes"):
        gradient(tf.function(counted), tf.constant(1.0))


def test_what_a_gradient_function_prints_in_a_branch(capfd):
    @tf.custom_gradient
    def printing(x):
        tf.print("there")

        def back(ct):
            tf.print("back")
            return ct * 3.0

        return x * 2.0, back

    def chosen(x):
        return tf.cond(x > 0.0, lambda: printing(x), lambda: x)

    for function in (tf.function(lambda x: gradient(chosen, x)), lambda x: gradient(tf.function(chosen), x)):
        assert function(tf.constant(1.0)).numpy() == 3.0
        assert capfd.readouterr().err == "there\nback\n"


class Scaled(tf.Module):
    """Methods with gradients of their own: the object is no argument of theirs."""

    def __init__(self):
        super().__init__()
        self.scale = tf.Variable([1.0, 2.0])

    @tf.custom_gradient
    def by_variable(self, x):
        def gradient(ct, variables=None):
            return ct * self.scale * 10.0, [ct * 5.0 for _ in variables]

        return x * self.scale, gradient

    @tf.custom_gradient
    def product(self, x, y):
        return x * y, lambda ct: (ct * y, ct * x)

    @tf.function
    def compiled(self, x):
        return self.by_variable(x)

    @staticmethod
    @tf.custom_gradient
    def static(x):
        return x * 2.0, lambda ct: ct * 50.0

    @classmethod
    @tf.custom_gradient
    def of_class(cls, x):
        return x * 2.0, lambda ct: ct * 50.0

    @tf.custom_gradient
    def __call__(self, x):
        return x * 2.0, lambda ct: ct * 50.0


class Doubled(Scaled):
    def product(self, x, y):
        return 2.0 * super().product(x, y)


@pytest.mark.parametrize("decorate", [lambda f: f, tf.function])
def test_methods_with_gradients_of_their_own(decorate):
    scaled, doubled = Scaled(), Doubled()
    ways = {
        scaled.by_variable: [10.0, 20.0],
        scaled.compiled: [10.0, 20.0],
        scaled.static: [50.0, 50.0],
        scaled.of_class: [50.0, 50.0],
        scaled: [50.0, 50.0],
        (lambda x: scaled.product(x, x + 1.0)): [5.0, 7.0],
        (lambda x: doubled.product(x, x + 1.0)): [10.0, 14.0],
    }

    def slope(way, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = way(x)
        return tape.gradient(y, [x, scaled.scale])

    for way, expected in ways.items():
        of_x, of_scale = decorate(slope)(way, tf.constant([2.0, 3.0]))
        np.testing.assert_allclose(of_x, expected)
        assert of_scale is None or list(of_scale) == [5.0, 5.0]


def test_a_decorated_function_keeps_its_name_and_is_pickled_by_it():
    assert Scaled.product.__name__ == Scaled().product.__name__ == "product"
    assert pickle.loads(pickle.dumps(module_level)) is module_level
    assert copy.deepcopy(module_level) is module_level


@tf.custom_gradient
def module_level(x):
    return x, lambda ct: ct
