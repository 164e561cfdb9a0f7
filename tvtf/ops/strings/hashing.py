"""to_hash_bucket and fingerprint, with TensorFlow's hashes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.shape import TensorType
from tvtf.core.tensor import convert_to_tensor
from tvtf.dtypes import int64, string, uint8
from tvtf.ops.rules import attribute_int
from tvtf.ops.strings.digests import fingerprint64, hash64, siphash
from tvtf.ops.strings.rules import each_text, from_text, text, text_op


def _bucket_count(num_buckets: Any, op: str) -> int:
    """Checks that the number of hash buckets is positive, and returns it as an int. The error is that of ``op``."""
    count = attribute_int(num_buckets, "num_buckets", -(2**63), 64)
    if count < 1:
        raise ArgumentError(
            f"Value for attr 'num_buckets' of {count} must be at least minimum 1\n\t; NodeDef: {{{{node {op}}}}}"
        ).for_op(op)
    return count


@text_op(
    tf_name="StringToHashBucketFast",
    type=from_text(int64),
    numpy=each_text(lambda value, num_buckets: fingerprint64(value) % num_buckets, np.int64),
    public=("strings.to_hash_bucket_fast",),
)
def to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Any:
    """Hashes each string to the index of a bucket by FarmHash's fingerprint. Returns an int64 tensor.

    >>> import tvtf as tf
    >>> tf.strings.to_hash_bucket_fast(["Hello", "TensorFlow", "2.x"], 3).numpy()
    array([0, 2, 2])

    Raises:
      InvalidArgumentError: ``num_buckets`` is less than 1.

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/to_hash_bucket_fast
    """
    return (text(input),), {"num_buckets": _bucket_count(num_buckets, "StringToHashBucketFast")}


@text_op(
    tf_name="StringToHashBucket",
    type=from_text(int64),
    numpy=each_text(lambda value, num_buckets: hash64(value) % num_buckets, np.int64),
    public=("strings.to_hash_bucket",),
)
def to_hash_bucket(input: Any, num_buckets: int, name: str | None = None) -> Any:
    """Hashes each string to the index of a bucket by TensorFlow's older hash.

    ``tf.strings.to_hash_bucket_fast`` has a newer hash.

    >>> import tvtf as tf
    >>> tf.strings.to_hash_bucket("Hello", 1).numpy()
    np.int64(0)

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/to_hash_bucket
    """
    return (text(input),), {"num_buckets": _bucket_count(num_buckets, "StringToHashBucket")}


@text_op(
    tf_name="StringToHashBucketStrong",
    type=from_text(int64),
    numpy=each_text(lambda value, num_buckets, key: siphash(_unsigned(key), value) % num_buckets, np.int64),
    public=("strings.to_hash_bucket_strong",),
)
def to_hash_bucket_strong(input: Any, num_buckets: int, key: Sequence[int], name: str | None = None) -> Any:
    """Hashes each string to the index of a bucket by a hash with a key, against inputs made to collide.

    Args:
      input: string tensor.
      num_buckets: the number of buckets.
      key: two uint64.

    >>> import tvtf as tf
    >>> tf.strings.to_hash_bucket_strong(["Hello", "TF"], 3, [1, 2]).numpy()
    array([2, 0])

    Raises:
      InvalidArgumentError: ``num_buckets`` is less than 1, or the length of the key is not 2.

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/to_hash_bucket_strong
    """
    if len(key) != 2:
        raise ArgumentError("Key must have 2 elements").for_op("StringToHashBucketStrong")
    attrs = {
        "num_buckets": _bucket_count(num_buckets, "StringToHashBucketStrong"),
        "key": tuple(int(half) for half in key),
    }
    return (text(input),), attrs


def _unsigned(key: tuple[int, ...]) -> tuple[int, int]:
    """Returns the two words of a key as unsigned 64-bit integers."""
    return key[0] % (1 << 64), key[1] % (1 << 64)


def _fingerprints(array: np.ndarray) -> np.ndarray:
    """Computes the fingerprint of each string, or of the bytes of each item along the first axis, as 8 bytes."""
    rows = array.reshape(len(array), -1)
    hashes = [fingerprint64(row[0] if row.dtype == object else np.ascontiguousarray(row).tobytes()) for row in rows]
    return np.array(hashes, "<u8").view(np.uint8).reshape(-1, 8)


def _fingerprint_type(x: TensorType, method: str) -> TensorType:
    """Returns the result type of `tf.fingerprint`: 8 bytes for each item along the first axis.

    Raises an error for a scalar, or for strings with more than one axis.
    """
    # ``method`` isn't needed here, but all rules of the op receive it
    if not x.shape:
        raise ArgumentError("`data` should be at least one-dimensional: got shape []")
    if x.dtype is string and x.shape[1:]:
        raise ArgumentError("fingerprints of strings are taken of one-dimensional tensors")
    return TensorType((x.shape[0], 8), uint8)


@text_op(
    type=_fingerprint_type,
    numpy=lambda array, method: _fingerprints(array),
    public=("fingerprint",),
)
def fingerprint(data: Any, method: str = "farmhash64", name: str | None = None) -> Any:
    """Returns FarmHash's fingerprint of each item of the first axis, a uint8 tensor of shape (items, 8).

    >>> import tvtf as tf
    >>> tf.fingerprint(["abc"]).numpy().tolist()
    [[105, 243, 231, 116, 160, 179, 165, 36]]

    Raises:
      InvalidArgumentError: ``data`` is a scalar, or ``method`` is not supported.

    Source: https://www.tensorflow.org/api_docs/python/tf/fingerprint
    """
    if method != "farmhash64":
        raise ArgumentError(f"Unsupported fingerprint algorithm: {method}").for_op("Fingerprint")
    return (convert_to_tensor(data),), {"method": method}
