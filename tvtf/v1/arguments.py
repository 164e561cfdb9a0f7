"""Functions that TensorFlow 1 had under other names or with other arguments, such as ``reduce_sum(x, keep_dims=...)``."""

from __future__ import annotations

import itertools
import math
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.shape import agree_dim, agree_shape, as_shape, brackets
from tvtf.core.tensor import convert_to_tensor, to_array
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.thread_state import state
from tvtf.dtypes import as_dtype
from tvtf.frontend.host.python_call import numpy_function
from tvtf.ops.operands import operands
from tvtf.v1.registry import Alias, tf_, v1


def renamed(target: str, renames: dict[str, str], order: str | None = None) -> Callable[..., Any]:
    """Returns a function that takes TensorFlow 1's arguments and calls the TensorFlow 2 function ``tf.<target>``.

    ``renames`` maps TensorFlow 1's argument names to TensorFlow 2's; an argument that maps to "" is dropped. ``order``
    lists the names of the positional arguments, separated by spaces, if TensorFlow 1 has another order.
    """
    positional_names = order.split() if order else None

    def run(*args: Any, **kwargs: Any) -> Any:
        """Calls ``tf.<target>`` with renamed arguments.

        Raises ValueError if an argument is passed under its old and its new name.
        """
        function = tf_(target)
        if positional_names:  # TensorFlow 2 has another order: pass all arguments by name
            kwargs = dict(zip(positional_names, args)) | kwargs
            args = ()
        new_kwargs: dict[str, Any] = {}
        for name, value in kwargs.items():
            new_name = renames.get(name, name)
            if not new_name or (name != new_name and value is None):  # an old name with None counts as not passed
                continue
            if new_name in new_kwargs and name != new_name:
                raise ValueError(f"Cannot specify both '{name}' and '{new_name}'")
            new_kwargs[new_name] = value
        return function(*args, **new_kwargs)

    run.__name__ = target.rpartition(".")[2]
    run.target = target  # type: ignore[attr-defined]
    return run


_REDUCING = {"keep_dims": "keepdims", "reduction_indices": "axis"}
for _name in ["sum", "mean", "max", "min", "prod", "any", "all", "logsumexp", "std", "variance"]:
    _path = f"math.reduce_{_name}"
    v1(f"reduce_{_name}", _path)(renamed(_path, _REDUCING))
v1("count_nonzero", "math.count_nonzero")(
    renamed(
        "math.count_nonzero", _REDUCING | {"input_tensor": "input"}, "input axis keepdims dtype name reduction_indices"
    )
)
v1("reduce_join", "strings.reduce_join")(
    renamed("strings.reduce_join", {**_REDUCING}, "inputs axis keep_dims separator name reduction_indices")
)
for _name in ("argmax", "argmin"):
    v1(_name, f"math.{_name}")(renamed(f"math.{_name}", {"dimension": "axis"}, "input axis name dimension output_type"))
    v1(_name.replace("arg", "arg_"))(
        renamed(f"math.{_name}", {"dimension": "axis"}, "input dimension output_type name")
    )
v1("expand_dims")(renamed("expand_dims", {"dim": "axis"}, "input axis name dim"))
v1("squeeze")(renamed("squeeze", {"squeeze_dims": "axis"}, "input axis name squeeze_dims"))
v1("norm", "linalg.norm")(renamed("norm", {"keep_dims": "keepdims"}, "tensor ord axis keepdims name keep_dims"))
v1("reverse_sequence")(
    renamed(
        "reverse_sequence",
        {"seq_dim": "seq_axis", "batch_dim": "batch_axis"},
        "input seq_lengths seq_axis batch_axis name seq_dim batch_dim",
    )
)
v1("gather")(renamed("gather", {}, "params indices validate_indices name axis batch_dims"))
v1("transpose")(renamed("transpose", {}, "a perm name conjugate"))
v1("map_fn")(
    renamed(
        "map_fn", {}, "fn elems dtype parallel_iterations back_prop swap_memory infer_shape name fn_output_signature"
    )
)
v1("scalar_mul", "math.scalar_mul")(lambda scalar, x, name=None: scalar * convert_to_tensor(x))
v1("confusion_matrix", "math.confusion_matrix")(
    renamed("math.confusion_matrix", {}, "labels predictions num_classes dtype name weights")
)
v1("pad")(renamed("pad", {}, "tensor paddings mode name constant_values"))
v1("zeros_like")(lambda tensor, dtype=None, name=None, optimize=True: tf_("zeros_like")(tensor, dtype))
v1("ones_like")(lambda tensor, dtype=None, name=None, optimize=True: tf_("ones_like")(tensor, dtype))
v1("to_float")(lambda x, name="ToFloat": tf_("cast")(x, "float32"))

ALIASES = {
    "log": "math.log",
    "mod": "math.floormod",
    "floormod": "math.floormod",
    "truncatediv": "truncatediv",
    "xlogy": "math.xlogy",
    "bincount": "math.bincount",
    "linalg.logdet": "linalg.logdet",
    "spectral.fft": "signal.fft",
    "spectral.rfft": "signal.rfft",
    "random_poisson": "random.poisson",
    "string_to_number": "strings.to_number",
    "serialize_sparse": "io.serialize_sparse",
    "serialize_many_sparse": "io.serialize_many_sparse",
    "sparse_add": "sparse.add",
    "sparse_concat": "sparse.concat",
    "sparse_split": "sparse.split",
    "sparse_reduce_max": "sparse.reduce_max",
    "sparse_reduce_sum": "sparse.reduce_sum",
    "sparse.matmul": "sparse.sparse_dense_matmul",
    "sparse_segment_sum": "sparse.segment_sum",
    "sparse_segment_mean": "sparse.segment_mean",
    "sparse_segment_sqrt_n": "sparse.segment_sqrt_n",
    "space_to_depth": "nn.space_to_depth",
    "depth_to_space": "nn.depth_to_space",
    "dequantize": "quantization.dequantize",
    "random.set_random_seed": "random.set_seed",
    "random.stateless_multinomial": "random.stateless_categorical",
    "image.resize_image_with_crop_or_pad": "image.resize_with_crop_or_pad",
    "image.transpose_image": "image.transpose",
    "image.resize_image_with_pad": "image.resize_with_pad",
    "decode_raw_v1": "io.decode_raw",
    "python_io.TFRecordWriter": "io.TFRecordWriter",
    "python_io.TFRecordOptions": "io.TFRecordOptions",
    "assert_rank_at_least": "debugging.assert_rank_at_least",
    "assert_none_equal": "debugging.assert_none_equal",
    "DeviceSpec": "DeviceSpec",
    "quantize_v2": "quantization.quantize",
}
"""TensorFlow 1's paths of functions, with their paths in TensorFlow 2."""


for _name, _target in ALIASES.items():
    v1(_name)(Alias(_target))
for _name in (
    *(
        "positive",
        "negative",
        "greater",
        "greater_equal",
        "less",
        "less_equal",
        "equal",
        "near",
        "non_negative",
        "non_positive",
    ),
    *("integer", "type", "scalar", "rank_in", "same_float_dtype", "proper_iterable"),
):
    v1(f"assert_{_name}")(Alias(f"debugging.assert_{_name}"))
v1("debugging.assert_equal")(Alias("debugging.assert_equal"))


v1("floor_div")(Alias("math.floordiv"))


@v1("constant")
def constant(value: Any, dtype: Any = None, shape: Any = None, name: Any = "Const", verify_shape: bool = False) -> Any:
    """Same as ``tf.constant``. In a graph, the last element is repeated to fill ``shape``.

    Raises:
      TypeError: the value's shape differs from ``shape``, and ``verify_shape`` is set.
      ValueError: in a graph, the value has too many elements.
    """
    make_constant = tf_("constant")
    if shape is None:
        return make_constant(value, dtype, name=name)
    array = to_array(value, None if dtype is None else as_dtype(dtype))
    # An unknown dim counts as 0.
    requested = tuple(int(dim or 0) for dim in as_shape(shape).as_list())
    in_graph = state.trace is not None and state.trace.has_keys
    if verify_shape and array.shape != requested:
        if in_graph:
            raise TypeError(f"Expected Tensor's shape: {requested}, but got {array.shape}.")
        raise TypeError(
            f"Expected Tensor {array} (converted from {value}) with shape {requested}, but got shape {array.shape}."
        )
    # A single element is broadcast to the shape.
    if in_graph and array.size != 1:
        return make_constant(_extended_by_last_element(array, math.prod(requested)), shape=requested, name=name)
    return make_constant(value, dtype, shape, name=name)


def _extended_by_last_element(array: np.ndarray, size: int) -> np.ndarray:
    """Extends an array to a vector of ``size`` elements, by repeating the last element.

    For example, ``[1, 2]`` and size 4 give ``[1, 2, 2, 2]``. An empty array gives zeros.

    Raises:
      ValueError: ``array`` has more than ``size`` elements.
    """
    if array.size > size > 0:
        raise ValueError(f"Too many elements provided. Takes at most {size}, but got {array.size}.")
    flat = array.reshape(-1)[:size]
    last = flat[-1:] if array.size else np.zeros(1, array.dtype)
    return np.concatenate([flat, np.repeat(last, size - array.size)])


@v1("div")
def div(x: Any, y: Any, name: str | None = None) -> Any:
    """Divides as Python 2: integers are rounded down."""
    x = convert_to_tensor(x)
    return tf_("floordiv")(x, y) if x.dtype.is_integer else tf_("divide")(x, y)


@v1("where")
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Same as ``tf.where``, without broadcasting.

    ``condition`` is a scalar, a vector with one bool per row, or of the same shape as ``x`` and ``y``.

    Raises:
      InvalidArgumentError: (ValueError while tracing) the shapes fit in none of these ways.
    """
    if x is None or y is None:
        return tf_("where")(condition, x, y)
    mask = convert_to_tensor(condition, "bool")
    first, second = operands(x, y)
    if mask.ndim:
        _require_selectable(mask, first, second)
    if mask.ndim == 1:  # one bool per row: add axes, so that it is broadcast to the rows
        mask = tf_("reshape")(mask, [-1, *[1] * (first.ndim - 1)])
    return tf_("where")(mask, first, second)


def _require_selectable(truth: Any, x: Any, y: Any) -> None:
    """Checks the shapes of ``where(truth, x, y)``, and raises TensorFlow's error if they do not match.

    ``truth`` is not a scalar.
    """
    truth_shape, x_shape, y_shape = truth._type.shape, x._type.shape, y._type.shape
    message = None
    if not x.ndim:
        message = "'then' must be at least a vector, but saw shape: []"
    elif not agree_shape(x_shape, y_shape):
        message = (
            f"'then' and 'else' must have the same size.  but received: {brackets(x_shape)} vs. {brackets(y_shape)}"
        )
    elif truth.ndim == 1 and not agree_dim(truth_shape[0], x_shape[0]):
        message = f"Number of batches of 'then' must match size of 'cond', but saw: {x_shape[0]} vs. {truth_shape[0]}"
    elif truth.ndim > 1 and not agree_shape(truth_shape, x_shape):
        message = (
            "Inputs to operation Select of type Select must have the same size and shape.  "
            f"Input 0: {brackets(truth_shape)} != input 1: {brackets(x_shape)}"
        )
    if message:
        raise ArgumentError(message).for_op("Select")


@v1("cond")
def cond(
    pred: Any,
    true_fn: Any = None,
    false_fn: Any = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Any = None,
    fn2: Any = None,
) -> Any:
    """Same as ``tf.cond``, but unpacks a result that is a list of one value, unless ``strict`` is set.

    ``fn1`` and ``fn2`` are TensorFlow 1's older names of ``true_fn`` and ``false_fn``.
    """
    result = tf_("cond")(pred, true_fn or fn1, false_fn or fn2)
    is_single = isinstance(result, (list, tuple)) and len(result) == 1
    return result[0] if is_single and not strict else result


@v1("case")
def case(
    pred_fn_pairs: Any, default: Any = None, exclusive: bool = False, strict: bool = False, name: str = "case"
) -> Any:
    """Same as ``tf.case``, but the pairs of predicate and function may also be a dict.

    The keys of a dict may be references to tensors (``tensor.ref()``), because tensors are no keys in TensorFlow 2.

    Args:
      pred_fn_pairs: pairs of a boolean scalar and a function, or a dict of them.
      default: the function to call if no predicate is true, or None.
      exclusive: whether an error is raised if several predicates are true.
      strict: not used.
    """
    given_pairs = pred_fn_pairs.items() if isinstance(pred_fn_pairs, dict) else pred_fn_pairs
    pairs = []
    for pred, fn in given_pairs:
        is_reference = hasattr(pred, "deref")
        pairs.append((pred.deref() if is_reference else pred, fn))
    return tf_("case")(pairs, default, exclusive)


@v1("Print")
def print_tensor(
    input_: Any,
    data: Any,
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Any:
    """Returns ``input_`` as a tensor that prints the tensors ``data`` to stderr whenever it is computed.

    It prints at most ``first_n`` times. ``summarize`` is the number of elements to print of each tensor. A negative
    number prints all elements.
    """
    # By default it prints as often as the tensor is computed.
    is_unlimited = first_n is None or first_n < 0
    remaining_prints: Iterator[int] = itertools.count() if is_unlimited else iter(range(int(first_n)))  # type: ignore[arg-type]
    limit = 3 if summarize is None else summarize

    def write_to_stderr(*arrays: Any) -> list[Any]:
        if next(remaining_prints, None) is not None:
            texts = [f"[{_first_elements(array, limit)}]" for array in arrays]
            sys.stderr.write(f"{message or ''}{''.join(texts)}\n")
        return []

    tensors = [convert_to_tensor(x) for x in data]
    with tf_("control_dependencies")([_effect_op(numpy_function, write_to_stderr, tensors)]):
        return tf_("identity")(input_)


def _effect_op(make_op: Any, side_effect: Any, tensors: Any) -> Any:
    """Creates an op that calls ``side_effect`` on the values of ``tensors`` when the op runs.

    ``make_op`` creates an op from a Python function, for example ``numpy_function``. The op returns True, because every
    op needs a result.
    """

    def run(*arrays: Any) -> Any:
        side_effect(*arrays)
        return np.array(True)

    return make_op(run, tensors, TensorSpec([], as_dtype("bool")))


def _first_elements(array: Any, limit: int) -> str:
    """Returns the first elements of an array as text."""
    flat = array.reshape(-1)
    texts = [_as_text(element) for element in (flat if limit < 0 else flat[:limit])]
    return " ".join(texts) + ("..." if 0 <= limit < flat.size else "")


def _as_text(value: Any) -> str:
    """Formats an element of an array as ``tf.Print`` does: bools in lower case, floats with six significant digits."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    is_python_value = isinstance(value, (bool, int))
    if not is_python_value and value.dtype.kind == "f":
        return f"{float(value):g}"
    text = str(value)  # an integer, a bool or text
    return text.lower() if text in ("True", "False") else text


@v1("verify_tensor_all_finite", "debugging.assert_all_finite")
def verify_tensor_all_finite(
    t: Any = None, msg: Any = None, name: Any = None, x: Any = None, message: Any = None
) -> Any:
    """Returns ``t``; an element that is not finite raises an error."""
    return tf_("debugging.check_numerics")(x if t is None else t, message or msg or "")


@v1("py_func")
def py_func(func: Any, inp: Any, Tout: Any, stateful: bool = True, name: str | None = None) -> Any:  # noqa: N803
    """Calls a function on arrays as an op; its results have unknown shapes."""
    return tf_("numpy_function")(func, inp, Tout, stateful)


@v1("substr", "strings.substr")
def substr(input: Any, pos: Any, len: Any, name: Any = None, unit: str = "BYTE") -> Any:  # noqa: A002
    """Same as ``tf.strings.substr``."""
    return tf_("strings.substr")(input, pos, len, unit)


@v1("string_join")
def string_join(inputs: Any, separator: str = "", name: str | None = None) -> Any:
    """Same as ``tf.strings.join``."""
    return tf_("strings.join")(inputs, separator)


@v1("string_split")
def string_split(
    source: Any = None,
    sep: Any = None,
    skip_empty: bool = True,
    delimiter: Any = None,
    result_type: str = "SparseTensor",
    **_: Any,
) -> Any:
    """Splits each string at any of the characters in ``delimiter`` (or ``sep``), by default at whitespace.

    Returns a sparse tensor with a row of words for each string, or a ``RaggedTensor``.

    Args:
      source: a vector of strings.
      sep, delimiter: the characters at which to split. An empty string splits between all characters.
      skip_empty: whether empty words are left out.
      result_type: "SparseTensor" or "RaggedTensor".
    """
    delimiters = delimiter if delimiter is not None else sep
    if delimiters is None:
        words = tf_("strings.split")(source)
    else:
        words = _split_at_any(convert_to_tensor(source), delimiters)
        if skip_empty:
            words = tf_("ragged.boolean_mask")(words, tf_("math.not_equal")(words, ""))
    return words if result_type == "RaggedTensor" else words.to_sparse()


def _split_at_any(texts: Any, delimiters: str) -> Any:
    """Splits strings at any of several characters, and returns the words as a ragged tensor.

    Without a delimiter (an empty string), each byte is a word.

    Args:
      texts: the strings.
      delimiters: the characters.
    """
    if not delimiters:
        return tf_("strings.bytes_split")(texts)
    first = delimiters[0]
    for char in delimiters[1:]:  # strings.split takes one delimiter: replace all others by the first
        texts = tf_("strings.regex_replace")(texts, re.escape(char), first)
    return tf_("strings.split")(texts, first)


@v1("strings.split")
def strings_split(
    input: Any = None,
    sep: Any = None,
    maxsplit: int = -1,
    result_type: str = "SparseTensor",
    source: Any = None,
    name: Any = None,
) -> Any:  # noqa: A002
    """Same as ``tf.strings.split``, but returns a sparse tensor unless ``result_type`` is "RaggedTensor".

    Args:
      input, source: the strings; ``source`` is the older name.
      sep: the text at which to split; None for whitespace.
      maxsplit: the largest number of splits of a string; -1 for any number.
      result_type: "SparseTensor" or "RaggedTensor".
    """
    words = tf_("strings.split")(convert_to_tensor(source if input is None else input), sep, maxsplit)
    if not hasattr(words, "to_sparse"):  # the words of a scalar string are a dense vector: make them the only row
        words = tf_("RaggedTensor").from_tensor(words[None])
    return words if result_type == "RaggedTensor" else words.to_sparse()


@v1("string_to_hash_bucket", "strings.to_hash_bucket")
def string_to_hash_bucket(
    string_tensor: Any = None, num_buckets: Any = None, name: Any = None, input: Any = None
) -> Any:  # noqa: A002
    """Same as ``tf.strings.to_hash_bucket``."""
    return tf_("strings.to_hash_bucket")(string_tensor if input is None else input, num_buckets)


@v1("decode_raw", "io.decode_raw")
def decode_raw(
    input_bytes: Any = None, out_type: Any = None, little_endian: bool = True, name: Any = None, bytes: Any = None
) -> Any:  # noqa: A002
    """Same as ``tf.io.decode_raw``."""
    return tf_("io.decode_raw")(bytes if input_bytes is None else input_bytes, out_type, little_endian)


@v1("decode_csv", "io.decode_csv")
def decode_csv(
    records: Any,
    record_defaults: Any,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: Any = None,
    na_value: str = "",
    select_cols: Any = None,
) -> Any:
    """Converts records of comma-separated values to tensors, one for each column: ``tf.io.decode_csv``.

    TensorFlow 1 has the arguments in another order.

    Args:
      records: a tensor of strings, each of which is a record.
      record_defaults: for each column, a tensor with the default value, whose dtype is that of the column.
      field_delim: the character between fields.
      use_quote_delim: whether a field may stand in quotes.
      na_value: a text that stands for a missing value.
      select_cols: the indices of the columns to return; None for all.
    """
    return tf_("io.decode_csv")(records, record_defaults, field_delim, use_quote_delim, na_value, select_cols)


@v1("parse_single_example", "io.parse_single_example")
def parse_single_example(serialized: Any, features: Any, name: Any = None, example_names: Any = None) -> Any:
    """Same as ``tf.io.parse_single_example``."""
    return tf_("io.parse_single_example")(serialized, features)


@v1("parse_example", "io.parse_example")
def parse_example(serialized: Any, features: Any, name: Any = None, example_names: Any = None) -> Any:
    """Same as ``tf.io.parse_example``."""
    return tf_("io.parse_example")(serialized, features, example_names)


@v1("sparse_to_dense")
def sparse_to_dense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: Any = None,
) -> Any:
    """Returns a dense tensor that has ``sparse_values`` at ``sparse_indices`` and ``default_value`` elsewhere.

    Args:
      sparse_indices: a scalar, a vector of positions in a vector, or a matrix with an index vector in each row.
      output_shape: the shape of the result.
      sparse_values: a vector of values, or a scalar that is stored at all positions.
      default_value: the value of all other elements.
      validate_indices: not used.
    """
    index_vectors = convert_to_tensor(sparse_indices)
    values = convert_to_tensor(sparse_values)
    if index_vectors.shape.rank == 0:
        index_vectors = tf_("reshape")(index_vectors, [1, 1])
    elif index_vectors.shape.rank == 1:  # each element becomes an index vector
        index_vectors = index_vectors[:, None]
    count = tf_("shape")(index_vectors)[:1]
    updates = tf_("broadcast_to")(values, count)
    defaults = tf_("fill")(output_shape, convert_to_tensor(default_value, values.dtype))
    return tf_("tensor_scatter_nd_update")(defaults, index_vectors, updates)


@v1("setdiff1d")
def setdiff1d(x: Any, y: Any, index_dtype: Any = "int32", name: Any = None) -> Any:
    """Returns the values of ``x`` that are not in ``y``, and their positions."""
    x, y = (tf_("reshape")(operand, [-1]) for operand in operands(x, y))
    all_pairs_equal = tf_("equal")(x[:, None], y[None, :])
    is_missing = tf_("math.logical_not")(tf_("reduce_any")(all_pairs_equal, axis=1))
    positions = tf_("reshape")(tf_("where")(is_missing), [-1])
    return tf_("gather")(x, positions), tf_("cast")(positions, as_dtype(index_dtype))


@v1("multinomial", "random.multinomial")
def multinomial(logits: Any, num_samples: Any, seed: Any = None, name: Any = None, output_dtype: Any = None) -> Any:
    """Same as ``tf.random.categorical``."""
    return tf_("random.categorical")(logits, num_samples, output_dtype or "int64", seed)


@v1("while_loop")
def while_loop(
    cond: Any, body: Any, loop_vars: Any, shape_invariants: Any = None, parallel_iterations: int = 10, back_prop: bool = True,
    swap_memory: bool = False, name: Any = None, maximum_iterations: Any = None, return_same_structure: bool = False,
) -> Any:  # fmt: skip
    """Same as ``tf.while_loop``, but returns a single loop variable itself, not in a list.

    Arguments that only tune TensorFlow's runtime are unused.

    Args:
      cond, body: functions of the loop variables: the condition, and an iteration.
      loop_vars: the initial values of the loop variables.
      shape_invariants: the shapes of the loop variables in all iterations, or None.
      maximum_iterations: the largest number of iterations, or None.
      return_same_structure: whether a single loop variable is returned in a list, too.
    """

    def body_as_list(*variables: Any) -> Any:
        return _as_list(body(*variables))

    results = tf_("while_loop")(
        cond, body_as_list, loop_vars, shape_invariants=shape_invariants, maximum_iterations=maximum_iterations
    )
    is_single = isinstance(results, (list, tuple)) and len(results) == 1 and not return_same_structure
    return results[0] if is_single else results


def _as_list(results: Any) -> Any:
    return results if isinstance(results, (list, tuple)) else [results]


@v1("batch_to_space_nd", "manip.batch_to_space_nd")
def batch_to_space_nd(input: Any, block_shape: Any, crops: Any, name: Any = None) -> Any:  # noqa: A002
    """Same as ``tf.batch_to_space``."""
    return tf_("batch_to_space")(input, block_shape, crops)


@v1("space_to_batch")
def space_to_batch(
    input: Any, paddings: Any = None, block_size: Any = None, name: Any = None, block_shape: Any = None
) -> Any:  # noqa: A002
    """Same as ``tf.space_to_batch``, with one block size for both dims."""
    return tf_("space_to_batch")(input, [block_size] * 2 if block_shape is None else block_shape, paddings)


@v1("batch_gather")
def batch_gather(params: Any, indices: Any, name: Any = None) -> Any:
    """Same as ``tf.gather`` with the batch dims of the indices."""
    indices = convert_to_tensor(indices)
    return tf_("gather")(params, indices, axis=indices.shape.rank - 1, batch_dims=indices.shape.rank - 1)


@v1("sparse_matmul")
def sparse_matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, *_: Any, **__: Any) -> Any:
    """Same as ``tf.matmul``."""
    return tf_("matmul")(a, b, transpose_a, transpose_b)


@v1("add_check_numerics_ops")
def add_check_numerics_ops() -> Any:
    """Not supported."""
    raise NotImplementedError("use tf.debugging.enable_check_numerics(), or tf.debugging.check_numerics on a tensor")


@v1("sparse_reduce_sum_sparse")
def sparse_reduce_sum_sparse(sp_input: Any, axis: Any = None, keepdims: bool = False, **_: Any) -> Any:
    """Same as ``tf.sparse.reduce_sum``, with a sparse result."""
    return tf_("sparse.reduce_sum")(sp_input, axis, keepdims, output_is_sparse=True)


def _unsupported(path: str, reason: str) -> None:
    """Declares ``tf.compat.v1.<path>`` as a function that raises NotImplementedError with ``reason``."""

    def raise_error(*_: Any, **__: Any) -> None:
        raise NotImplementedError(f"tf.compat.v1.{path}: {reason}")

    raise_error.__name__ = path.rpartition(".")[2]
    v1(path)(raise_error)


_SAVED = "tvtf does not write graphs of TensorFlow 1: keep their variables with train.Saver, or save a tf.Module"
for _path in ("saved_model.simple_save", "saved_model.loader.load", "saved_model.load", "saved_model.Builder"):
    _unsupported(_path, _SAVED)
for _path in (
    "graph_util.convert_variables_to_constants",
    "graph_util.extract_sub_graph",
    "import_graph_def",
    "train.write_graph",
):
    _unsupported(_path, "tvtf does not run TensorFlow's GraphDefs: build the graph with the code that built it")
