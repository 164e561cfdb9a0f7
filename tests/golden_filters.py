"""Every place where the comparison with TensorFlow's answers drops or loosens something, in two tables with a reason each.

``TEXTS`` are rewritings of an answer's text, by which ``clean`` goes; ``LOOSER`` are comparisons that aren't equality.
``tests/test_goldens.py`` holds that each of them is still needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class TextFilter:
    """Replaces ``pattern`` in both libraries' answers."""

    name: str
    pattern: re.Pattern[str]
    replacement: str | Callable[[re.Match[str]], str]
    reason: str
    witness: str = "TensorFlow"
    """Whose answers show that it is needed: TensorFlow's (each golden names the filters that changed it), a program
    of tests/parity as "room: label", run by tvtf, or "versions" where another Python or NumPy says it otherwise."""
    example: tuple[str, str] = ("", "")
    """What another version writes, and what becomes of it."""


@dataclass(frozen=True)
class ClassFilter:
    """Shows an exception's class as another; fields as TextFilter's, or "random calls" where those alone need it."""

    name: str
    shown: str
    reason: str
    witness: str = "TensorFlow"


def _in_pairs(found: re.Match[str]) -> str:
    """An OrderedDict as Python wrote it until 3.11."""
    pairs = re.sub(r"('\w+'): (<.*?>)", r"(\1, \2)", found[1])
    return f"OrderedDict([{pairs}])"


TEXTS = (
    TextFilter(
        "function node",
        re.compile(r"\{\{function_node [^}]*\}\} "),
        "",
        "The name of a node of TensorFlow's graph, with a running number.",
    ),
    TextFilter("address", re.compile(r" at 0x[0-9a-f]+"), " at 0x", "Addresses change from run to run."),
    TextFilter(
        "name of an eager op",
        re.compile(r"\[Op:(\w+)\] name:.*"),
        r"[Op:\1]",
        "The name argument of the call that failed, empty in nearly all; tvtf's messages end with the op.",
    ),
    TextFilter(
        "module of EagerTensor",
        re.compile(r"tensorflow\.python\.framework\.ops\.EagerTensor"),
        "EagerTensor",
        "Where a class lies in TensorFlow's folders is no promise of its API.",
    ),
    TextFilter(
        "blank before a variable's name",
        re.compile(r"to variable ' "),
        "to variable '",
        "A slip in TensorFlow's message.",
    ),
    TextFilter("missing blank", re.compile(r"mismatch\.The"), "mismatch. The", "A slip in TensorFlow's message."),
    TextFilter(
        "lines of user code",
        re.compile(r"in user code:\n\n.*\n\n    (?=\w+: )", re.DOTALL),
        "in user code: ",
        "A traceback with the paths of the machine.",
    ),
    TextFilter(
        "stack of a traced op",
        re.compile(r"Graph execution error:.*?\n\n(?=\S[^\n]*\n\t \[\[)", re.DOTALL),
        "",
        "Where a traced op stands, as a traceback with the paths of the machine.",
    ),
    TextFilter(
        "node of a traced op",
        re.compile(r"\n\t \[\[\{\{node.*", re.DOTALL),
        "",
        "Which node of TensorFlow's graph failed, with its running number.",
    ),
    TextFilter(
        "line of a traced op",
        re.compile(r" \([^()\n]*\.py, line \d+\)$"),
        "",
        "tvtf tells the line of the program where TensorFlow tells the node.",
        "checks: positive of one, traced",
    ),
    TextFilter(
        "ops of a saved model",
        re.compile(r"^.*contains the following ops:.*\n", re.MULTILINE),
        "",
        "saved_model_cli prints the ops of TensorFlow's own graphs, as a set in an order that changes from run to run.",
    ),
    TextFilter(
        "name of a condition's tensor",
        re.compile(r"\(\w+(/\w+)*:0\) = "),
        "(:0) = ",
        "Names of TensorFlow's graph nodes carry running numbers.",
    ),
    TextFilter(
        "large float32 scalar",
        re.compile(r"^tf\.Tensor\(16777216\.0,"),
        "tf.Tensor(1.6777216e+07,",
        "NumPy writes it in full until 2.2 and with an exponent from 2.3 on.",
        "versions",
        ("tf.Tensor(16777216.0, shape=()", "tf.Tensor(1.6777216e+07, shape=()"),
    ),
    TextFilter(
        "conversion of an array to a number",
        re.compile(r"only length-1 arrays"),
        "only 0-dimensional arrays",
        "NumPy's message until 2.2; later ones say 0-dimensional.",
        "versions",
        ("TypeError: only length-1 arrays can", "TypeError: only 0-dimensional arrays can"),
    ),
    TextFilter(
        "OrderedDict",
        re.compile(r"OrderedDict\(\{(.*)\}\)$"),
        _in_pairs,
        "Python writes pairs until 3.11, a dict from 3.12 on.",
        "versions",
        ("OrderedDict({'a': <tf.Tensor: 1>})", "OrderedDict([('a', <tf.Tensor: 1>)])"),
    ),
)

CLASSES = (
    ClassFilter(
        "InaccessibleTensorError",
        "TypeError",
        "TensorFlow's class for a tensor of another graph is private and derived from TypeError: programs catch that.",
        "random calls",
    ),
    ClassFilter(
        "OutOfRangeInteger",
        "ValueError",
        "tvtf's own class, derived from the ValueError that TensorFlow raises.",
        "rejected: an int of 65 bits beside ints",
    ),
    ClassFilter(
        "TracedOutOfRangeInteger",
        "TypeError",
        "tvtf's own class, derived from the TypeError that TensorFlow raises.",
        "random calls",
    ),
)

USED: set[str] = set()
"""The filters that changed a text in this process: written into the goldens."""


def clean(text: str) -> str:
    """An answer without what differs from run to run or from version to version."""
    for each in TEXTS:
        before, text = text, each.pattern.sub(each.replacement, text)
        if before != text:
            USED.add(each.name)
    return text.rstrip()


@dataclass(frozen=True)
class Looser:
    """A comparison of numbers that is looser than equality: ``|found - expected| <= absolute + relative * |expected|``."""

    relative: float
    absolute: float
    reason: str


LOOSER = {
    "documents": Looser(
        2e-6, 1e-6, "Kernels add and round in other orders; white space around numbers follows their length."
    ),
    "optimizers": Looser(
        2e-5, 2e-6, "Five steps of float32, whose gradients and updates are computed in another order."
    ),
    "optimizers of another machine": Looser(
        1e-6, 1e-7, "Keras's own float32 kernels use what instructions the machine has."
    ),
    "random float16": Looser(
        1e-3, 1e-3, "Normal numbers are made by log, sin and cos in float32, whose last digits differ."
    ),
    "random bfloat16": Looser(8e-3, 8e-3, "As float16, with a unit of 2**-7."),
    "random float32": Looser(
        2e-6, 2e-6, "Normal numbers are made by log, sin and cos, whose last digits differ; uniform ones are equal."
    ),
    "random float64": Looser(1e-12, 1e-12, "As float32."),
    "calls float16": Looser(1e-2, 1e-2, "Ops of several steps round after each, in other orders."),
    "calls bfloat16": Looser(5e-2, 5e-2, "As float16, with a unit of 2**-7."),
    "calls float64": Looser(
        1e-6, 1e-6, "Transforms and decompositions of LAPACK's, measured against the largest element."
    ),
    "calls": Looser(2e-3, 2e-3, "The same in float32."),
}
"""Where numbers are compared, by the name that the comparing test passes."""

DIGITS = 4
"""Of numbers in parity programs: float32 kernels differ in the last of seven, and decompositions lose some of them."""
NEGLIGIBLE = 1e-6
"""Parts of the largest number of a result that count as 0: what remains of a sum that cancels, and the sign of zero."""

CALLS_LEFT_OUT = {
    "They set what later calls see, write or read files, or tell of the machine.": """
        config summary profiler saved_model io.gfile test sysconfig autograph train data debugging.set_ debugging.disable
        debugging.enable debugging.get_log debugging.experimental experimental.numpy.experimental_ experimental.numpy.random.seed
        random.set_ random.create_rng_state random.get_global random.experimental.set_ random.experimental.get_
        experimental.register experimental.unregister experimental.dispatch experimental.function_executor experimental.async
        quantization.experimental experimental.enable_strict get_logger io.write io.read_file io.match load_ register_tensor
        print timestamp init_scope variable_creator_scope device name_scope control_dependencies gradients hessians types""",
    "They end TensorFlow's process.": "nondifferentiable_batch_function graph_util import_graph_def no_gradient",
    "It gives memory that nobody wrote.": "experimental.numpy.empty",
    "TensorFlow has no descriptors, or no kernels on CPUs, for them.": (
        "io.encode_proto io.decode_proto fftnd ifftnd rfftnd irfftnd"
    ),
}
"""Reason -> beginnings of the names of functions that random calls leave out."""
RANDOM_CALLS = (
    "random.",
    "image.random_",
    "nn.dropout",
    "nn.experimental.general",
    "nn.nce",
    "nn.sampled",
    "sampler",
)
"""Parts of names whose values are not compared while traced: seeds come of the number of nodes there."""
CALLS_OF_ANY_SIGN = ("linalg.eig", "linalg.svd", "linalg.qr", "eig", "eigvals")
"""Names whose values are not compared: LAPACK's builds choose the signs of vectors, and eigenvalues have no order."""
CALLS_OF_JPEG = "encode_jpeg("
"""In calls, what makes JPEG files. Decoded values are not compared: TensorFlow's default transform is a fast one, Pillow
knows the accurate one only, as which TensorFlow's ``dct_method="INTEGER_ACCURATE"`` gives the same values."""
CALLS_WITH_OTHER_ERRORS = 12
"""Of 100 random calls so many may be refused with another class, or by one library alone: which of several wrong things is
told first differs."""
CALLS_OWN_PARAMETERS = ("meshgrid",)
"""Functions with other parameters: named here instead of **kwargs."""


def kind_of(error: BaseException) -> str:
    """The name of an exception's class, as answers show it."""
    name = type(error).__name__
    for each in CLASSES:
        if each.name == name:
            USED.add(name)
            return each.shown
    return name
