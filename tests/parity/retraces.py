"""The calls after which TensorFlow warns about retracing, and the counts in the warning."""

import logging
import re


class _Heard(logging.Handler):
    def __init__(self):
        super().__init__()
        self.message = []

    def emit(self, record):
        self.message += re.findall(r"(\d+) out of the last (\d+) calls", record.getMessage())


def _rewritten():
    """Code of its own: calls are counted by that."""
    return eval("lambda x: 0")


def programs(tf):
    def heard(run):
        def program():
            handler, logger = _Heard(), logging.getLogger("tensorflow")
            outer, logger.propagate = logger.propagate, False
            logger.addHandler(handler)
            try:
                run()
            finally:
                logger.removeHandler(handler)
                logger.propagate = outer
            return handler.message

        return program

    def calls(values):
        def run():
            f = tf.function(_rewritten(), autograph=False)
            for value in values:
                f(value)

        return heard(run)

    def retraced(times):
        def run():
            written = _rewritten()
            for _ in range(5):
                f = tf.function(written, autograph=False)
                for _ in range(times):
                    f(1)

        return heard(run)

    def two_methods():
        class Thing:
            @tf.function
            def of(self, x):
                return 0

        for value in range(3):
            Thing().of(value)
            Thing().of(value)

    def requested():
        f = tf.function(lambda x: 0)
        for value in range(8):
            f.get_concrete_function(value)

    return {
        "new values": calls(range(9)),
        "four values": calls(range(4)),
        "each twice": calls([i // 2 for i in range(14)]),
        "each three times": calls([i // 3 for i in range(24)]),
        "after many": calls([0] * 20 + list(range(1, 8))),
        "one in four": calls([i // 4 for i in range(40)]),
        "functions made anew": retraced(1),
        "each called twice": retraced(2),
        "each called four times": retraced(4),
        "methods of many objects": heard(two_methods),
        "concrete functions": heard(requested),
    }
