"""Einstein summation, as sums, diagonals and products of two tensors at a time."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, export, primitive, table
from tvtf.core.shape import Dim, TensorType, agree_dim, brackets, is_static_shape
from tvtf.core.tensor import Tensor
from tvtf.dtypes import FLOATING, NUMERIC, int32
from tvtf.ops.broadcast_dims import common, stretched
from tvtf.ops.linalg import conjugate
from tvtf.ops.operands import operands_of_list
from tvtf.ops.rules import bind, draw, kernel, require_dtype, require_same_dtype
from tvtf.ops.softmax import upcast

ELLIPSIS = "..."
Labels = tuple[str, ...]


# -- the product of two tensors


def _parts(equation: str) -> tuple[str, str, str]:
    operands, result = equation.split("->")
    left, right = operands.split(",")
    return left, right, result


def _contract_type(a: TensorType, b: TensorType, *, equation: str) -> TensorType:
    """Checks the inputs of a contraction (an einsum of two inputs), and returns the type of the result.

    Axes with the same label must have the same size. For example, "ab,bc->ac" maps ``(2, 3), (3, 4)`` to ``(2, 4)``.
    """
    require_same_dtype((a, b), ("inputs[0]", "inputs[1]"))
    require_dtype(a, NUMERIC, "inputs")
    a_labels, b_labels, result_labels = _parts(equation)
    size_of_label = dict(zip(a_labels, a.shape))
    for label, dim in zip(b_labels, b.shape):
        expected = size_of_label.setdefault(label, dim)
        if not agree_dim(expected, dim):
            raise _dim_mismatch(expected, b_labels.index(label), b, dim)
    return TensorType(tuple(size_of_label[label] for label in result_labels), a.dtype)


def _dim_mismatch(expected: Dim, axis: int, x: TensorType, got: Dim) -> ArgumentError:
    """Returns TensorFlow's error for a label that has another size in an earlier input.

    Args:
      expected: the label's size in an earlier input.
      axis: the label's axis in the input ``x``.
      x: the type of the input.
      got: the label's size in this input.
    """
    return ArgumentError(
        f"Expected dimension {expected} at axis {axis} of the input shaped {brackets(x.shape)} but got dimension {got}",
        graph=ValueError,
        traced=f"Dimensions must be equal, but are {expected} and {got} for {{op}} with an input shaped "
        f"{brackets(x.shape)}.",
    )


def _contract_array(a: np.ndarray, b: np.ndarray, *, equation: str) -> np.ndarray:
    """Computes an einsum of two arrays by one batched matrix product.

    Each axis of the product merges the axes of one kind of label. Batch labels occur in both inputs and the result,
    summed labels in both inputs only, rows in ``a`` only, columns in ``b`` only.
    """
    a_labels, b_labels, result_labels = _parts(equation)
    batch = [label for label in a_labels if label in b_labels and label in result_labels]
    summed = [label for label in a_labels if label in b_labels and label not in result_labels]
    rows = [label for label in a_labels if label not in b_labels]
    columns = [label for label in b_labels if label not in a_labels]
    sizes = dict(zip(a_labels, a.shape)) | dict(zip(b_labels, b.shape))
    a_matrices = _as_matrices(a, a_labels, batch, rows, summed, sizes)
    b_matrices = _as_matrices(b, b_labels, batch, summed, columns, sizes)
    product_labels = [*batch, *rows, *columns]
    product = np.matmul(a_matrices, b_matrices).reshape([sizes[label] for label in product_labels])
    return product.transpose([product_labels.index(label) for label in result_labels])


def _as_matrices(x: np.ndarray, labels: str, batch: Any, rows: Any, columns: Any, sizes: dict[str, int]) -> np.ndarray:
    """Transposes and reshapes an array to (batch, rows, columns), each of which merges the axes of a list of labels."""
    transposed = upcast(x).transpose([labels.index(label) for label in (*batch, *rows, *columns)])
    merged_sizes = (math.prod(sizes[label] for label in group) for group in (batch, rows, columns))
    return transposed.reshape(tuple(merged_sizes))


def _contract_vjp(
    cotangent: Tensor, y: Tensor, a: Tensor, b: Tensor, *, equation: str
) -> tuple[Tensor | None, Tensor | None]:
    """Contracts the cotangent with the other operand, by the equation with result and operand swapped."""
    left, right, result = _parts(equation)
    if not a.dtype.is_differentiable:
        return None, None
    cotangent_of_a = bind.contract(cotangent, conjugate(b), equation=f"{result},{right}->{left}")
    return cotangent_of_a, bind.contract(conjugate(a), cotangent, equation=f"{left},{result}->{right}")


def _contract_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, equation: str) -> Tensor:
    left, right, result = _parts(equation)
    new = next(letter for letter in string.ascii_letters if letter not in equation)
    first, second = (new * is_batched + labels for is_batched, labels in zip(batched, (left, right)))
    return bind.contract(*inputs, equation=f"{first},{second}->{new}{result}")


def _contract_samples() -> list[Sample]:
    """Returns test samples of ``contract`` with batch, free and summed labels, a size of 0 and a symbolic dim."""
    # An equation and the shapes of its two operands.
    cases = (
        ("ab,bc->ac", (2, 3), (3, 2)), ("abcd,aecd->acbe", (1, 2, 2, 3), (1, 3, 2, 3)), ("a,b->ba", (2,), (3,)),
        ("ab,ab->", (2, 3), (2, 3)), ("ab,cb->ca", (0, 3), (2, 3)),
    )  # fmt: skip
    samples = []
    for seed, (equation, a_shape, b_shape) in enumerate(cases):
        inputs = (draw(seed, a_shape), draw(seed + 9, b_shape))
        samples.append(Sample(inputs, {"equation": equation}, (*FLOATING, int32)))
    inputs = (draw(1, (2, 3)), draw(2, (2, 3)))
    symbolic_dims = (("n", None), (None, None))
    samples.append(Sample(inputs, {"equation": "ab,cb->ca"}, FLOATING, symbolic=symbolic_dims))
    return samples


@primitive(
    tf_name="Einsum",
    type=_contract_type,
    numpy=_contract_array,
    lower=kernel("contract.contract"),
    vjp=_contract_vjp,
    batch=_contract_batch,
    onnx=lambda emitter, inputs, outputs, types, *, equation: emitter.node(
        "Einsum", inputs, outputs, equation=equation
    ),
    samples=_contract_samples,
)
def contract(a: Tensor, b: Tensor, equation: str) -> Any:
    """Multiplies two tensors and sums by an explicit equation of letters.

    No label occurs twice in an operand. Each label of an operand is in the other operand or in the result.
    """
    return (a, b), {"equation": equation}


# -- the equation


def _parsed(equation: str, count: int) -> tuple[list[str], str]:
    """Parses an einsum equation. Returns the subscripts of each input and the subscripts of the result, with ellipses.

    For example, ``"i...j,j->i..."`` gives ``["i...j", "j"]`` and ``"i..."``. An equation without "->"
    gets the implicit subscripts of the result.

    Raises:
      ValueError: the equation is malformed, or isn't one of ``count`` inputs.
    """
    compact = equation.replace(" ", "")
    inputs, arrow, output = compact.partition("->")
    terms = inputs.split(",")
    for term in [*terms, output]:
        if not re.fullmatch(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*", term):
            raise ValueError(f"Subscripts have incorrect format: {equation}")
    if len(terms) != count:
        raise ValueError(f'Got {count} inputs for equation "{equation}", expecting {len(terms)}')
    output = output if arrow else _implicit_output(terms)
    _check_output(terms, output, equation)
    return terms, output


def _implicit_output(terms: list[str]) -> str:
    """Returns the result's subscripts if none are given: the ellipsis, then the labels that occur once, sorted."""
    letters = "".join(terms).replace(".", "")
    unique_labels = sorted(label for label in set(letters) if letters.count(label) == 1)
    return (ELLIPSIS if any(ELLIPSIS in term for term in terms) else "") + "".join(unique_labels)


def _check_output(terms: list[str], output: str, equation: str) -> None:
    """Checks that the labels of an einsum's result are distinct and each occurs in an input.

    Args:
      terms: the labels of each input, such as "ij".
      output: the labels of the result.
      equation: the whole equation, for errors.
    """
    letters = output.replace(ELLIPSIS, "")
    if len(set(letters)) != len(letters):
        raise ValueError(f"Output subscripts contain a label appearing more than once: {equation}")
    for label in letters:
        if not any(label in term for term in terms):
            raise ValueError(f"Output subscripts contain the label {label} not present in the input subscripts.")


def _labels_of(term: str, rank: int, position: int) -> Labels:
    """Returns a label for each axis of an einsum's input.

    The axes of the ellipsis are numbered from the right, as broadcasting aligns them. For example, the subscripts
    ``i...j`` and rank 4 give ``("i", ".1", ".0", "j")``. ``position`` is the input's index in errors.
    """
    before, ellipsis, after = term.partition(ELLIPSIS)
    ellipsis_rank = rank - len(before) - len(after)
    if ellipsis_rank < 0 or (ellipsis_rank > 0 and not ellipsis):
        named_rank = len(before) + len(after)
        at_least = "at least " if ellipsis else ""
        raise ArgumentError(
            f"Expected input {position} to have rank {at_least}{named_rank} but got: {rank}",
            graph=ValueError,
            traced=f"Shape must be {at_least}rank {named_rank} but is rank {rank} for {position}th input of {{op}}",
        )
    ellipsis_labels = [f".{i}" for i in reversed(range(ellipsis_rank))]
    return (*before, *ellipsis_labels, *after)


def _output_labels(output: str, inputs: list[Labels]) -> Labels:
    """Returns a label for each axis of an einsum's result, from the subscripts ``output``.

    The ellipsis of the result has as many axes as the longest ellipsis of the inputs.
    """
    # Labels of an ellipsis begin with a dot.
    ellipsis_ranks = [sum(label.startswith(".") for label in labels) for labels in inputs]
    ellipsis_rank = max(ellipsis_ranks, default=0)
    before, ellipsis, after = output.partition(ELLIPSIS)
    if ellipsis_rank and not ellipsis:
        raise ArgumentError(
            f"Output contains {ellipsis_rank} broadcasting dimension(s) but no ellipsis (...) was found in the output "
            "subscripts.",
            graph=ValueError,
            traced=f"Shape must be at most rank 0 but is rank {ellipsis_rank} for {{op}} without ellipsis (...) in the output "
            "subscripts",
        )
    ellipsis_labels = [f".{i}" for i in reversed(range(ellipsis_rank))]
    return (*before, *ellipsis_labels, *after)


# -- the evaluation


class Operand:
    """A tensor and the label of each of its axes."""

    def __init__(self, tensor: Tensor, labels: Labels) -> None:
        self.tensor, self.labels = tensor, labels

    def without(self, axis: int, tensor: Tensor) -> Operand:
        return Operand(tensor, self.labels[:axis] + self.labels[axis + 1 :])

    def diagonal(self) -> Operand:
        """Merges axes of one label into one axis, by taking diagonals."""
        for axis, label in enumerate(self.labels):
            if label in self.labels[:axis]:
                return self._merged(self.labels.index(label), axis).diagonal()
        return self

    def _merged(self, first: int, second: int) -> Operand:
        return self.without(second, bind.take_diagonal(self.tensor, first=first, second=second))

    def summed(self, needed: set[str]) -> Operand:
        """Sums over the axes whose labels are not ``needed``."""
        axes = tuple(i for i, label in enumerate(self.labels) if label not in needed)
        if not axes:
            return self
        total = bind.reduce_sum(self.tensor, axis=axes, keepdims=False)
        return Operand(total, tuple(label for label in self.labels if label in needed))

    def squeezed(self, other: Operand) -> Operand:
        """Returns this operand without the ellipsis axes of size 1 that may be larger in ``other``.

        An ellipsis axis stands for ``...`` in the equation. The primitive ``contract`` doesn't broadcast such axes.
        """
        dims, labels = [], []  # of the axes that remain
        for dim, label in zip(self.tensor._type.shape, self.labels):
            if dim is None or not _broadcasts(label, dim, other):
                dims.append(dim)
                labels.append(label)
        if len(labels) == len(self.labels):
            return self
        return Operand(bind.reshape(self.tensor, shape=tuple(dims)), tuple(labels))

    def broadcast(self, dims: dict[int, Dim]) -> Operand:
        """Broadcasts axes of size 1 to other sizes, given by axis."""
        shape = tuple(dims.get(i, dim) for i, dim in enumerate(self.tensor._type.shape))
        return Operand(stretched(self.tensor, shape), self.labels)

    def arranged(self, labels: Labels) -> Tensor:
        """Returns the tensor with its axes in the order of ``labels``."""
        if labels == self.labels:
            return self.tensor
        return table["transpose"](self.tensor, [self.labels.index(label) for label in labels])


def _broadcasts(label: str, dim: Dim, other: Operand) -> bool:
    """Returns whether an ellipsis axis has size 1, and the same axis of the other operand may be larger."""
    if not label.startswith(".") or not isinstance(dim, int) or dim != 1 or label not in other.labels:
        return False
    opposite = other.tensor._type.shape[other.labels.index(label)]
    return not isinstance(opposite, int) or opposite != 1


def _multiplied(a: Operand, b: Operand, needed: set[str]) -> Operand:
    """Multiplies two operands and sums over the labels that are not ``needed`` by later products or the result."""
    a, b = a.summed(needed | set(b.labels)), b.summed(needed | set(a.labels))
    a, b = a.squeezed(b), b.squeezed(a)
    result = tuple(label for label in dict.fromkeys((*a.labels, *b.labels)) if label in needed)
    return _contracted(a, b, result)


def _contracted(a: Operand, b: Operand, result: Labels) -> Operand:
    """Contracts two operands to the labels ``result`` by one ``contract`` op, with letters for the labels."""
    letters = dict(zip(dict.fromkeys((*a.labels, *b.labels)), string.ascii_letters))
    left = "".join(letters[label] for label in a.labels)
    right = "".join(letters[label] for label in b.labels)
    out = "".join(letters[label] for label in result)
    return Operand(bind.contract(a.tensor, b.tensor, equation=f"{left},{right}->{out}"), result)


def _evaluate(operands: list[Operand], output: Labels) -> Tensor:
    """Emits the ops of an einsum: multiplies its operands pair by pair, the cheapest pair first.

    ``output`` are the labels of the result's axes. Another label is summed as soon as no other operand has it.
    """
    # A label that occurs twice in an operand selects the diagonal.
    operands = [operand.diagonal() for operand in operands]
    while len(operands) > 2:
        first, second = _cheapest_pair(operands)
        others = [operand for operand in operands if operand is not first and operand is not second]
        needed_labels = set(output).union(*(operand.labels for operand in others))
        operands = [*others, _multiplied(first, second, needed_labels)]
    if len(operands) == 2:
        first, second = operands
        return _final_product(first, second, output)
    (operand,) = operands
    return operand.summed(set(output)).arranged(output)


def _final_product(a: Operand, b: Operand, output: Labels) -> Tensor:
    needed = set(output)
    a, b = a.summed(needed | set(b.labels)), b.summed(needed | set(a.labels))
    a, b = a.squeezed(b), b.squeezed(a)
    return _contracted(a, b, output).tensor


def _cheapest_pair(operands: list[Operand]) -> tuple[Operand, Operand]:
    """Returns the pair with the fewest multiplications if all sizes are known, else the first two operands."""
    if not all(is_static_shape(x.tensor._type.shape) for x in operands):
        return operands[0], operands[1]
    pairs = [(first, second) for i, first in enumerate(operands) for second in operands[i + 1 :]]
    return min(pairs, key=lambda pair: _cost(*pair))


def _cost(a: Operand, b: Operand) -> int:
    sizes = dict(zip(a.labels, a.tensor._type.shape)) | dict(zip(b.labels, b.tensor._type.shape))
    return math.prod(sizes.values())


@export("einsum", "linalg.einsum")
def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Tensor:
    """Computes sums of products of tensors by Einstein's summation convention.

    Args:
      equation: subscripts of each input, and of the result after ``->``; without that, the labels that occur once,
        sorted. ``...`` stands for axes that broadcast; a label twice in one input takes its diagonal.
      *inputs: numeric tensors of one dtype, as many as the equation has.
      **kwargs: ``optimize`` and ``name``, accepted as in TensorFlow; products are always taken in the cheapest
        order found.

    Returns:
      A tensor of the inputs' dtype. 16-bit floats are summed in float32.

    Raises:
      ValueError: the equation is malformed.
      InvalidArgumentError: (ValueError while tracing) the shapes don't fit the equation.

    >>> import tvtf as tf
    >>> tf.einsum("ij,jk->ik", [[1, 2]], [[3], [4]]).numpy()
    array([[11]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/einsum
    """
    unexpected = set(kwargs) - {"optimize", "name"}
    if unexpected:
        raise TypeError(f"einsum: invalid keyword arguments for this function: {', '.join(sorted(unexpected))}")
    tensors = operands_of_list(inputs)
    terms, output = _parsed(equation, len(tensors))
    try:
        return _checked_evaluation(tensors, terms, output)
    except ArgumentError as error:
        raise error.for_op("Einsum") from None


def _checked_evaluation(tensors: list[Tensor], terms: list[str], output: str) -> Tensor:
    require_same_dtype([x._type for x in tensors], in_list="inputs")
    labels = [_labels_of(term, x.ndim, i) for i, (term, x) in enumerate(zip(terms, tensors))]
    operands = [Operand(x, label) for x, label in zip(tensors, labels)]
    return _evaluate(_with_common_dims(operands), _output_labels(output, labels))


def _with_common_dims(operands: list[Operand]) -> list[Operand]:
    """Broadcasts ellipsis axes of symbolic size to common dims, any of which may be 1 at run time."""
    ellipsis_axes = [[i for i, label in enumerate(x.labels) if label.startswith(".")] for x in operands]
    shapes = common([[x.tensor._type.shape[i] for i in axes] for x, axes in zip(operands, ellipsis_axes)])
    if shapes is None:
        return operands
    return [x.broadcast(dict(zip(axes, dims))) for x, axes, dims in zip(operands, ellipsis_axes, shapes)]
