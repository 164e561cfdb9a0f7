"""A model to save, and what ``saved_model_cli`` prints of it when TensorFlow saved it, as committed text.

``python tests/saved_model_programs.py`` in an environment with TensorFlow writes the text anew.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden" / "saved_model_cli.json"
SHOWN = (
    (),
    ("--all",),
    ("--tag_set", "serve"),
    ("--tag_set", "serve", "--signature_def", "counted"),
    ("--tag_set", "serve", "--signature_def", "serving_default"),
)


def demo(tf):
    class Demo(tf.Module):
        def __init__(self):
            super().__init__(name="demo")
            self.scale = tf.Variable([2.0, 3.0], name="scale")
            self.count = tf.Variable(0, trainable=False, name="count")
            self.more = [tf.Variable([[1.0]], name="more"), {"a": tf.Variable(5.0)}]

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="rows")])
        def scaled(self, rows):
            return rows * self.scale

        @tf.function(input_signature=[])
        def counted(self):
            self.count.assign_add(1)
            return {"count": self.count, "fixed": tf.constant([1, 2])}

    return Demo()


def save(tf, folder):
    model = demo(tf)
    tf.saved_model.save(model, folder, signatures={"serving_default": model.scaled, "counted": model.counted})


def without_ops(text):
    """Without the ops: TensorFlow prints a set, in an order that changes from run to run, of the ops of its own graphs."""
    return "\n".join(line for line in text.splitlines() if "contains the following ops:" not in line)


def shown_by_tensorflow():
    import tensorflow

    folder = tempfile.mkdtemp()
    save(tensorflow, folder)
    command = [sys.executable, "-m", "tensorflow.python.tools.saved_model_cli", "show", "--dir", folder]
    told = {o: subprocess.run([*command, *o], capture_output=True, text=True, check=True).stdout for o in SHOWN}
    return {" ".join(options): without_ops(text) for options, text in told.items()}


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(shown_by_tensorflow(), indent=0) + "\n")
