"""``tf.print``: the texts are those of TensorFlow 2.21."""

import sys

import numpy as np
import pytest

import tvtf as tf

CASES = [
    ((tf.constant(1.5),), {}, "1.5"),
    (("a", tf.constant([1.0, 2.0, 3.5]), "b"), {}, "a [1 2 3.5] b"),
    ((tf.range(10),), {}, "[0 1 2 ... 7 8 9]"),
    ((tf.range(10),), {"summarize": -1}, "[0 1 2 3 4 5 6 7 8 9]"),
    ((tf.range(10),), {"summarize": 2}, "[0 1 ... 8 9]"),
    (
        (tf.reshape(tf.range(12.0), [2, 3, 2]),),
        {},
        "[[[0 1]\n  [2 3]\n  [4 5]]\n\n [[6 7]\n  [8 9]\n  [10 11]]]",
    ),
    ((tf.reshape(tf.range(16), [4, 4]),), {"summarize": 1}, "[[0 ... 3]\n ...\n [12 ... 15]]"),
    (
        ([tf.constant(1), 2, "x", 1.5], {"k": tf.constant([1, 2]), "j": (tf.constant(True),)}),
        {},
        "[1, 2, 'x', 1.5] {'j': (1,), 'k': [1 2]}",
    ),
    ((tf.constant("abc"),), {}, "abc"),
    ((tf.constant("abc"), tf.constant(["a", "b c"])), {}, '"abc" ["a" "b c"]'),
    (
        (tf.constant(1 / 3), tf.constant(1 / 3, tf.float64), tf.constant([1e-10, 1e10, 123456789.0])),
        {},
        "0.333333343 0.33333333333333331 [1e-10 1e+10 123456792]",
    ),
    ((1, 2.5, None, "s"), {"sep": "|"}, "1|2.5|None|s"),
    ((np.array([1, 2]), tf.Variable([1.0, 2.0])), {}, "array([1, 2]) [1 2]"),
    ((tf.constant([float("nan"), float("inf")]), tf.constant([1 + 2j])), {}, "[nan inf] [?]"),
    ((tf.zeros([0]), tf.zeros([2, 0])), {}, "[] [\n ...]"),
    ((tf.constant([1.5, 0.1], tf.bfloat16), tf.constant(2.0, tf.float16)), {}, "[1.5 0.100097656] 2"),
    (([], (), {}), {}, "[] () {}"),
    ((), {}, ""),
    (("100%", "{}"), {}, "100% {}"),
]


@pytest.mark.parametrize("values, options, text", CASES)
def test_the_text_is_tensorflows(values, options, text, capsys):
    tf.print(*values, **options)
    assert capsys.readouterr().err == text + "\n"


def test_a_traced_function_prints_when_it_runs_in_program_order(capsys):
    v = tf.Variable([1.0, 2.0])

    @tf.function
    def step(x):
        tf.print("before", v, [x, {"a": x}], "const", tf.constant("text"), summarize=1)
        v.assign(v + tf.cast(x[:2], tf.float32))
        tf.print("after", v, output_stream=sys.stdout, end=";")
        for i in tf.range(2):
            if i > 0:
                tf.print("turn", i)

    step(tf.constant([1, 2, 3]))
    step(tf.constant([1, 2, 3]))
    printed = capsys.readouterr()
    assert printed.out == "after [2 4];after [3 6];"
    first, second = (
        "before [{} ... {}] [[1 ... 3], {{'a': [1 ... 3]}}] const \"text\"\nturn 1\n".format(*p)
        for p in ((1, 2), (2, 4))
    )
    assert printed.err == (first + second).replace("[1 ... 2]", "[1 2]").replace("[2 ... 4]", "[2 4]")


def test_a_file_is_appended_to(tmp_path):
    for word in ("one", "two"):
        tf.print(word, output_stream=f"file://{tmp_path}/log")
    assert (tmp_path / "log").read_text() == "one\ntwo\n"


@pytest.mark.parametrize(
    "options, kind, text",
    [
        ({"foo": 1}, ValueError, "Unrecognized keyword arguments for tf.print: {'foo': 1}"),
        ({"summarize": "a"}, TypeError, "Expected int for argument 'summarize' not 'a'."),
        ({"summarize": -2}, ValueError, "summarize must be -1"),
        ({"output_stream": 3}, ValueError, "Unsupported output stream, logging level, or file. 3"),
    ],
)
def test_errors(options, kind, text):
    with pytest.raises(kind) as caught:
        tf.print(1, **options)
    assert str(caught.value).startswith(text)
