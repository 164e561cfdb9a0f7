"""Exported models and folders whose layers look things up in tables, run in another process."""

import subprocess
import sys
import textwrap

import numpy as np
from covering import covering

import tvtf as tf

TEXTS = np.array([["a b zz"], ["b a"], [""]])
PROGRAM = """
    import sys
    import numpy as np
    import tvtf as tf
    loaded = tf.saved_model.load("folder")
    given = np.load("given.npy")
    given = tf.constant(given.astype(object) if given.dtype.kind == "U" else given)
    found = loaded.serve(given) if sys.argv[1] == "export" else loaded(given)
    np.save("found.npy", found.numpy())
"""


def model(name):
    layers = tf.keras.layers
    if name == "TextVectorization":
        layer, inputs, given = (
            layers.TextVectorization(vocabulary=["a", "b"], output_sequence_length=3),
            "string",
            TEXTS,
        )
    elif name == "StringLookup":
        layer, inputs, given = (
            layers.StringLookup(vocabulary=["a", "b"], num_oov_indices=2),
            "string",
            np.array([["a"], ["q"]]),
        )
    else:
        layer, inputs, given = layers.IntegerLookup(vocabulary=[7, 9]), "int64", np.array([[7], [8], [9]])
    numbers = layers.Embedding(8, 2)(layer(x := layers.Input((1,), dtype=inputs)))
    return tf.keras.Model(x, layers.GlobalAveragePooling1D()(numbers)), given


@covering(name=["TextVectorization", "StringLookup", "IntegerLookup"], way=["export", "save"])
def test_tables_go_with_a_model(name, way):
    made, given = model(name)
    expected = made(tf.constant(given.astype(object) if given.dtype.kind == "U" else given))
    made.export("folder", verbose=False) if way == "export" else made.save("folder")
    np.save("given.npy", given)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(PROGRAM), way],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    np.testing.assert_array_equal(np.load("found.npy"), expected)
    if way == "save":
        again = tf.keras.models.load_model("folder")
        np.testing.assert_array_equal(
            again(tf.constant(given.astype(object) if given.dtype.kind == "U" else given)), expected
        )


def test_rows_of_words_are_computed_on():
    """Their number is the number of texts, which has one form wherever it is asked for."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def doubled(texts):
        words = tf.strings.split(texts)
        lengths = words.with_flat_values(tf.strings.length(words.flat_values))
        return tf.cast(lengths.to_tensor(shape=[None, 3]), tf.float32) * 2.0

    assert doubled(tf.constant(["a bb ccc", "", "a"])).numpy().tolist() == [[2, 4, 6], [0, 0, 0], [2, 0, 0]]
