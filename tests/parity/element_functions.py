"""Functions of a dataset's elements whose Python control flow depends on tensors, which AutoGraph converts."""

import functools

import numpy as np


def programs(tf):
    return _branches_and_loops(tf) | _kinds_of_functions(tf) | _in_functions(tf)


def _shown(tf, dataset):
    return [tf.nest.map_structure(lambda t: np.asarray(t).tolist(), element) for element in dataset]


def _tenfold_if_even(x):
    if x % 2 == 0:
        y = x * 10
    else:
        y = -x
    return y


def _branches_and_loops(tf):
    data = tf.data.Dataset

    def looped(x):
        for i in tf.range(x):
            if i > 2:
                break
            x += i
        while x > 3:
            x -= 2
        return x

    def chosen(x):
        if x > 2:
            return tf.constant(True)
        return x < 1

    def added_if_even(total, x):
        if x % 2 == 0:
            total += x
        return total, total

    def ordered(a, b):
        if a > b:
            a, b = b, a
        return {"low": a, "high": b}

    def of_two_sizes(x):
        if x > 1:
            y = tf.ones([2])
        else:
            y = tf.ones([3])
        return y

    def set_in_one_branch(x):
        if x > 1:
            y = x
        return y

    def lengthened(text):
        if tf.strings.length(text) > 2:
            return text
        return text + "!"

    def opened(x):
        if x > 1:
            n = x
        else:
            n = x + 5
        return data.range(n)

    def count_of_calls():
        calls = []

        def counted(x):
            calls.append(x)
            return _tenfold_if_even(x)

        return _shown(tf, data.range(5).map(counted)), len(calls)

    pairs = data.zip(data.range(4), data.range(3, -1, -1))
    reducer = tf.data.experimental.Reducer(
        lambda key: np.int64(0), lambda total, x: added_if_even(total, x)[0], _tenfold_if_even
    )
    made = {
        "branch in map": lambda: data.range(5).map(_tenfold_if_even),
        "loops in map": lambda: data.range(7).map(looped),
        "loops in parallel map": lambda: data.range(7).map(looped, num_parallel_calls=2),
        "branch in a called function": lambda: data.range(5).map(lambda x: 1 + _tenfold_if_even(x)),
        "branch in map_and_batch": lambda: data.range(4).apply(tf.data.experimental.map_and_batch(_tenfold_if_even, 2)),
        "branch on pairs": lambda: pairs.map(ordered),
        "branches of two sizes": lambda: data.range(3).map(of_two_sizes),
        "branch on text": lambda: data.from_tensor_slices(["a", "abc"]).map(lengthened),
        "branch in filter": lambda: data.range(7).filter(chosen),
        "not in take_while": lambda: data.range(7).take_while(lambda x: not x > 4),
        "branch in scan": lambda: data.range(7).scan(np.int64(0), added_if_even),
        "branch in flat_map": lambda: data.range(3).flat_map(opened),
        "branch in interleave": lambda: data.range(3).interleave(opened, cycle_length=2),
        "branch in map in flat_map": lambda: data.range(3).flat_map(lambda x: data.range(x).map(_tenfold_if_even)),
        "branch in a key": lambda: data.range(7).apply(
            tf.data.experimental.group_by_reducer(lambda x: _tenfold_if_even(x) % 3, reducer)
        ),
        "Python list": lambda: data.range(3).map(lambda x: [x + i for i in range(2)]),
        "a name set in one branch": lambda: data.range(3).map(set_in_one_branch),
    }
    shown = {label: lambda make=make: _shown(tf, make()) for label, make in made.items()}
    return shown | {
        "branch, calls of Python": count_of_calls,
        "branches of two sizes, type": lambda: data.range(3).map(of_two_sizes).element_spec,
        "branch in reduce": lambda: data.range(7).reduce(np.int64(0), lambda s, x: added_if_even(s, x)[0]),
    }


def _kinds_of_functions(tf):
    data = tf.data.Dataset

    class Threshold:
        def __init__(self):
            self.limit = tf.constant(2, tf.int64)

        def method(self, x):
            if x > self.limit:
                return x
            return -x

        def __call__(self, x):
            if x > self.limit:
                return x * 3
            return -x

    def add(a, b):
        return _tenfold_if_even(a + b)

    def at_least(least):
        def greater(x):
            if x > least:
                return x
            return least

        return greater

    def of_captured():
        return [_shown(tf, data.range(4).map(at_least(tf.constant(n, tf.int64)))) for n in (1, 2)]

    functions = {
        "a method": Threshold().method,
        "a callable object": Threshold(),
        "a partial function": functools.partial(add, tf.constant(1, tf.int64)),
        "a tf.function": tf.function(_tenfold_if_even),
    }
    made = {f"branch in {k}": lambda f=f: _shown(tf, data.range(4).map(f)) for k, f in functions.items()}
    return made | {"branch on captured tensors": of_captured}


def _in_functions(tf):
    data = tf.data.Dataset

    @tf.function
    def total(n):
        found = tf.constant(0, tf.int64)
        for x in data.range(n).map(_tenfold_if_even):
            found += x
        return found

    return {
        "branch in map in a function": lambda: total(5),
        "branch in map of a computed dataset": lambda: total(tf.constant(5, tf.int64)),
    }
