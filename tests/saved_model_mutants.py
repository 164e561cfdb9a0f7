"""Damages saved models at random, loads them and calls what was loaded; prints what ends otherwise than in a result or an error.

Errors of loading name the folder; those of calls are TensorFlow's or ValueError and TypeError.

``python tests/saved_model_mutants.py COUNT SEED``: mutants are loaded in child processes, so that one that dies is told.
"""

import copy
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

import saved_model_programs

import tvtf as tf
from tvtf.fileio.atomic_file import digest_of
from tvtf.saved.description import checksum

VALUES = [
    *(None, 0, -1, 1, 5, 1 << 31, 1 << 63, 1 << 64, -(1 << 70), 1.5, float("nan"), True, "", "main", "x" * 1000, "\0"),
    *([], {}, [[]], {"value": 1}, {"tuple": []}, "../../etc/passwd", "tvtf.read_file", "int64", "float32"),
]
AT_ONCE, SECONDS, CALL_SECONDS, MEMORY = 100, 60, 10, 6 << 30


def save_models(root):
    saved_model_programs.save(tf, root / "demo")
    model = tf.Module()
    model.f = tf.function(
        lambda x: tf.math.reduce_std(x) + tf.reduce_sum(x, -1) + tf.map_fn(tf.reduce_sum, x),
        input_signature=[tf.TensorSpec(None)],
    )
    tf.saved_model.save(model, root / "any_rank")
    model = tf.Module()
    model.v = tf.Variable([1.0, 2.0])
    (root / "words").write_text("a\n")
    model.a = tf.saved_model.Asset(root / "words")

    @tf.function(input_signature=[tf.TensorSpec([None, 2]), tf.TensorSpec([], tf.int32)])
    def looped(x, n):
        for _ in tf.range(n):
            x = x * model.v + tf.constant([[3.0, 4.0]])
        y = tf.cond(tf.reduce_sum(x) > 1.0, lambda: tf.concat([x, x], 0), lambda: tf.zeros([tf.shape(x)[0] * 2, 2]))
        return {"y": y, "text": tf.strings.as_string(y), "rows": x[::2], "asset": model.a.asset_path}

    model.looped = looped
    tf.saved_model.save(model, root / "looped")


def paths(data, path=()):
    """Where values lie in a JSON value."""
    yield path
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from paths(value, (*path, key))


def at(data, path):
    for key in path:
        data = data[key]
    return data


def changed_text(text, rng):
    place = rng.randrange(len(text))
    return text[:place] + chr(rng.randrange(1, 300)) + text[place + 1 :]


def change(data, rng):
    """Deletes, replaces, repeats, nests or swaps one value."""
    places = [path for path in paths(data) if path]
    *before, key = rng.choice(places)
    owner, kind = at(data, before), rng.random()
    value = owner[key]
    if kind < 0.15:
        del owner[key]
    elif kind < 0.3:
        owner[key] = rng.choice(VALUES)
    elif kind < 0.45 and isinstance(value, int):
        owner[key] = value + rng.choice([-5, -1, 1, 2, 100])
    elif kind < 0.6:
        owner[key] = copy.deepcopy(at(data, rng.choice(places)))
    elif kind < 0.65 and isinstance(owner, list):
        owner.insert(key, copy.deepcopy(value))
    elif kind < 0.7:
        for _ in range(rng.choice([3, 50, 200])):
            value = [value] if rng.random() < 0.5 else {"tuple": [value]}
        owner[key] = value
    elif isinstance(value, str) and value:
        owner[key] = changed_text(value, rng)
    elif isinstance(owner, list):
        rng.shuffle(owner)
    else:
        owner[rng.choice(list(owner))] = value


def damage_description(path, rng):
    data = json.loads(path.read_text())
    part = data
    if rng.random() < 0.6:
        function = rng.choice(data["functions"])
        part = function["waiting"] if function["waiting"] and rng.random() < 0.3 else function["program"]
    try:
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            change(part, rng)
        for function in data["functions"]:
            function["sha256"] = checksum(function["program"])
    except (KeyError, TypeError, ValueError):
        part["damaged"] = True  # the damage itself is in the way of more, or of a checksum
    path.write_text(json.dumps(data))


def damage_bytes(folder, rng):
    """Flips bits of a file, or cuts it short; the digests are right again, as a hostile writer would have them."""
    path = rng.choice(sorted(p for p in folder.rglob("*") if p.is_file()))
    octets = bytearray(path.read_bytes())
    if rng.random() < 0.3:
        octets = octets[: rng.randrange(len(octets) + 1)]
    for _ in range(rng.choice([1, 1, 3]) if octets else 0):
        octets[rng.randrange(len(octets))] ^= 1 << rng.randrange(8)
    path.write_bytes(octets)
    description = folder / "saved_model.json"
    if path != description:
        data = json.loads(description.read_text())
        data["files"] = {name: digest_of(str(folder / name)) for name in data["files"]}
        description.write_text(json.dumps(data))


class Slow(BaseException):
    """A call takes its time, as a graph of allowed operators may."""


def too_slow(*_):
    raise Slow


def attempt(folder):
    """What is wrong with how a mutant loads and runs, if anything."""
    try:
        loaded = tf.saved_model.load(folder)
    except (tf.errors.OpError, ValueError) as rejected:
        return None if str(folder) in str(rejected) else f"doesn't name the folder: {rejected}"
    except BaseException:
        return traceback.format_exc()
    return next(filter(None, map(called, functions_of(loaded))), None)


def functions_of(loaded):
    """What gives a function when it is called: it is traced then."""
    for name in getattr(loaded, "signatures", ()):
        yield lambda name=name: loaded.signatures[name]
    for each in vars(loaded).values():
        for program in getattr(each, "programs", ()):
            yield lambda each=each, program=program: each._trace_of(program)


def called(function_of):
    """What is wrong with a call, if anything."""
    signal.signal(signal.SIGALRM, too_slow)
    signal.alarm(CALL_SECONDS)
    try:
        function = function_of()
        args, kwargs = tf.nest.map_structure(example, function.structured_input_signature)
        function(*args, **kwargs)
    except tf.errors.InternalError:
        return traceback.format_exc()
    except (tf.errors.OpError, ValueError, TypeError, NotImplementedError, Slow):
        return None
    except BaseException:
        return traceback.format_exc()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return None


def example(spec):
    if not isinstance(spec, tf.TensorSpec):
        return spec
    dims = [2, 2] if spec.shape.rank is None else [d if d is not None else 2 for d in spec.shape.as_list()]
    return tf.cast(tf.ones(dims, tf.int32), spec.dtype) if spec.dtype != tf.string else tf.fill(dims, "a")


def mutant(root, number, seed):
    rng = random.Random(f"{seed} {number}")
    folder = root / f"mutant_{number}"
    shutil.copytree(root / rng.choice(["demo", "any_rank", "looped"]), folder)
    if rng.random() < 0.2:
        damage_bytes(folder, rng)
    else:
        damage_description(folder / "saved_model.json", rng)
    signal.alarm(SECONDS)
    wrong = attempt(folder)
    signal.alarm(0)
    shutil.rmtree(folder)
    return wrong


def in_child(root, numbers, seed, log):
    """Tries mutants in a fork, which writes how far it came."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    try:
        with log.open("w") as file:
            for number in numbers:
                print(json.dumps([number, mutant(root, number, seed)]), file=file, flush=True)
        os._exit(0)
    finally:
        traceback.print_exc()
        os._exit(1)


def main(count, seed):
    root = Path(tempfile.mkdtemp())
    save_models(root)
    number, wrong = 0, []
    while number < count:
        numbers = range(number, min(number + AT_ONCE, count))
        status = in_child(root, numbers, seed, root / "log")
        message = [json.loads(line) for line in (root / "log").read_text().splitlines()]
        wrong += [each for each in message if each[1]]
        number += len(message)
        if status:
            wrong.append([number, f"the process ended with status {status}"])
            number += 1
    shutil.rmtree(root)
    for number, what in wrong:
        print(f"mutant {number} of seed {seed}: {what}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
