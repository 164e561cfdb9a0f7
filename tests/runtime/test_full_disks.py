"""Compilation without writable folders: an exception or a result, never a crash."""

import subprocess
import sys
import textwrap

LIMITED = """
    import resource
    import tvtf as tf

    function = tf.function(lambda x: tf.exp(x) * 2.0 + 1.0, autograph=False)
    tf.function(lambda x: x, autograph=False)(tf.ones([2]))
    resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    try:
        function(tf.zeros([2]))
    except tf.errors.ResourceExhaustedError as error:
        print("refused", "ulimit -f" in error.message)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.getrlimit(resource.RLIMIT_FSIZE)[1],) * 2)
    print(function(tf.zeros([2])).numpy().tolist())
"""


def printed(program, **names):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program.format(**names))], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_a_limit_on_the_size_of_files_is_an_exception(own_cache):
    assert printed(LIMITED, most=2000) == (0, ["refused True", "[3.0, 3.0]"], "")
