"""Parses, reads and writes datasets of ``tf.train.Example``.

Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/make_batched_features_dataset
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvtf.composites.sparse.tensor import SparseTensor
from tvtf.core.primitive import export, public_names
from tvtf.core.tensor_spec import TensorSpec
from tvtf.data.base import Dataset
from tvtf.data.readers import TFRecord, list_files
from tvtf.dtypes import string
from tvtf.fileio.tfrecord import TFRecordWriter as RecordWriter


@export("data.experimental.parse_example_dataset")
def parse_example_dataset(
    features: Any, num_parallel_calls: Any = 1, deterministic: bool | None = None
) -> Callable[[Dataset], Dataset]:
    """For ``apply``: parses batches of serialized examples as ``tf.io.parse_example`` does.

    Raises:
      ValueError: ``features`` is None.
      TypeError: the dataset's elements are not vectors of strings.

    >>> import tvtf as tf
    >>> one = tf.train.Example(features=tf.train.Features(feature={
    ...     "x": tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))})).SerializeToString()
    >>> features = {"x": tf.io.FixedLenFeature([], tf.int64)}
    >>> parsed = tf.data.Dataset.from_tensors([one, one]).apply(tf.data.experimental.parse_example_dataset(features))
    >>> next(iter(parsed))["x"].numpy()
    array([7, 7])

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/parse_example_dataset
    """
    if features is None:
        raise ValueError("Argument `features` is required, but not specified.")

    def apply(dataset: Any) -> Dataset:
        """Parses batches of serialized examples, and returns a dataset of their features.

        Raises:
          TypeError: the elements are not vectors of strings.
        """
        if not TensorSpec([None], string).is_compatible_with(dataset.element_spec):
            raise TypeError(
                f"Input dataset should be a dataset of vectors of strings. Instead it is `{dataset.element_spec}`."
            )
        parallel = None if num_parallel_calls == 1 else num_parallel_calls
        return dataset.map(  # type: ignore[no-any-return]
            lambda texts: _parsed(texts, features), num_parallel_calls=parallel, deterministic=deterministic
        )

    return apply


def _parsed(texts: Any, features: Any) -> Any:
    """Parses a batch of serialized examples; sparse features get the static batch size of ``texts``."""
    parsed = public_names()["io.parse_example"](texts, features)
    for feature in parsed.values():
        if isinstance(feature, SparseTensor):
            feature.set_shape(texts.shape.concatenate(feature.shape[1:]))
    return parsed


@export("data.experimental.make_batched_features_dataset")
def make_batched_features_dataset(
    file_pattern: Any,
    batch_size: Any,
    features: Any,
    reader: Any = None,
    label_key: str | None = None,
    reader_args: Sequence[Any] | None = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    reader_num_threads: int | None = None,
    parser_num_threads: int | None = None,
    sloppy_ordering: bool = False,
    drop_final_batch: bool = False,
) -> Dataset:
    """Reads batches of the features of ``tf.train.Example`` from files: dicts, or pairs of a dict and labels.

    Args:
      file_pattern: file names or glob patterns.
      features: as for ``tf.io.parse_example``.
      reader, reader_args: a function that returns a dataset of serialized examples for a file name, and its further
        arguments; ``tf.data.TFRecordDataset`` by default.
      label_key: the feature that is the label.
      num_epochs: how many times the files are read; infinitely often by default.
      shuffle, shuffle_buffer_size, shuffle_seed: whether files and examples are shuffled, and how.
      prefetch_buffer_size, reader_num_threads, parser_num_threads, sloppy_ordering: how much is done in parallel.
      drop_final_batch: whether a smaller last batch is left out.

    Raises:
      ValueError: ``label_key`` is not one of ``features``.

    >>> import os, tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "examples")
    ...     with tf.io.TFRecordWriter(path) as writer:
    ...         for n in range(3):
    ...             feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[n]))
    ...             example = tf.train.Example(features=tf.train.Features(feature={"n": feature}))
    ...             writer.write(example.SerializeToString())
    ...     batches = tf.data.experimental.make_batched_features_dataset(
    ...         path, 2, {"n": tf.io.FixedLenFeature([], tf.int64)}, shuffle=False, num_epochs=1)
    ...     print([batch["n"].numpy().tolist() for batch in batches])
    [[0, 1], [2]]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/make_batched_features_dataset
    """
    read = reader or TFRecord
    threads = reader_num_threads or 1
    files: Any = list_files(file_pattern, shuffle=shuffle, seed=shuffle_seed)
    examples = files.interleave(
        lambda name: read(name, *(reader_args or ())), cycle_length=None if threads < 0 else threads, block_length=1
    )
    if examples.element_spec == (TensorSpec([], string), TensorSpec([], string)):
        examples = examples.map(lambda _, value: value)
    if shuffle:
        examples = examples.shuffle(shuffle_buffer_size, shuffle_seed)
    if num_epochs != 1:
        examples = examples.repeat(num_epochs)
    batches = examples.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)
    parsed: Any = parse_example_dataset(features, parser_num_threads or 2)(batches)
    if label_key:
        if label_key not in features:
            raise ValueError(
                f"The `label_key` provided ({label_key}) must be one of the `features` keys: {features.keys()}."
            )
        parsed = parsed.map(lambda parts: (parts, parts.pop(label_key)))
    return parsed.prefetch(-1 if prefetch_buffer_size is None else prefetch_buffer_size)  # type: ignore[no-any-return]


@export("data.experimental.TFRecordWriter")
class TFRecordWriter:
    """Writes a dataset of strings to a TFRecord file.

    >>> import os, tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "records")
    ...     tf.data.experimental.TFRecordWriter(path).write(tf.data.Dataset.range(2).map(tf.io.serialize_tensor))
    ...     [int(tf.io.parse_tensor(x, tf.int64)) for x in tf.data.TFRecordDataset(path)]
    [0, 1]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/TFRecordWriter
    """

    def __init__(self, filename: Any, compression_type: Any = None) -> None:
        self._path, self._compression = filename, compression_type

    def write(self, dataset: Any) -> None:
        """Writes each element of a dataset of strings as a record of the TFRecord file.

        Raises:
          TypeError: ``dataset`` is not a dataset of scalar strings.
        """
        if not isinstance(dataset, Dataset):
            raise TypeError(f"Invalid `dataset.` Expected a `tf.data.Dataset` object but got {type(dataset)}.")
        if not TensorSpec([], string).is_compatible_with(dataset.element_spec):
            raise TypeError(
                "Invalid `dataset`. Expected a`dataset` that produces scalar `tf.string` elements, but got a dataset which "
                f"produces elements with shapes {dataset.element_spec.shape} and types {dataset.element_spec.dtype}."
            )
        path = self._path.numpy().decode() if hasattr(self._path, "numpy") else self._path
        with RecordWriter(path, self._compression or "") as writer:
            for element in dataset.new_elements():
                writer.write(element.numpy())
