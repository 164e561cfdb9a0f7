"""Programs that run the same under tvtf and TensorFlow, and TensorFlow's answers to them as committed text."""

import importlib
from pathlib import Path

import golden_filters
import goldens

ROOMS = tuple(sorted(path.stem for path in (Path(__file__).parent / "parity").glob("*.py")))


def programs(room, tf):
    """Label -> function of no arguments."""
    return importlib.import_module(f"parity.{room}").programs(tf)


def in_sweep(room, label):
    """Whether only the sweeps run a program: a room may say so of programs whose mechanism its other programs have."""
    return getattr(importlib.import_module(f"parity.{room}"), "in_sweep", lambda label: False)(label)


def golden(room):
    return goldens.read(f"parity_{room}")


def answer(program):
    """What a program gives or raises, as text without addresses and graph node names."""
    try:
        text = str(program())
    except Exception as error:
        text = error_text(error)
    return golden_filters.clean(text)


def error_text(error):
    return f"{golden_filters.kind_of(error)}: {error}"


def answers_of(room, tensorflow):
    """What each program of a room says under TensorFlow."""
    # What tf.map_fn sets for a while stays set where the function raises, and makes later Variables fail.
    tensorflow.compat.v1.get_variable_scope()._caching_device = None
    return {label: answer(program) for label, program in programs(room, tensorflow).items()}
