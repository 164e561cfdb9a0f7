"""Locks of Variables: joined locks, also while other threads hold them or wait for them."""

import os
import threading
import warnings

import pytest

from tvtf.core.variable_lock import Lock, join


def is_free(lock):
    """Whether another thread gets it at once."""
    free = []

    def try_it():
        own = lock._root()._own
        free.append(own.acquire(blocking=False))
        if free[0]:
            own.release()

    other = threading.Thread(target=try_it)
    other.start()
    other.join()
    return free[0]


def test_whoever_holds_one_holds_those_it_was_joined_with():
    first, second, third = Lock(), Lock(), Lock()
    join([first, second])
    with second:
        assert not is_free(first)
        assert is_free(third)
    assert join([second, third])._root() is first._root() is third._root()


def test_nothing_to_join_is_a_lock_of_its_own():
    with join([]):
        assert is_free(Lock())


def test_joining_while_it_is_held_by_the_same_thread():
    first, second = Lock(), Lock()
    with first, second:
        join([first, second])
        with first:
            assert not is_free(second)
    with second:
        assert not is_free(first)


def test_joining_waits_for_who_holds_and_who_waited_gets_the_joined_one():
    locks = [Lock() for _ in range(4)]
    count = [0]

    def work(own):
        for n in range(200):
            with own:
                seen = count[0]
                if n == 100:
                    join(locks)
                count[0] = seen + 1 if n > 100 else count[0]

    threads = [threading.Thread(target=work, args=(lock,)) for lock in locks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert count == [4 * 99]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_gets_locks_that_other_threads_held():
    held, own, here, done = Lock(), Lock(), threading.Event(), threading.Event()

    def hold():
        with held:
            here.set()
            done.wait(60)

    other = threading.Thread(target=hold)
    other.start()
    here.wait(60)
    with own, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of any fork beside threads
        child = os.fork()
        if not child:
            os._exit(0 if is_free(held) and not is_free(own) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not is_free(held)
    done.set()
    other.join(60)
