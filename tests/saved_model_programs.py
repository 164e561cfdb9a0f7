"""A model to save, and what ``saved_model_cli`` prints of it when TensorFlow saved it, as committed text."""

import subprocess
import sys
import tempfile

import golden_filters
import goldens

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


def shown_by_tensorflow(tensorflow):
    folder = tempfile.mkdtemp()
    save(tensorflow, folder)
    command = [sys.executable, "-m", "tensorflow.python.tools.saved_model_cli", "show", "--dir", folder]
    message = {o: subprocess.run([*command, *o], capture_output=True, text=True, check=True).stdout for o in SHOWN}
    return dict(zip(labels(), map(golden_filters.clean, message.values()), strict=True))


def labels():
    return [" ".join(options) for options in SHOWN]


def golden():
    """What TensorFlow's command printed."""
    return goldens.read("saved_model_cli")
