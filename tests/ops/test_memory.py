"""Results larger than memory raise ResourceExhaustedError in all ops whose result size depends on a value."""

import json
import subprocess
import sys

PROGRAM = """
import json, resource
import numpy as np
import tvtf as tf

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
one, found = tf.constant([1.0]), {}


def count(value):
    return tf.constant(value, tf.int64)


calls = {
    "bincount": lambda n: tf.math.bincount(count([n])),
    "bincount of rows": lambda n: tf.math.bincount(count([[n]]), axis=-1),
    "sparse.bincount": lambda n: tf.math.bincount(count([0]), minlength=n),
    "segment_sum": lambda n: tf.math.segment_sum(one, count([n])),
    "segment_mean": lambda n: tf.math.segment_mean(one, count([n])),
    "unsorted_segment_max": lambda n: tf.math.unsorted_segment_max(one, count([0]), count(n)),
    "sparse.segment_sum": lambda n: tf.sparse.segment_sum(one[:, None], count([0]), count([n])),
    "dynamic_stitch": lambda n: tf.dynamic_stitch([tf.constant([min(n, 2**31 - 2)])], [tf.zeros([1, 1000])]),
    "one_hot": lambda n: tf.one_hot([1], n),
    "range": lambda n: tf.range(n),
    "fill": lambda n: tf.fill([n], 1.0),
    "tile": lambda n: tf.tile(one, [n]),
    "repeat": lambda n: tf.repeat(one, n),
    "pad": lambda n: tf.pad(one, [[n, 0]]),
    "broadcast_to": lambda n: tf.broadcast_to(one, [n]),
    "scatter_nd": lambda n: tf.scatter_nd(count([[1]]), one, count([n])),
    "eye": lambda n: tf.eye(min(n, 1 << 20)),
    "sequence_mask": lambda n: tf.sequence_mask(count([n])),
    "confusion_matrix": lambda n: tf.math.confusion_matrix([0], [0], num_classes=1 << 20),
    "random.normal": lambda n: tf.random.normal([n]),
    "sparse.to_dense": lambda n: tf.sparse.to_dense(tf.SparseTensor([[0]], [1.0], [n])),
    "ragged.to_tensor": lambda n: tf.ragged.constant([[1]]).to_tensor(shape=[1, n]),
    "ragged.range": lambda n: tf.ragged.range(count([n])),
    "linspace": lambda n: tf.linspace(0.0, 1.0, n),
    "TensorArray": lambda n: tf.TensorArray(tf.float32, n).stack(),
    "decode_raw": lambda n: tf.io.decode_raw("a", tf.uint8, fixed_length=n),
}
eager = [(size, "eagerly") for size in (1 << 33, 1 << 40, 1 << 60, 2**63 - 2)]
for name, call in calls.items():
    for size, world in [*eager, (1 << 60, "in a function"), (2**63 - 2, "in a function")]:
        try:
            call(size) if world == "eagerly" else tf.function(call, autograph=False)(size)
        except (tf.errors.ResourceExhaustedError, tf.errors.InvalidArgumentError) as error:
            assert str(error)
        except BaseException as error:
            found[f"{name}({size}) {world}"] = repr(error)
        else:
            found[f"{name}({size}) {world}"] = "a result"
print(json.dumps(found))
"""


def test_what_no_memory_holds_is_resource_exhausted():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == {}
