"""Threads, signals and forks at critical moments: reads are atomic, random streams and initializations run once."""

import ast
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

import tvtf as tf
from tvtf.core import tvm_import
from tvtf.frontend.library import plain_optimizers

ROOT = Path(__file__).parents[2]
LOCKED = {
    *(("threading", name) for name in ("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "Barrier")),
    ("functools", "cached_property"),
}


def run(program, timeout=120):
    """What a program prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
        capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done.stdout.strip()


def together(work, count=8):
    """Runs ``work(number)`` in threads that begin at the same moment; gives what they gave, raises what one raised."""
    begin, found, failed = threading.Barrier(count), [None] * count, []

    def one(number):
        begin.wait()
        try:
            found[number] = work(number)
        except BaseException as error:  # told to the test
            failed.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return found


def test_no_lock_stays_held_in_a_forked_child():
    """All are `tvtf.core.variable_lock.Lock` or `Condition`, which a fork frees; `functools.cached_property` holds one until Python 3.12."""
    found = []
    for path in (p for room in ("tvtf", "frontend", "passes", "models") for p in (ROOT / room).rglob("*.py")):
        if path.relative_to(ROOT) == Path("tvtf/core/variable_lock.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Attribute(ast.Name(module), name):
                    named = [(module, name)]
                case ast.ImportFrom(str(module), names):
                    named = [(module, alias.name) for alias in names]
                case _:
                    continue
            found += [f"{path.relative_to(ROOT)}:{node.lineno} {'.'.join(n)}" for n in named if n in LOCKED]
    assert not found


# -- what is read is whole

READS = {
    "numpy": lambda v: v.numpy(),
    "value": lambda v: v.value().numpy(),
    "identity": lambda v: tf.identity(v).numpy(),
    "add": lambda v: (v + 0.0).numpy(),
    "array": lambda v: np.asarray(v),
    "slice": lambda v: v[::7].numpy(),
    "tensor": lambda v: tf.convert_to_tensor(v).numpy(),
}


@pytest.mark.parametrize("name", READS)
def test_a_value_read_while_compiled_code_assigns_is_whole(name):
    v = tf.Variable(np.zeros(100_000, np.float32))
    step = tf.function(lambda: v.assign_add(tf.ones([100_000])))
    step()
    stop = threading.Event()

    def write():
        while not stop.is_set():
            step()

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        mixed = [value for value in (READS[name](v) for _ in range(60)) if value.min() != value.max()]
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert not mixed


def test_what_was_read_does_not_change():
    v = tf.Variable(np.zeros(1000, np.float32))
    step = tf.function(lambda: v.assign_add(tf.ones([1000])))
    kept = []
    for count in range(20):
        kept.append((count, v.value(), v.numpy()))
        step()
    assert all(np.all(a.numpy() == count) and np.all(b == count) for count, a, b in kept)


# -- what is drawn is drawn once


@pytest.mark.parametrize("is_compiled", [False, True])
def test_threads_draw_different_numbers_from_one_generator(is_compiled):
    generator = tf.random.Generator.from_seed(1)

    def draw():
        return generator.uniform([], None, None, tf.int64)

    drawing = tf.function(draw) if is_compiled else draw
    drawing()
    found = [n for numbers in together(lambda _: [int(drawing()) for _ in range(100)]) for n in numbers]
    assert len(set(found)) == len(found) == 800


def test_seeds_and_skips_of_threads_are_different():
    generator = tf.random.Generator.from_seed(1)
    together(lambda _: [(generator.skip(1), generator.make_seeds(1)) for _ in range(25)])
    alone = tf.random.Generator.from_seed(1)
    for _ in range(200):
        alone.skip(1)
        alone.make_seeds(1)
    np.testing.assert_array_equal(generator.state.numpy(), alone.state.numpy())


def test_increments_of_threads_all_count():
    v = tf.Variable(np.zeros(1000, np.float32))
    step = tf.function(lambda: v.assign_add(tf.ones([1000])))
    step()
    together(lambda n: [v.assign_add(tf.ones([1000])) if n % 2 else step() for _ in range(50)])
    assert set(v.numpy().tolist()) == {401.0}


# -- what begins begins once


def test_the_first_traces_may_be_made_by_threads_at_once():
    printed = run("""
        import sys, threading
        import tvtf as tf
        sys.setswitchinterval(1e-5)
        begin, failed = threading.Barrier(6), []
        def work(n):
            begin.wait()
            try:
                f = tf.function(lambda x: tf.exp(x) * tf.tanh(x) + tf.sin(x) - tf.cumsum(x))
                assert f(tf.constant([0.0, 0.0])).numpy().tolist() == [0.0, 0.0]
            except BaseException as error:
                failed.append(repr(error))
        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        print(failed)
    """)
    assert printed == "[]"


def test_the_first_steps_of_an_optimizer_may_be_taken_by_threads_at_once():
    def step(optimizer, variables):
        return lambda _: optimizer.apply_gradients([(tf.ones([3]), v) for v in variables])

    # Keras's own optimizers count steps with `iterations.assign(iterations + 1)`, in which another thread may step between.
    for _ in range(10):
        optimizer = plain_optimizers.Adam(0.1)
        together(step(optimizer, [tf.Variable(tf.zeros([3])) for _ in range(20)]), 4)
        assert int(optimizer.iterations) == 4


INTERRUPTED = """
    import os, signal, sys, threading, time
    import tvtf as tf
    f = tf.function(lambda x: tf.exp(x) * 2.0 + tf.cumsum(x))
    signal.setitimer(signal.ITIMER_REAL, {delay})
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        f(tf.constant([0.0, 1.0]))
    except KeyboardInterrupt:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(f(tf.constant([0.0, 0.0])).numpy().tolist(), tf.function(lambda x: tf.tanh(x) + x)(tf.zeros([1])).numpy().tolist())
"""


@pytest.mark.parametrize("delay", [0.05, 0.3])
def test_an_interrupted_first_trace_leaves_the_next_ones_right(delay):
    assert run(INTERRUPTED.format(delay=delay)) == "[2.0, 2.0] [0.0]"


@pytest.mark.sweep
@pytest.mark.parametrize("delay", np.linspace(0.01, 2.0, 60).round(3))
def test_a_first_trace_may_be_interrupted_anywhere(delay):
    assert run(INTERRUPTED.format(delay=delay)) == "[2.0, 2.0] [0.0]"


INTERRUPTED_IMPORT = """
    import sys
    import tvtf as tf

    class Interrupting:
        def find_spec(self, name, path=None, target=None):
            if name == {module!r}:
                sys.meta_path.remove(self)
                raise KeyboardInterrupt

    sys.meta_path.insert(0, Interrupting())

    f = tf.function(lambda x: x * 2.0)
    try:
        f(tf.constant([1.0]))
    except KeyboardInterrupt:
        print("interrupted", end=" ")
    print(f(tf.constant([1.0])).numpy().tolist())
"""


@pytest.mark.parametrize(
    "module",
    [
        "malt.core.config",
        pytest.param("malt.impl.conversion", marks=pytest.mark.sweep),
        pytest.param("malt.lang.special_functions", marks=pytest.mark.sweep),
        "malt.pyct.cache",
    ],
)
def test_an_interrupted_import_of_the_transpiler_starts_over(module):
    assert run(INTERRUPTED_IMPORT.format(module=module)) == "interrupted [2.0]"


IMPORTS = """
    import signal, sys, threading
    import tvtf as tf

    plain, found = signal.default_int_handler, set()
    signal.signal(signal.SIGINT, plain)  # programs that a shell runs in the background ignore the signal

    class Watching:
        def find_spec(self, name, path=None, target=None):
            if threading.current_thread() is not threading.main_thread():
                found.add("thread: " + name)
            elif signal.getsignal(signal.SIGINT) is plain and name.partition(".")[0] in ("tvm", "malt"):
                found.add(name)

    sys.meta_path.insert(0, Watching())
    tf.function(lambda x: x + 1.0)(tf.ones([2]))
    tf.function(lambda x: tf.nn.conv2d(tf.nn.relu(x), tf.ones([3, 3, 1, 2]), 1, "SAME"))(tf.ones([1, 8, 8, 1]))
    print(sorted(found))
"""


def test_ctrl_c_can_not_leave_the_lock_of_imports_to_threads_that_compile(tmp_path, monkeypatch):
    """Raised inside the import system, KeyboardInterrupt may leave its lock taken: one interrupted trace in ten hung."""
    monkeypatch.setenv("TVTF_CACHE_DIR", str(tmp_path))
    assert run(IMPORTS) == "[]"


def test_ctrl_c_is_raised_after_an_import(tmp_path, monkeypatch):
    (tmp_path / "interrupted_module.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nwhole = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            tvm_import.import_whole("interrupted_module")
    finally:
        signal.signal(signal.SIGINT, handler)
    assert sys.modules.pop("interrupted_module").whole


# -- the end of a process, and forks

AT_THE_END = """
    import atexit, sys, threading, time
    import numpy as np
    import tvtf as tf
    f = tf.function(lambda x: tf.reduce_sum(tf.matmul(x, x)))
    g = tf.function(lambda x: tf.py_function(lambda t: f(t) + 1.0, [x], tf.TensorSpec([])))
    x = tf.constant(np.ones((300, 300), np.float32))
    f(x), g(x)
    atexit.register(lambda: print(float(f(x))))
    def work(call):
        while True:
            call()
    for call in (lambda: f(x), lambda: g(x), lambda: tf.function(lambda a: a * 2.0)(x), lambda: tf.random.uniform([10])):
        threading.Thread(target=work, args=(call,), daemon=True).start()
    time.sleep(0.3)
    sys.exit({status})
"""


@pytest.mark.parametrize("status", [0, 3])
def test_daemon_threads_in_compiled_code_let_the_process_end(status):
    program = textwrap.dedent(AT_THE_END.format(status=status))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (status, "27000000.0"), done.stderr[-2000:]


def test_a_daemon_thread_in_a_trace_lets_the_process_end():
    """Each op that is traced calls into C++."""
    printed = run("""
        import sys, threading, time
        import tvtf as tf
        begun = threading.Event()
        def many(x):
            begun.set()
            for _ in range(1000):
                x = tf.tanh(x) + 1.0
            return x
        def work():
            while True:
                tf.function(many, autograph=False).get_concrete_function(tf.TensorSpec([3]))
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        begun.wait()
        time.sleep(0.05)
        print("ended")
    """)
    assert printed == "ended"


def test_a_child_forked_while_others_save_draw_and_compile_does_the_same():
    printed = run("""
        import os, signal, tempfile, threading
        import tvtf as tf
        folder = tempfile.mkdtemp()
        checkpoint = tf.train.Checkpoint(v=tf.Variable(tf.ones([1000])))
        stop = threading.Event()
        def work(call):
            while not stop.is_set():
                call()
        calls = [
            lambda: checkpoint.write(folder + "/parent"),
            lambda: tf.random.uniform([3], seed=1),
            lambda: tf.function(lambda x: x + 1.0)(tf.ones([2])),
        ]
        calls[2]()
        threads = [threading.Thread(target=work, args=(call,), daemon=True) for call in calls]
        for thread in threads:
            thread.start()
        ended = []
        for number in range(6):
            child = os.fork()
            if not child:
                signal.alarm(30)
                checkpoint.write(f"{folder}/child{number}")
                tf.random.uniform([3], seed=1)
                os._exit(0 if tf.function(lambda x: x * 2.0)(tf.ones([2])).numpy().tolist() == [2.0, 2.0] else 1)
            ended.append(os.waitpid(child, 0)[1])
        stop.set()
        for thread in threads:
            thread.join()
        print(ended)
    """)
    assert printed == "[0, 0, 0, 0, 0, 0]"
