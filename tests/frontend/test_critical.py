"""Critical sections: one thread at a time, eagerly and in compiled functions."""

import threading

import pytest

import tvtf as tf


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "compiled"])
def test_threads_take_turns(wrap):
    v, section = tf.Variable(0.0), tf.CriticalSection(name="cs")
    step = wrap(lambda: section.execute(lambda: v.assign(v + 1.0)))
    step()

    def run():
        for _ in range(50):
            step()

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert float(v) == 101.0 and section.name == "cs"


def test_what_is_no_function_is_rejected():
    with pytest.raises(ValueError, match="fn must be callable"):
        tf.CriticalSection().execute(3)
