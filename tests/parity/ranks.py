"""What depends on ranks that only a call tells."""

import os
import tempfile


def programs(tf):
    return {
        "a graph of unknown rank is exported": lambda: _exported(tf),
        "the unknown shape of an unknown shape": lambda: tf.TensorShape(tf.TensorShape(None)),
    }


def _exported(tf):
    f = tf.function(lambda x: tf.transpose(x) + x[0], input_signature=[tf.TensorSpec(None, tf.float32)])
    tf.summary.trace_on(graph=True)
    result = f(tf.ones([2]))
    with tempfile.TemporaryDirectory() as folder:
        with tf.summary.create_file_writer(folder).as_default():
            tf.summary.trace_export("f", step=0)
        placeholders = [n for n in f.get_concrete_function().graph.as_graph_def().node if n.op == "Placeholder"]
        return result, len(os.listdir(folder)), [n.name for n in placeholders]
