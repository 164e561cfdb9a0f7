"""Ragged tensors: creation, printing, indexing and arithmetic, in functions and under tapes."""

import os
import tempfile

import numpy as np
from parity_calls import value_or_kind


def programs(tf):
    return {
        **_making(tf),
        **_looking(tf),
        **_indexing(tf),
        **_computing(tf),
        **_segments(tf),
        **_texts(tf),
        **_traced(tf),
        **_rejected(tf),
        **_shown(tf),
    }


def _making(tf):
    R, r = tf.RaggedTensor, tf.ragged
    values = [3, 1, 4, 1, 5, 9, 2]
    return {
        "constant": lambda: repr(r.constant([[0, 1, 2, 3], [4, 5], [6, 7, 8], [9]])),
        "constant str": lambda: str(r.constant([[1.5, 2.0], [], [3.0]])),
        "constant text": lambda: r.constant([["a", "b"], ["c"]]),
        "constant deep": lambda: r.constant([[[1, 2], []], [[3]], []]),
        "constant dtype": lambda: r.constant([[1], [2, 3]], dtype=tf.float64),
        "constant ragged_rank": lambda: r.constant([[[1, 2], [3, 4]], [[5, 6]]], ragged_rank=1),
        "constant inner_shape": lambda: r.constant([[[1, 2], [3, 4]], [[5, 6]]], inner_shape=(2,)).shape,
        "constant empty": lambda: r.constant([[], []]),
        "constant empty of a rank": lambda: [
            r.constant([], ragged_rank=2).shape,
            r.constant([[]], ragged_rank=3).shape,
        ],
        "constant empty of a rank, inner": lambda: r.constant([], ragged_rank=1, inner_shape=(3,)).shape,
        "constant scalar of a rank": lambda: r.constant(5, ragged_rank=1),
        "constant of too high a rank": lambda: r.constant([1], ragged_rank=1),
        "constant of far too high a rank": lambda: r.constant([1], ragged_rank=2),
        "constant dense": lambda: r.constant([1, 2, 3]),
        "constant uniform": lambda: repr(r.constant([[1, 2], [3, 4]])),
        "constant splits dtype": lambda: r.constant([[1], [2, 3]], row_splits_dtype=tf.int32).row_splits,
        "from_row_splits": lambda: R.from_row_splits(values, [0, 4, 4, 7]),
        "from_row_lengths": lambda: R.from_row_lengths(values, [4, 0, 3]),
        "from_row_starts": lambda: R.from_row_starts(values, [0, 4, 4]),
        "from_row_limits": lambda: R.from_row_limits(values, [4, 4, 7]),
        "from_value_rowids": lambda: R.from_value_rowids(values, [0, 0, 0, 0, 2, 2, 2], nrows=4),
        "from_value_rowids count": lambda: R.from_value_rowids(values, [0, 0, 0, 0, 2, 2, 2]),
        "from_uniform_row_length": lambda: R.from_uniform_row_length([1, 2, 3, 4, 5, 6], 2),
        "from_uniform shape": lambda: R.from_uniform_row_length(r.constant([[1], [2, 3]]), 2).shape,
        "from_nested_row_splits": lambda: R.from_nested_row_splits(values, [[0, 3, 3, 5], [0, 4, 4, 5, 6, 7]]),
        "from_nested_row_lengths": lambda: R.from_nested_row_lengths(values, [[2, 1], [4, 0, 3]]),
        "from_nested_value_rowids": lambda: R.from_nested_value_rowids([1, 2, 3], [[0, 1, 1], [0, 1, 2]], [2, 3]),
        "from_tensor": lambda: R.from_tensor([[5, 7, 0], [0, 3, 0], [6, 0, 0]]),
        "from_tensor lengths": lambda: R.from_tensor([[5, 7, 0], [0, 3, 0], [6, 0, 0]], lengths=[1, 0, 3]),
        "from_tensor padding": lambda: R.from_tensor([[5, 7, 0], [0, 3, 0], [6, 0, 0]], padding=0),
        "from_tensor padding of rows": lambda: R.from_tensor([[[1, 2], [0, 0]], [[3, 0], [5, 6]]], padding=[0, 0]),
        "from_tensor padding by a number": lambda: R.from_tensor([[[1, 2], [0, 0]], [[3, 0], [0, 6]]], padding=0),
        "from_tensor padding deeper": lambda: R.from_tensor(
            [[[1, 2, 0], [0, 0, 0]], [[3, 0, 0], [0, 6, 0]]], padding=0, ragged_rank=2
        ),
        "from_tensor one length": lambda: R.from_tensor([[1, 2], [3, 4]], lengths=1),
        "from_tensor rank 2": lambda: R.from_tensor([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], ragged_rank=2).ragged_rank,
        "range": lambda: r.range([3, 5, 2]),
        "range limits": lambda: r.range([0, 5, 8], [3, 3, 12], 1),
        "range deltas": lambda: r.range([0, 5, 8], [3, 3, 12], [1, -1, 2]),
        "stack": lambda: r.stack([tf.constant([1, 2]), tf.constant([3])]),
        "stack ragged": lambda: r.stack([r.constant([[1], [2, 3]]), r.constant([[4, 5]])]),
        "segment ids": lambda: r.row_splits_to_segment_ids([0, 3, 3, 5, 6, 9]),
        "row splits": lambda: r.segment_ids_to_row_splits([0, 0, 0, 2, 2, 3, 4, 4, 4]),
        "boolean_mask": lambda: r.boolean_mask([[1, 2, 3], [4, 5, 6]], [[True, False, True], [False, False, True]]),
        "boolean_mask rows": lambda: r.boolean_mask(r.constant([[1, 2], [3], [4]]), [True, False, True]),
        "boolean_mask ragged": lambda: r.boolean_mask(r.constant([[1, 2], [3]]), r.constant([[True, False], [True]])),
    }


def _looking(tf):
    r = tf.ragged
    rows = r.constant([[3, 1, 4], [], [1, 5]])
    deep = r.constant([[[1, 2], []], [[3]]])
    return {
        "shape": lambda: rows.shape,
        "shape deep": lambda: deep.shape,
        "dtype": lambda: (rows.dtype, rows.ragged_rank, deep.ragged_rank),
        "values": lambda: (rows.values, deep.values),
        "flat_values": lambda: deep.flat_values,
        "row_splits": lambda: rows.row_splits,
        "nested_row_splits": lambda: deep.nested_row_splits,
        "nrows": lambda: (rows.nrows(), rows.nrows(out_type=tf.int32)),
        "row_lengths": lambda: rows.row_lengths(),
        "row_lengths axis": lambda: deep.row_lengths(axis=2),
        "row_starts": lambda: (rows.row_starts(), rows.row_limits()),
        "value_rowids": lambda: rows.value_rowids(),
        "nested lengths": lambda: deep.nested_row_lengths(),
        "nested rowids": lambda: deep.nested_value_rowids(),
        "uniform_row_length": lambda: (
            rows.uniform_row_length,
            tf.RaggedTensor.from_uniform_row_length([1, 2], 2).uniform_row_length,
        ),
        "bounding_shape": lambda: (rows.bounding_shape(), deep.bounding_shape(), rows.bounding_shape(axis=1)),
        "to_list": lambda: (rows.to_list(), deep.to_list()),
        "numpy": lambda: rows.numpy(),
        "numpy uniform": lambda: r.constant([[1, 2], [3, 4]]).numpy(),
        "to_tensor": lambda: rows.to_tensor(),
        "to_tensor default": lambda: rows.to_tensor(default_value=-1),
        "to_tensor shape": lambda: rows.to_tensor(shape=[None, 2]),
        "to_tensor wide": lambda: rows.to_tensor(shape=[4, 4]),
        "to_tensor deep": lambda: deep.to_tensor(),
        "to_tensor text": lambda: r.constant([["a"], ["b", "c"]]).to_tensor(default_value="?"),
        "with_values": lambda: rows.with_values(["a", "b", "c", "d", "e"]),
        "with_flat_values": lambda: deep.with_flat_values([7, 8, 9]),
        "with_row_splits_dtype": lambda: rows.with_row_splits_dtype(tf.int32).row_splits.dtype,
        "merge_dims": lambda: deep.merge_dims(0, 1),
        "merge_dims inner": lambda: deep.merge_dims(1, 2),
        "clipped by keyword": lambda: tf.clip_by_value(
            clip_value_max=4.0, t=tf.cast(rows, tf.float32), clip_value_min=2.0
        ),
        "clipped by rows": value_or_kind(
            lambda: tf.clip_by_value(
                t=tf.constant([1.0, 2.0, 3.0, 4.0, 5.0]), clip_value_min=tf.cast(rows, tf.float32), clip_value_max=2.0
            )
        ),
        "clipped nothing": value_or_kind(lambda: tf.clip_by_value(None, tf.cast(rows, tf.float32), 1.0)),
        "iterate": lambda: [row.numpy().tolist() for row in rows],
        "spec": lambda: repr(tf.type_spec_from_value(rows)),
        "spec made": lambda: repr(tf.RaggedTensorSpec([None, None], tf.int32)),
        "is_tensor": lambda: (tf.is_tensor(rows), isinstance(rows, tf.RaggedTensor)),
        "flatten": lambda: tf.nest.flatten(rows, expand_composites=True),
        "rank": lambda: (tf.rank(rows), tf.size(rows)),
    }


def _indexing(tf):
    rows = tf.ragged.constant([[1, 2, 3], [], [4, 5], [6]])
    deep = tf.ragged.constant([[[1, 2], [3]], [[4, 5, 6]], []])
    return {
        "row": lambda: rows[0],
        "row last": lambda: rows[-1],
        "row tensor": lambda: rows[tf.constant(2)],
        "item": lambda: rows[0, 1],
        "rows": lambda: rows[1:3],
        "rows from": lambda: rows[2:],
        "rows step": lambda: rows[::2],
        "rows reversed": lambda: rows[::-1],
        "in rows": lambda: rows[:, 1:],
        "in rows last": lambda: rows[:, -1:],
        "in rows until": lambda: rows[:, :2],
        "in rows step": lambda: rows[:, ::2],
        "in rows reversed": lambda: rows[:, ::-1],
        "in rows both": lambda: rows[1:, :1],
        "newaxis": lambda: rows[tf.newaxis].shape,
        "newaxis inner": lambda: rows[:, tf.newaxis],
        "ellipsis": lambda: rows[..., 1:],
        "deep row": lambda: deep[0],
        "deep rows": lambda: deep[:2, :1],
        "deep item": lambda: deep[0, 0, 1],
        "deep innermost": lambda: deep[:, :, 1:],
        "gather": lambda: tf.gather(rows, [2, 0]),
        "gather dense": lambda: tf.gather(tf.constant([10, 20, 30]), tf.ragged.constant([[2, 0], [1]])),
        "expand_dims": lambda: tf.expand_dims(rows, 0).shape,
        "reverse": lambda: tf.reverse(rows, axis=[0]),
    }


def _computing(tf):
    r = tf.ragged
    a, b = r.constant([[1.0, 2.0], [], [3.0]]), r.constant([[10.0, 20.0], [], [30.0]])
    n = r.constant([[3, 1, 4], [1], [5, 9]])
    deep = r.constant([[[1, 2], []], [[3]]])

    def gradient():
        values = tf.constant([1.0, 2.0, 3.0])
        with tf.GradientTape() as tape:
            tape.watch(values)
            rows = tf.RaggedTensor.from_row_splits(values, [0, 2, 2, 3])
            y = tf.reduce_sum(tf.reduce_sum(rows * rows, axis=1) * tf.constant([1.0, 5.0, 10.0]))
        return tape.gradient(y, values)

    def gradient_dense():
        values = tf.constant([1.0, 2.0, 3.0])
        with tf.GradientTape() as tape:
            tape.watch(values)
            y = tf.RaggedTensor.from_row_splits(values, [0, 2, 2, 3]).to_tensor() * 2.0
        return tf.convert_to_tensor(tape.gradient(y, values))

    def gradient_of_ragged():
        with tf.GradientTape() as tape:
            tape.watch(a)
            y = a * a
        return tape.gradient(y, a)

    return {
        "add": lambda: a + b,
        "operators": lambda: (a - b, a * 2.0, 1.0 / a, -a, a**2),
        "compare": lambda: (a > 1.5, a == b),
        "scalar left": lambda: 2.0 * a + 1.0,
        "tensor beside": lambda: n + [[10], [20], [30]],
        "integer": lambda: (n // 2, n % 3),
        "math": lambda: tf.square(a),
        "cast": lambda: tf.cast(a, tf.int32),
        "maximum": lambda: tf.maximum(a, 2.0),
        "zeros_like": lambda: tf.zeros_like(a),
        "reduce_sum": lambda: (tf.reduce_sum(n), tf.reduce_sum(n, axis=0), tf.reduce_sum(n, axis=1)),
        "reduce_sum keepdims": lambda: tf.reduce_sum(n, axis=1, keepdims=True),
        "reduce_mean": lambda: tf.reduce_mean(a, axis=1),
        "reduce_max": lambda: (tf.reduce_max(n, axis=1), tf.reduce_min(n, axis=-1), tf.reduce_prod(n, axis=1)),
        "reduce_any": lambda: (tf.reduce_any(n > 4, axis=1), tf.reduce_all(n > 0, axis=1)),
        "reduce deep": lambda: (tf.reduce_sum(deep, axis=2), tf.reduce_sum(deep, axis=1)),
        "reduce deep outer": lambda: tf.reduce_sum(deep, axis=0),
        "concat rows": lambda: tf.concat([a, b], axis=0),
        "concat columns": lambda: tf.concat([a, b], axis=1),
        "concat dense": lambda: tf.concat([n, [[0, 0]]], axis=0),
        "stack op": lambda: tf.stack([a, b]),
        "stack columns": lambda: tf.stack([a, b], axis=1),
        "map_flat_values": lambda: r.map_flat_values(lambda x: x * 2, n),
        "map two": lambda: r.map_flat_values(tf.add, n, n),
        "where": lambda: tf.where(n > 2, n, -n),
        "add_n": lambda: tf.add_n([a, b]),
        "gradient": gradient,
        "gradient dense": gradient_dense,
        "gradient of ragged": gradient_of_ragged,
    }


def _segments(tf):
    rows = tf.ragged.constant([[1.0, 2.0, 5.0], [3.0], [], [4.0, 4.0]])
    deep = tf.ragged.constant([[[1.0, 2.0], [3.0]], [[5.0]], []])
    arguments = {
        "rows": (rows, [1, 0, 0, 1], 3),
        "elements": (rows, tf.ragged.constant([[0, 1, 0], [0], [], [1, 1]]), 2),
        "deep rows": (deep, [0, 2, 0], 3),
        "inner rows": (deep, tf.ragged.constant([[0, 1], [1], []]), 2),
        "other splits": (rows, tf.ragged.constant([[0, 1], [0, 0], [], [1, 1]]), 2),
        "ids of a dense tensor": (tf.ones([2]), tf.ragged.constant([[0], [1]]), 2),
    }
    reductions = {name: getattr(tf.math, f"unsorted_segment_{name}") for name in ("sum", "prod", "max", "min", "mean")}
    reductions["sqrt_n"] = tf.math.unsorted_segment_sqrt_n
    programs = {
        f"segment {name} of {label}": lambda reduce=reduce, given=given: value_or_kind(lambda: reduce(*given))
        for name, reduce in reductions.items()
        for label, given in arguments.items()
    }
    traced = {
        f"traced segment {name} of {label}": lambda name=name, label=label: value_or_kind(
            lambda: tf.function(lambda *given: reductions[name](*given))(*arguments[label])
        )
        for name in ("sum", "mean")
        for label in ("rows", "elements", "other splits")
    }
    return programs | traced


def _texts(tf):
    s = tf.strings
    words = tf.constant(["Gray wolf", "Quick brown fox", "Lazy dog", ""])
    return {
        "split": lambda: s.split("Gray wolf", sep=" "),
        "split vector": lambda: s.split(words),
        "split sep": lambda: s.split(["a,b,,c", ""], sep=","),
        "split maxsplit": lambda: s.split(["a b c d"], maxsplit=2),
        "split matrix": lambda: s.split([["a b", "c"], ["d e f", ""]]),
        "split ragged": lambda: s.split(tf.ragged.constant([["a b"], ["c", "d e"]])),
        "numbers": lambda: s.to_number(s.split("1 10 100", " ")),
        "bytes_split": lambda: (s.bytes_split("Duck"), s.bytes_split(["ab", "", "c"])),
        "unicode_split": lambda: s.unicode_split("アヒル 🦆", "UTF-8"),
        "unicode_split vector": lambda: s.unicode_split(["Hé", "🙂"], "UTF-8"),
        "unicode_decode": lambda: s.unicode_decode("アヒル 🦆", "UTF-8"),
        "unicode_decode vector": lambda: s.unicode_decode(["Hé", "", "🙂"], "UTF-8"),
        "unicode_decode invalid": lambda: s.unicode_decode([b"a\xffb", b"\xe2\x82"], "UTF-8"),
        "unicode_decode ignore": lambda: s.unicode_decode([b"a\xffb"], "UTF-8", errors="ignore"),
        "unicode offsets": lambda: s.unicode_decode_with_offsets(["Hé🙂a"], "UTF-8"),
        "unicode split offsets": lambda: s.unicode_split_with_offsets("Hé🙂a", "UTF-8"),
        "unicode_encode": lambda: s.unicode_encode([72, 233, 0x1F642], "UTF-8"),
        "unicode_encode rows": lambda: s.unicode_encode(tf.ragged.constant([[72, 105], [233]]), "UTF-16-BE"),
        "unicode_encode invalid": lambda: s.unicode_encode([97, 0xD800, 98], "UTF-8"),
        "ngrams": lambda: s.ngrams(["A", "B", "C", "D"], 2),
        "ngrams several": lambda: s.ngrams(["A", "B", "C"], (1, 2), separator="-"),
        "ngrams padded": lambda: s.ngrams(["A", "B"], 3, pad_values=("<", ">")),
        "ngrams padding_width": lambda: s.ngrams(["A", "B", "C"], 3, pad_values="_", padding_width=1),
        "ngrams ragged": lambda: s.ngrams(tf.ragged.constant([["a", "b", "c"], ["d"], []]), 2),
        "ngrams short": lambda: s.ngrams(
            tf.ragged.constant([["a", "b", "c"], ["d"]]), 2, preserve_short_sequences=True
        ),
        "upper": lambda: s.upper(tf.ragged.constant([["a"], ["b", "c"]])),
        "length": lambda: s.length(s.split(words)),
        "join": lambda: s.join([tf.ragged.constant([["a"], ["b", "c"]]), "!"]),
        "reduce_join": lambda: [x.numpy().tolist() for x in [s.reduce_join(["a", "b"])]],
        "strings names": lambda: sorted(n for n in dir(s) if not n.startswith("_")),
    }


def _traced(tf):
    rows = tf.ragged.constant([[1.0, 2.0], [], [3.0]])
    spec = tf.RaggedTensorSpec([None, None], tf.float32)

    def run(function, *args):
        return tf.function(function)(*args)

    def count():
        f = tf.function(lambda x: tf.reduce_sum(x, axis=1), input_signature=[spec])
        return f(rows), f(tf.ragged.constant([[1.0], [2.0, 3.0, 4.0]])), f.experimental_get_tracing_count()

    def gradient():
        @tf.function(input_signature=[tf.TensorSpec([None]), tf.TensorSpec([None], tf.int64)])
        def f(values, splits):
            with tf.GradientTape() as tape:
                tape.watch(values)
                ragged = tf.RaggedTensor.from_row_splits(values, splits)
                y = tf.reduce_sum(ragged * ragged, axis=1) * 3.0
            return tape.gradient(y, values)

        return f(tf.constant([1.0, 2.0, 3.0]), tf.constant([0, 2, 2, 3], tf.int64))

    def splits_dtypes():
        """The dtypes of the row splits of results of tensors with int32 row splits, together with dense ones."""
        r = tf.ragged.constant
        short = r([[1.0, 2.0], [], [3.0]], row_splits_dtype=tf.int32)
        deep = r([[[1.0], [2.0, 3.0]], []], row_splits_dtype=tf.int32)
        mask = r([[True, False], [], [True]], row_splits_dtype=tf.int32)
        results = [
            *(tf.concat([short, other], axis) for other in (short, [[1.0], [2.0], [4.0]]) for axis in (0, 1)),
            *(tf.stack([short, short], axis) for axis in range(3)),
            tf.ragged.boolean_mask(short, mask),
            tf.ragged.boolean_mask(tf.zeros([2, 2]), r([[True, False], [True, True]], row_splits_dtype=tf.int32)),
            tf.reduce_sum(deep, 0),
            tf.reduce_max(deep, 1),
            tf.where(mask, short, short),
            tf.where(mask, short, 0.0),
        ]
        return [[splits.dtype.name for splits in result.nested_row_splits] for result in results]

    def of_outer_rows(function):
        """Calls a function that uses rows from outside with an index that is known only when it runs."""
        return lambda: tf.function(function, input_signature=[tf.TensorSpec([], tf.int32)])(tf.constant(1))

    return {
        "dtype of splits": splits_dtypes,
        "traced slice of outer rows": of_outer_rows(lambda _: (rows[1:], rows[2:1], rows[:-1, :1])),
        "traced slice of outer rows by a tensor": of_outer_rows(lambda i: (rows[i:], rows[:i])),
        "traced parts of outer rows": of_outer_rows(lambda _: tf.split(rows, 3)),
        "traced sum": lambda: run(lambda x: tf.reduce_sum(x, axis=1), rows),
        "traced double": lambda: run(lambda x: x * 2.0, rows),
        "traced signature": count,
        "traced to_tensor": lambda: run(lambda x: x.to_tensor() + 1.0, rows),
        "traced row": lambda: run(lambda x, i: x[i], rows, tf.constant(0)),
        "traced slice": lambda: run(lambda x: x[:, :1], rows),
        "traced split": lambda: run(lambda x: tf.strings.split(x), tf.constant(["a b", "c"])),
        "traced split scalar": lambda: run(lambda x: tf.strings.split(x, sep=","), tf.constant("a,b,c")),
        "traced concat": lambda: run(lambda x: tf.concat([x, x], axis=1), rows),
        "traced decode": lambda: run(lambda x: tf.strings.unicode_decode(x, "UTF-8"), tf.constant(["ab", "c"])),
        "traced gradient": gradient,
        "traced lengths": lambda: run(lambda x: x.row_lengths(), rows),
    }


def _rejected(tf):
    R, r = tf.RaggedTensor, tf.ragged
    rows = r.constant([[1.0, 2.0], [], [3.0]])

    def kinds_along_axes(join, value, rank):
        return [value_or_kind(lambda axis=axis: join([value, value], axis))() for axis in range(-rank - 1, rank + 1)]

    return {
        "depths": lambda: r.constant([[1], 2]),
        "splits": value_or_kind(lambda: R.from_row_splits([1, 2], [0, 3])),
        "splits begin": value_or_kind(lambda: R.from_row_splits([1, 2], [1, 2])),
        "splits decrease": value_or_kind(lambda: R.from_row_splits([1, 2], [0, 2, 1, 2])),
        "lengths": value_or_kind(lambda: R.from_row_lengths([1, 2], [3])),
        "other rows": value_or_kind(lambda: r.constant([[1], [2]]) + r.constant([[1, 2], []])),
        "index": value_or_kind(lambda: r.constant([[1], [2]])[5]),
        "column": lambda: r.constant([[1], [2, 3]])[:, 0],
        "bool": value_or_kind(lambda: bool(r.constant([[1], [2, 3]]))),
        "array": lambda: np.asarray(r.constant([[1], [2, 3]]).to_list()[0]),
        "dense constant": lambda: tf.constant([[0, 1, 2, 3], [4, 5]]),
        "joined along each axis": lambda: [
            kinds_along_axes(tf.concat, rows, rank=2),
            kinds_along_axes(tf.stack, rows, rank=3),
        ],
    }


def _shown(tf):
    r, form = tf.ragged.constant, tf.strings.format
    long = r([[1, 2, 3, 4, 5, 6, 7, 8], [], [9]])

    def printed(*values, traced=False, **options):
        path = os.path.join(tempfile.mkdtemp(), "printed")

        def write(*values):
            tf.print(*values, output_stream=f"file://{path}", **options)

        (tf.function(write) if traced else write)(*values)
        with open(path) as file:
            return file.read()

    return {
        "printed": lambda: printed(long, r([["a", "b"], ["c"]]), [r([[1.5], []]), {"k": r([[True]])}]),
        "printed in a function": lambda: printed(long, r([["a"], []]), tf.constant("t"), sep="|", traced=True),
        "printed whole": lambda: printed(long, summarize=-1),
        "printed with few": lambda: printed(r([[[1, 2, 3], [4]], [[5]], [[6]]]), summarize=1, traced=True),
        "printed with dense rows": lambda: printed(r([[[1, 2], [3, 4]], []], ragged_rank=1)),
        "printed, empty": lambda: printed(r([[]]), r([], ragged_rank=1)),
        "format": lambda: form("a {} b {} c {}", [r([["é"]]), tf.constant("s"), 2]),
        "format one": lambda: form("a % b", long, placeholder="%", summarize=2),
        "format in a function": lambda: tf.function(lambda x: form("{}", x))(r([[1.5], []])),
        "format without a place": lambda: form("no", r([[1]])),
    }
