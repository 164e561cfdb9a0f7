"""Programs that run the same under tvtf and TensorFlow, and TensorFlow's answers to them as committed text.

``python tests/parity_support.py [ROOM...]`` in an environment with TensorFlow writes the answers anew.
"""

import importlib
import json
import re
import sys
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"
ROOMS = ("tensor", *sorted({path.stem for path in (Path(__file__).parent / "parity").glob("*.py")} - {"tensor"}))
"""First the one that shows -0.0: TensorFlow gives it for 0.0, or the other way round, once it has made one of them."""


def _in_pairs(found):
    """An OrderedDict as Python wrote it until 3.11."""
    pairs = re.sub(r"('\w+'): (<.*?>)", r"(\1, \2)", found[1])
    return f"OrderedDict([{pairs}])"


_NOISE = (
    (re.compile(r"\{\{function_node [^}]*\}\} "), ""),
    (re.compile(r" at 0x[0-9a-f]+"), " at 0x"),
    (re.compile(r"\[Op:(\w+)\] name:.*"), r"[Op:\1]"),
    (re.compile(r"tensorflow\.python\.framework\.ops\.EagerTensor"), "EagerTensor"),
    (re.compile(r"to variable ' "), "to variable '"),
    (re.compile(r"mismatch\.The"), "mismatch. The"),
    (re.compile(r"in user code:\n\n.*\n\n    (?=\w+: )", re.DOTALL), "in user code: "),
    # Where a traced op stands: its node and trace there, the line of the program here.
    (re.compile(r"Graph execution error:.*?\n\n(?=\S[^\n]*\n\t \[\[)", re.DOTALL), ""),
    (re.compile(r"\n\t \[\[\{\{node.*", re.DOTALL), ""),
    (re.compile(r" \([^()\n]*\.py, line \d+\)$"), ""),
    (re.compile(r"\(\w+(/\w+)*:0\) = "), "(:0) = "),
    # NumPy and Python say it otherwise from version to version.
    (re.compile(r"^tf\.Tensor\(16777216\.0,"), "tf.Tensor(1.6777216e+07,"),
    (re.compile(r"only length-1 arrays"), "only 0-dimensional arrays"),
    (re.compile(r"OrderedDict\(\{(.*)\}\)$"), _in_pairs),
)
_SAME_TYPE = {
    "InaccessibleTensorError": "TypeError",
    "OutOfRangeInteger": "ValueError",
    "TracedOutOfRangeInteger": "TypeError",
}


def programs(room, tf):
    """Label -> function of no arguments."""
    return importlib.import_module(f"parity.{room}").programs(tf)


def golden(room):
    return json.loads((GOLDEN / f"parity_{room}.json").read_text())


def answer(program):
    """What a program gives or raises, as text without addresses and graph node names."""
    try:
        text = str(program())
    except Exception as error:
        text = error_text(error)
    return without_noise(text)


def error_text(error):
    kind = type(error).__name__
    return f"{_SAME_TYPE.get(kind, kind)}: {error}"


def without_noise(text):
    for pattern, replacement in _NOISE:
        text = pattern.sub(replacement, text)
    return text.rstrip()


def answers_of(room, tensorflow):
    """What each program of a room says under TensorFlow."""
    # What tf.map_fn sets for a while stays set where the function raises, and makes later Variables fail.
    tensorflow.compat.v1.get_variable_scope()._caching_device = None
    return {label: answer(program) for label, program in programs(room, tensorflow).items()}


def record(rooms):
    import tensorflow

    for room in rooms or ROOMS:
        text = json.dumps(answers_of(room, tensorflow), indent=0, ensure_ascii=False)
        (GOLDEN / f"parity_{room}.json").write_text(text + "\n")


if __name__ == "__main__":
    record(sys.argv[1:])
