"""Connectionist temporal classification: losses, their gradients, and decoders."""

import numpy as np
from parity_numbers import calls

LOGITS = np.random.RandomState(0).randn(5, 2, 4).astype("float32")
LABELS = [[1, 2, 0], [3, 3, 1]]


def programs(tf):
    return calls(tf, _losses(tf)) | _decoders(tf) | _others(tf)


TRACED = ("loss", "another blank", "no labels", "unique", "sparse, first is blank", "sparse, too short")


def in_sweep(label):
    """All losses run eagerly by default; compiled, one of each kind of labels and blanks."""
    name, _, kind = label.removesuffix(", traced").partition(", gradient")
    return label.endswith(", traced") and not name.startswith(("greedy", "beam", "wide")) and name not in TRACED


def _sparse(tf, values=(0, 1, 2, 2)):
    return tf.SparseTensor([[0, 0], [0, 1], [1, 0], [1, 1]], tf.constant(values), [2, 2])


def _losses(tf):
    loss = tf.nn.ctc_loss

    def short(x):
        found = loss(LABELS, x, [2, 3], [5, 3])
        return found[0], found[1] > 700

    return {
        "loss": (lambda x: loss(LABELS, x, [2, 3], [5, 4]), LOGITS),
        "frames last": (
            lambda x: loss(LABELS, tf.transpose(x, [1, 0, 2]), [2, 3], [5, 5], logits_time_major=False),
            LOGITS,
        ),
        "another blank": (lambda x: loss([[0, 1], [2, 2]], x, [2, 2], [5, 5], blank_index=-1), LOGITS),
        "blanks among labels": (lambda x: loss([[1, 0, 2], [0, 0, 3]], x, [3, 3], [5, 5]), LOGITS),
        "blanks among labels, another blank": (
            lambda x: loss([[1, 3, 2], [2, 0, 2]], x, [3, 2], [5, 5], blank_index=2),
            LOGITS,
        ),
        "no labels": (lambda x: loss(LABELS, x, [0, 1], [5, 2]), LOGITS),
        "unique": (lambda x: loss(LABELS, x, [2, 3], [5, 5], unique=tf.nn.ctc_unique_labels(LABELS)), LOGITS),
        "too short": (short, LOGITS),
        "weighted": (lambda x: loss(LABELS, x, [2, 3], [5, 4]) * [1.0, -2.0], LOGITS),
        "sparse": (lambda x: loss(_sparse(tf), x, None, [5, 4], blank_index=-1), LOGITS),
        "sparse, first is blank": (lambda x: loss(_sparse(tf, (1, 3, 2, 2)), x, None, [5, 5], blank_index=0), LOGITS),
        "sparse, too short": (lambda x: tf.minimum(loss(_sparse(tf), x, None, [5, 2], blank_index=-1), 9.0), LOGITS),
    }


def _shown(decoded):
    labels, scores = decoded
    rows = [(x.indices.numpy().tolist(), x.values.numpy().tolist(), x.dense_shape.numpy().tolist()) for x in labels]
    return rows, scores.numpy().round(4).tolist()


def _decoders(tf):
    x = tf.constant(LOGITS)
    greedy, beam = tf.nn.ctc_greedy_decoder, tf.nn.ctc_beam_search_decoder
    programs = {
        "greedy": lambda: greedy(x, [5, 4]),
        "greedy with repetitions": lambda: greedy(x, [5, 4], merge_repeated=False),
        "greedy, first is blank": lambda: greedy(x, [5, 4], blank_index=0),
        "beam": lambda: beam(x, [5, 4], beam_width=8, top_paths=3),
        "wide beam": lambda: beam(x, [5, 5]),
        "greedy, a negative length": lambda: greedy(x, [-1, 4]),
        "beam, a negative length": lambda: beam(x, [-2, 4], beam_width=8),
        "more frames than there are": lambda: greedy(x, [5, 6]),
        "more frames than there are for the beam": lambda: beam(x, [5, 6]),
        "more paths than prefixes": lambda: beam(x, [5, 5], beam_width=2, top_paths=3),
    }
    made = {}
    for label, run in programs.items():
        made[label] = lambda run=run: _shown(run())
        if "more" not in label:
            made[f"{label}, traced"] = lambda run=run: _shown(tf.function(run, autograph=False)())
    return made


def _others(tf):
    return {
        "unique labels": lambda: tf.nn.ctc_unique_labels([[3, 4, 4, 3], [1, 2, 3, 0]]),
        "collapsed": lambda: tf.nn.collapse_repeated([[1, 1, 2, 2, 1], [1, 1, 1, 2, 3]], [5, 4]),
        "collapsed, a negative length": lambda: tf.nn.collapse_repeated([[1, 1, 2], [1, 1, 3]], [-1, 3]),
        "collapsed, traced": lambda: tf.function(tf.nn.collapse_repeated)([[1, 1, 2, 2, 1], [1, 1, 1, 2, 3]], [5, 4]),
        "half": lambda: tf.nn.ctc_loss(LABELS, tf.cast(LOGITS, tf.float16), [2, 3], [5, 4]).dtype,
        "sparse without blank": lambda: tf.nn.ctc_loss(_sparse(tf), LOGITS, None, [5, 4]),
        "sparse, more frames": lambda: tf.nn.ctc_loss(_sparse(tf), LOGITS, None, [5, 6], blank_index=0),
    }
