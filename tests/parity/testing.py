"""Assertions of tf.test.TestCase: what passes and what fails."""

import unittest

import numpy as np


def programs(tf):
    class Case(tf.test.TestCase):
        def runTest(self):
            pass

    def holds(check):
        def program():
            case = Case()
            try:
                check(case)
            except (AssertionError, ValueError, TypeError) as error:
                return "no" if isinstance(error, AssertionError) else type(error).__name__
            return "yes"

        return program

    checks = {
        "equal": lambda c: c.assertAllEqual(tf.constant([1, 2]), [1, 2]),
        "not equal": lambda c: c.assertAllEqual(tf.constant([1, 2]), [1, 3]),
        "another shape": lambda c: c.assertAllEqual([[1, 2]], [1, 2]),
        "nan is nan": lambda c: c.assertAllEqual([np.nan], [np.nan]),
        "close": lambda c: c.assertAllClose([1.0, 2.0], tf.constant([1.0, 2.0 + 1e-6])),
        "not close": lambda c: c.assertAllClose([1.0, 2.0], [1.0, 2.1]),
        "close by so much": lambda c: c.assertAllClose([1.0, 2.0], [1.0, 2.1], atol=0.2),
        "close by so much each": lambda c: c.assertAllClose([1.0, 2.0], [1.0, 2.1], atol=np.array([0.0, 0.2])),
        "close in a nest": lambda c: c.assertAllClose(
            {"a": [1.0], "b": (2.0,)}, {"a": tf.constant([1.0]), "b": (2.0,)}
        ),
        "another nest": lambda c: c.assertAllClose({"a": [1.0]}, {"b": [1.0]}),
        "half": lambda c: c.assertAllCloseAccordingToType(np.float16([1.0]), np.float16([1.001])),
        "single": lambda c: c.assertAllCloseAccordingToType(np.float32([1.0]), np.float32([1.001])),
        "by the types of a list": lambda c: c.assertAllCloseAccordingToType(
            [tf.constant(1.0, tf.float64), tf.constant(2.0)], [1.0, 2.0]
        ),
        "by the type of numbers": lambda c: c.assertAllCloseAccordingToType(
            np.float64([1.0]), [1.0 + 1e-5], float_rtol=1e-3
        ),
        "differ": lambda c: c.assertNotAllClose([1.0], [2.0]),
        "differ not": lambda c: c.assertNotAllEqual([1.0], [1.0]),
        "greater": lambda c: c.assertAllGreater([1.0, 2.0], 0.5),
        "not all less": lambda c: c.assertAllLess([1.0, 2.0], 2.0),
        "in range": lambda c: c.assertAllInRange([1.0, 2.0], 1.0, 2.0),
        "out of an open range": lambda c: c.assertAllInRange([1.0, 2.0], 1.0, 2.0, open_upper_bound=True),
        "in a set": lambda c: c.assertAllInSet([1, 2, 1], [1, 2]),
        "not in a set": lambda c: c.assertAllInSet([1, 2, 3], [1, 2]),
        "near": lambda c: c.assertNear(1.0, 1.1, 0.2),
        "arrays not near": lambda c: c.assertArrayNear([1.0, 2.0], [1.0, 2.5], 0.2),
        "shapes": lambda c: c.assertShapeEqual(np.zeros([2, 3]), tf.zeros([2, 3])),
        "dtypes": lambda c: c.assertDTypeEqual(tf.zeros([1]), np.float32),
        "dtype of a list": lambda c: c.assertDTypeEqual([1.0], np.float64),
        "an error of an op": lambda c: _raising(c.assertRaisesOpError("axis|index|slice"), lambda: tf.constant([1])[5]),
        "an error that fits": lambda c: _raising(c.assertRaisesWithPredicateMatch(ValueError, "b.d"), _bad),
        "one that does not": lambda c: _raising(c.assertRaisesWithPredicateMatch(ValueError, lambda e: False), _bad),
    }
    return {label: holds(check) for label, check in checks.items()} | {
        "the seed": lambda: _seeded(tf),
        "global step of tests": lambda: _steps_of_tests(tf),
        "jacobians": lambda: tf.test.compute_gradient(lambda x, y: x * y, [[1.0, 2.0], [3.0, 4.0]])[0],
        "values": lambda: Case().evaluate({"a": tf.constant([1]), "b": [tf.constant(2.0)]}),
    }


def _raising(manager, act):
    with manager:
        act()


def _bad():
    raise ValueError("bad")


def _seeded(tf):
    numbers = []

    class Random(tf.test.TestCase):
        def test(self):
            numbers.append(float(np.random.rand()))

    result = unittest.TestResult()
    for _ in range(2):
        Random("test").run(result)
    return result.wasSuccessful(), numbers[0] == numbers[1], round(numbers[0], 6)


def _steps_of_tests(tf):
    """What the global step counts in two tests of one process."""
    counts = []

    class Stepping(tf.test.TestCase):
        def test(self):
            step = tf.compat.v1.train.get_or_create_global_step()
            counts.append(int(step.assign_add(3)))

    for _ in range(2):
        Stepping("test").run(unittest.TestResult())
    return counts
