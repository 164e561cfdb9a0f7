"""Random calls of public functions, right and wrong, eager and traced, under TensorFlow and tvtf: the same seed, the same calls.

``python tests/oracle/random_calls.py --seed 1 --count 1000`` tells how the outcomes differ, the largest groups first.
"""

import argparse
import ast
import collections
import inspect
import json
import os
import random
import select
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import call_arguments  # noqa: E402 - the tests' folder is no package
import golden_filters  # noqa: E402
from golden_filters import LOOSER, kind_of  # noqa: E402

KINDS = ("eager", "eager, wrong", "unknown dims", "unknown dims, wrong", "unknown rank", "unknown rank, wrong")
LIMIT = 120
"""Seconds until a call counts as hung, or the imports before the first."""


def left_out():
    """Beginnings of names."""
    return " ".join(golden_filters.CALLS_LEFT_OUT.values()).split()


@cache
def names(_=None):
    import tensorflow as tf

    from tvtf.api.namespaces import all_names

    path = Path(__file__).parents[2] / "tvtf" / "api" / "tensorflow_names.txt"
    known = [n for n in path.read_text().split() if n in all_names() and not n.startswith(tuple(left_out()))]
    return [n for n in known if callable(found(tf, n)) and not isinstance(found(tf, n), type)]


def found(tf, name):
    for part in name.split("."):
        tf = getattr(tf, part)
    return tf


# -- calls as text


def alternatives(text):
    return text.split("|")


@cache
def pools():
    return {n: alternatives(text) for ns, text in call_arguments.POOLS.items() for n in ns.split()}


@cache
def known_calls():
    calls = collections.defaultdict(list)
    for text in call_arguments.CALLS.strip().replace("\n", "|").split("|"):
        call = ast.parse(f"tf.{text}", mode="eval").body
        calls[ast.unparse(call.func)[3:]].append(call)
    return calls


class Call:
    """A function's name and its arguments as text."""

    def __init__(self, name, args, kwargs):
        self.name, self.args, self.kwargs = name, args, kwargs

    def __str__(self):
        return f"tf.{self.name}({', '.join([*self.args, *(f'{k}={v}' for k, v in self.kwargs.items())])})"


def right(name, tf, draw):
    known = known_calls()[name]
    if known and draw.random() < 0.8:
        call = draw.choice(known)
        return Call(name, [*map(ast.unparse, call.args)], {k.arg: ast.unparse(k.value) for k in call.keywords})
    call = Call(name, [], {})
    for p in inspect.signature(found(tf, name)).parameters.values():
        values = pools().get(p.name, alternatives(call_arguments.ANY))
        if p.kind is p.VAR_POSITIONAL:
            call.args = [draw.choice(values)] * 2
        elif (p.default is p.empty and p.kind is not p.VAR_KEYWORD) or (p.name in pools() and draw.random() < 0.3):
            call.kwargs[p.name] = draw.choice(values)
    return call


def wrong(call, draw):
    """The call with one argument that is not of its kind."""
    value = draw.choice(alternatives(call_arguments.WRONG))
    place = draw.choice([*range(len(call.args)), *call.kwargs] or [0])
    if isinstance(place, int):
        return Call(call.name, [*call.args[:place], value, *call.args[place + 1 :]], call.kwargs)
    return Call(call.name, call.args, call.kwargs | {place: value})


def array(dims, dtype, low=-2.0, high=2.0):
    values = np.random.default_rng(len(dims) + 7 * sum(dims)).uniform(low, high, dims)
    return np.asarray(np.round(values) if dtype[0] in "iu" else values).astype(dtype)


def scope(tf):
    return {
        "tf": tf,
        "np": np,
        "f": lambda *dims: array(dims, "float32"),
        "i": lambda *dims: array(dims, "int32", 0, 2),
        "u": lambda *dims: array(dims, "uint8", 0, 255),
        "b": lambda *dims: array(dims, "float32") > 0,
        "c": lambda *dims: (array(dims, "float32") + 1j).astype("complex64"),
        "s": lambda *dims: np.array(["abcé"[int(k) % 4 :] for k in array(dims, "int32", 0, 9).ravel()], object).reshape(
            dims
        ),
        "spd": lambda n: array((n, n), "float32") @ array((n, n), "float32").T + np.eye(n, dtype="float32"),
        "sp": lambda: tf.sparse.from_dense([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]),
        "rt": lambda: tf.ragged.constant([[1, 2], [3]]),
    }


# -- outcomes


def outcome(tf, call, kind):
    """What a call gives, as nested leaves, or the exception."""
    tf.random.set_seed(5)
    try:
        if kind.startswith("eager"):
            result = eval(str(call), scope(tf))
        else:
            result = traced(tf, call, "rank" in kind)
        return [leaf(x) for x in tf.nest.flatten(result, expand_composites=True)]
    except Exception as error:
        return error


def traced(tf, call, any_rank):
    """The call within a function whose inputs are all the arrays among its arguments, of unknown dims, or ranks."""
    args, kwargs = eval(f"(lambda *a, **k: (a, k))({str(call).partition('(')[2]}", scope(tf))
    given = []

    def taken(value):
        if type(value) in (list, tuple):
            return type(value)(map(taken, value))
        if isinstance(value, (np.ndarray, tf.Tensor)):
            given.append(tf.constant(value))
            return given.append
        return value

    args, kwargs = [taken(a) for a in args], {k: taken(v) for k, v in kwargs.items()}

    def put(value, inputs):
        if type(value) in (list, tuple):
            return type(value)(put(v, inputs) for v in value)
        return next(inputs) if value == given.append and callable(value) else value

    def run(*inputs):
        inputs = iter(inputs)
        return found(tf, call.name)(*[put(a, inputs) for a in args], **{k: put(v, inputs) for k, v in kwargs.items()})

    specs = [tf.TensorSpec(None if any_rank else [None] * x.shape.rank, x.dtype) for x in given]
    return tf.function(run, input_signature=specs, autograph=False)(*given)


def leaf(x):
    if hasattr(x, "numpy") and hasattr(x, "shape"):
        return x.dtype.name, tuple(x.shape), np.asarray(x.numpy())
    if isinstance(x, (int, float, complex, str, bytes, np.generic, np.ndarray, type(None))):
        array = np.asarray(x)
        return type(x).__name__, array.shape, array
    return (type(x).__name__.removeprefix("_"),)


def difference(expected, got, values=True):
    """How two outcomes differ, or None."""
    if isinstance(expected, Exception) or isinstance(got, Exception):
        if not isinstance(got, Exception):
            return f"takes: {kind_of(expected)}"
        if not isinstance(expected, Exception):
            return f"refuses: {kind_of(got)}"
        return None if kind_of(expected) == kind_of(got) else f"type: {kind_of(expected)}, tvtf {kind_of(got)}"
    if [x[:2] for x in expected] != [x[:2] for x in got]:
        return "shape or dtype"
    return None if not values or all(map(same, expected, got)) else "value"


def same(expected, got):
    if len(expected) == 1:
        return True
    a, b = expected[2], got[2]
    if a.dtype.kind not in "fcV" and "float" not in expected[0]:
        return bool(np.all(a == b))
    dtype = {"complex128": "float64"}.get(expected[0], expected[0])
    looser = LOOSER.get(f"calls {dtype}", LOOSER["calls"])
    a, b = (x.astype("complex128") for x in (a, b))
    scale = 1 + np.max(np.abs(a[np.isfinite(a)]), initial=0)
    return np.allclose(a / scale, b / scale, looser.relative, looser.absolute, equal_nan=True)


# -- the worker and who watches it


def work(seed, start, count):
    """Makes the calls, a line of JSON before and after each library's turn."""
    report = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    import tensorflow as tf

    import tvtf

    order = names()[:]
    random.Random(seed).shuffle(order)
    for index in range(start, count):
        draw = random.Random(f"{seed}/{index}")
        name, kind = order[index % len(order)], KINDS[(index + index // len(order)) % len(KINDS)]
        print(json.dumps({"index": index, "turn": "TensorFlow", "call": name}), file=report)
        for _ in range(8):
            call = right(name, tf, draw)
            expected = outcome(tf, call, kind)
            if not isinstance(expected, Exception):
                break
        if kind.endswith("wrong"):
            call = wrong(call, draw)
            print(json.dumps({"index": index, "turn": "TensorFlow", "call": str(call)}), file=report)
            expected = outcome(tf, call, kind)
        print(json.dumps({"index": index, "turn": "tvtf", "call": str(call), "kind": kind}), file=report)
        got = outcome(tvtf, call, kind)
        random_call = (
            not kind.startswith("eager")
            and any(c in name for c in golden_filters.RANDOM_CALLS)
            and "stateless" not in name
        )
        of_own_values = name.startswith(golden_filters.CALLS_OF_ANY_SIGN) or (
            "decode" in name and golden_filters.CALLS_OF_JPEG in str(call)
        )
        how = difference(expected, got, not random_call and not of_own_values)
        texts = [shown(expected), shown(got)]
        print(json.dumps({"index": index, "call": str(call), "kind": kind, "how": how, "texts": texts}), file=report)


def shown(result):
    return (f"{type(result).__name__}: {result}" if isinstance(result, Exception) else str(result))[:600]


def differences(seed, count):
    """Every call with its difference, in processes that may crash or hang."""
    start, last = 0, None
    while start < count:
        command = [sys.executable, __file__, "--worker", str(start), "--seed", str(seed), "--count", str(count)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0) as worker:
            while select.select([worker.stdout], [], [], LIMIT)[0] and (line := worker.stdout.readline()):
                last = json.loads(line)
                if "how" in last:
                    yield last
            worker.kill()
        if last is None:
            raise RuntimeError("the worker died before its first call")
        if "how" not in last and last["turn"] == "tvtf":
            yield last | {"how": "dies or hangs", "texts": ["", ""]}
        start = last["index"] + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--worker", type=int)
    options = parser.parse_args()
    if options.worker is not None:
        return work(options.seed, options.worker, options.count)
    calls = list(differences(options.seed, options.count))
    groups = collections.defaultdict(list)
    for each in calls:
        groups[each["how"]].append(each)
    for how, members in sorted(groups.items(), key=lambda pair: -len(pair[1])):
        print(f"== {len(members)} of {len(calls)}: {how or 'the same'}")
        for each in members if how else ():
            print(f"  {each['kind']}: {each['call']}", *(f"\n      {text!r}" for text in each["texts"]))


if __name__ == "__main__":
    main()
