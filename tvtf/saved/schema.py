"""Checks TVM's JSON of a saved program completely before TVM reads it, because TVM trusts its input.

The graph is a list of nodes that refer only to earlier nodes, so that it has no cycles. `FIELDS` declares the type of every
field of every node type; node types, fields and ops that are not listed are errors.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tvtf import dtypes
from tvtf.core.integers import ceil_div
from tvtf.ir.dialect import PAIRS

MAX_DEPTH: Final = 300
"""The limit of nesting: TVM visits, compares and frees nodes by recursion. Programs are flat and reach a depth of 20."""
MAX_DIMS: Final = 32
INT64_LIMIT: Final = 1 << 63
OP_PREFIX: Final = "tvtf."
TENSOR_MAGIC: Final = 0xDD5E40F096B4A13F
TENSOR_HEADER: Final = struct.Struct("<QQiiiBBH")
CODES: Final = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}


class SchemaError(ValueError):
    """A node that a saved program may not contain; the text gives the node and the reason."""


@dataclass(frozen=True)
class Ref:
    """A field that refers to an earlier node of one of these types."""

    types: frozenset[str]


@dataclass(frozen=True)
class ListOf:
    """A field that refers to an array of nodes of these types; if ``nested``, also of arrays of them."""

    types: frozenset[str]
    nested: bool = False


@dataclass(frozen=True)
class MapOf:
    """A field that refers to a map whose keys and values have these types."""

    keys: frozenset[str]
    values: ListOf


@dataclass(frozen=True)
class Plain:
    """A field that holds a number, string or bool itself."""

    kind: type
    least: int = -INT64_LIMIT
    most: int = INT64_LIMIT - 1


def _ref(*types: str) -> Ref:
    return Ref(frozenset(types))


def _list(*types: str, nested: bool = False) -> ListOf:
    return ListOf(frozenset(types), nested)


BINARY: Final = ("Add", "Sub", "Mul", "FloorDiv", "FloorMod", "Div", "Mod", "Min", "Max")
COMPARED: Final = ("EQ", "NE", "LT", "LE", "GT", "GE", "And", "Or")
DIMS: Final = ("ir.IntImm", "ir.Var", "prim.Cast", "prim.Select", "prim.Not", *(f"prim.{n}" for n in BINARY + COMPARED))
TYPES: Final = ("relax.TensorType", "ir.TupleType")
VALUES: Final = ("ir.Var", "ir.GenericConst")
ATTRIBUTES: Final = ("None", "int", "bool", "float", "ffi.String", "ir.IntImm")
SPANS: Final = _ref("None", "ir.Span")
TEXT: Final = _ref("ffi.String")
TYPED: Final = {"span": SPANS, "ty": _ref("ir.PrimType")}
SIZE: Final = Plain(int, -1, MAX_DIMS)

FIELDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "ir.Type": {"span": SPANS},
    "ir.PrimType": {"span": SPANS, "dtype": Plain(str)},
    "ir.IntImm": TYPED | {"value": _ref("int")},
    **{f"prim.{name}": TYPED | {"a": _ref(*DIMS), "b": _ref(*DIMS)} for name in BINARY + COMPARED},
    "prim.Cast": TYPED | {"value": _ref(*DIMS)},
    "prim.Not": TYPED | {"a": _ref(*DIMS)},
    "prim.Select": TYPED | {"condition": _ref(*DIMS), "true_value": _ref(*DIMS), "false_value": _ref(*DIMS)},
    "relax.ShapeType": {"span": SPANS, "values": _list(*DIMS), "ndim": SIZE},
    "relax.TensorType": {
        "span": SPANS,
        "shape": _ref("None", "relax.expr.ShapeExpr"),
        "dtype": _ref("ir.PrimType"),
        "vdevice": _ref("None"),
        "ndim": SIZE,
    },
    "ir.TupleType": {"span": SPANS, "fields": _list(*TYPES)},
    "relax.FuncType": {
        "span": SPANS,
        "params": _list(*TYPES),
        "ret": _ref(*TYPES),
        "derive_func": _ref("None"),
        "purity": Plain(bool),
    },
    "ir.Span": {"source_name": _ref("ir.SourceName")}
    | dict.fromkeys(("line", "column", "end_line", "end_column"), Plain(int, 0, (1 << 31) - 1)),
    "ir.SourceMap": {"source_map": MapOf(frozenset(), _list())},
    "ir.DictAttrs": {"__dict__": MapOf(frozenset(("ffi.String",)), _list(*ATTRIBUTES, nested=True))},
    "ir.Var": {"span": SPANS, "ty": _ref(*TYPES, "ir.PrimType"), "name": TEXT},
    "ir.GlobalVar": {"span": SPANS, "ty": _ref("ir.Type", "relax.FuncType"), "name_hint": TEXT},
    "ir.GenericConst": {"span": SPANS, "ty": _ref("relax.TensorType"), "value": _ref("ffi.Tensor")},
    "ir.Tuple": {"span": SPANS, "ty": _ref("ir.TupleType"), "fields": _list(*VALUES, "ir.Tuple")},
    "ir.TupleGetItem": {
        "span": SPANS,
        "ty": _ref(*TYPES),
        "tuple_value": _ref("ir.Var"),
        "index": Plain(int, 0, (1 << 31) - 1),
    },
    "ir.Call": {
        "span": SPANS,
        "ty": _ref(*TYPES),
        "op": _ref("ir.Op"),
        "args": _list(*VALUES, "ir.GlobalVar", "ir.Tuple", "relax.expr.ShapeExpr"),
        "attrs": _ref("ir.DictAttrs", "None"),
        "ty_args": _list(),
    },
    "relax.expr.ShapeExpr": {"span": SPANS, "ty": _ref("relax.ShapeType"), "values": _list(*DIMS)},
    "relax.expr.VarBinding": {
        "span": SPANS,
        "var": _ref("ir.Var"),
        "value": _ref(*VALUES, "ir.Call", "ir.Tuple", "ir.TupleGetItem"),
    },
    **dict.fromkeys(
        ("relax.expr.BindingBlock", "relax.expr.DataflowBlock"),
        {"bindings": _list("relax.expr.VarBinding"), "span": SPANS},
    ),
    "relax.expr.SeqExpr": {
        "span": SPANS,
        "ty": _ref(*TYPES),
        "blocks": _list("relax.expr.BindingBlock", "relax.expr.DataflowBlock"),
        "body": _ref(*VALUES, "ir.Tuple"),
    },
    "relax.expr.Function": {
        "span": SPANS,
        "ty": _ref("relax.FuncType"),
        "attrs": _ref("ir.DictAttrs", "None"),
        "params": _list("ir.Var"),
        "body": _ref("relax.expr.SeqExpr"),
        "ret_ty": _ref(*TYPES),
        "is_pure": Plain(bool),
    },
    "ir.IRModule": {
        "functions": MapOf(frozenset(("ir.GlobalVar",)), _list("relax.expr.Function")),
        "global_var_map_": MapOf(frozenset(("ffi.String",)), _list("ir.GlobalVar")),
        "source_map": _ref("ir.SourceMap"),
        "attrs": _ref("ir.DictAttrs", "None"),
        "global_infos": MapOf(frozenset(), _list()),
    },
}
"""The node types with fields, and what each field holds."""


@dataclass
class Graph:
    """The nodes of a program, and the results of checking them so far."""

    nodes: list[Any]
    depths: list[int] = field(default_factory=list)
    ops: set[str] = field(default_factory=set)
    checked: set[tuple[int, ListOf | MapOf]] = field(default_factory=set)

    def referred(self, node_id: Any, user: int) -> Any:
        """Returns the node with an ID, to which the node ``user`` refers, and updates the nesting depth of ``user``.

        Raises:
          SchemaError: the node does not come before ``user``.
        """
        if type(node_id) is not int or not 0 <= node_id < user:
            raise SchemaError(f"refers to node {node_id!r:.40}, which is not one of the earlier nodes")
        self.depths[user] = max(self.depths[user], self.depths[node_id] + 1)
        return self.nodes[node_id]

    def check_field(self, user: int, declared: Any, content: Any) -> None:
        """Checks the content of a field of node ``user``: a plain value, or the ID of an earlier node.

        ``declared`` says what the field may hold. The items of an array or map are checked, too. Several fields may
        refer to the same array; its items are checked once for each declaration.
        """
        if isinstance(declared, Plain):
            _check_plain(declared, content)
            return
        node = self.referred(content, user)
        if isinstance(declared, Ref):
            _check_type(node, declared.types)
        elif (content, declared) not in self.checked:
            self.check_items(node, declared)
            self.checked.add((content, declared))

    def check_items(self, node: Any, declared: ListOf | MapOf) -> None:
        """Checks the items of an array, or the keys and values of a map, against their declaration.

        ``node`` is the array or map. Its data are the node IDs of its items.
        """
        if isinstance(declared, MapOf):
            _check_type(node, frozenset(("ffi.Map",)))
            data = node["data"]  # keys and values alternate
            for key, value in zip(data[::2], data[1::2]):
                _check_type(self.nodes[key], declared.keys)  # a key is never an array
                self.check_item(self.nodes[value], value, declared.values)
            return
        _check_type(node, frozenset(("ffi.Array",)))
        # A ListOf declares the types of the items, as `declared.values` does for the values of a map.
        for item in node["data"]:
            self.check_item(self.nodes[item], item, declared)

    def check_item(self, node: Any, node_id: int, declared: ListOf) -> None:
        """Checks an item of an array or a value of a map: its type, or its own items if it may be a nested array."""
        if not (declared.nested and node["type"] == "ffi.Array"):
            _check_type(node, declared.types)
        elif (node_id, declared) not in self.checked:
            self.check_items(node, declared)
            self.checked.add((node_id, declared))


def check(program: Any) -> set[str]:
    """Checks that a value is TVM's JSON of a program in the dialect, and returns the names of the primitives it calls.

    Raises:
      SchemaError: a node is not allowed; the text has its ID and type.
    """
    if not isinstance(program, dict) or program.keys() != {"root_index", "nodes", "metadata"}:
        raise SchemaError("it is not a graph of nodes")
    nodes, root = program["nodes"], program["root_index"]
    if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
        raise SchemaError("it has no list of nodes")
    graph = Graph(nodes, [0] * len(nodes))
    for node_id, node in enumerate(nodes):
        try:
            _check_node(graph, node_id, node)
        except SchemaError as error:
            raise SchemaError(f"node {node_id} ({node.get('type')!r:.40}) {error}") from None
    # Not by `isinstance`, as a bool is an int, too.
    if type(root) is not int or not 0 <= root < len(nodes) or nodes[root]["type"] != "ir.IRModule":
        raise SchemaError(f"its root is node {root!r:.40}, which is not a module")
    if not isinstance(program["metadata"], dict) or not all(
        isinstance(value, str) for value in program["metadata"].values()
    ):
        raise SchemaError("its metadata must be strings")
    return graph.ops


def _check_node(graph: Graph, node_id: int, node: dict[str, Any]) -> None:
    """Checks the type and data of one node of TVM's JSON, and updates the graph's nesting depths and ops.

    The depth is limited, because TVM visits nodes recursively, and deep nesting would exhaust the stack.
    """
    node_type, data = node.get("type"), node.get("data")
    if not isinstance(node_type, str) or node.keys() - {"type", "data"}:
        raise SchemaError("must have a type and data, and nothing else")
    if node_type in FIELDS:
        _check_fields(graph, node_id, node_type, data)
    elif node_type in _LEAVES:
        _LEAVES[node_type](graph, node_id, data)
    else:
        raise SchemaError("is of a type that saved programs can't contain")
    if graph.depths[node_id] > MAX_DEPTH:
        raise SchemaError(f"is nested more than {MAX_DEPTH} deep")


def _check_fields(graph: Graph, node_id: int, node_type: str, data: Any) -> None:
    """Checks the fields of a node: each field by itself, then the rules for several fields together.

    TVM doesn't check what it reads: a damaged file would crash it.

    Args:
      graph: the graph of nodes.
      node_id: the ID of the node.
      node_type: the type of the node.
      data: the fields, by name.
    """
    declared = FIELDS[node_type]
    if not isinstance(data, dict) or data.keys() != declared.keys():
        raise SchemaError(f"must have the fields {', '.join(declared)}")
    for name, content in data.items():
        try:
            graph.check_field(node_id, declared[name], content)
        except SchemaError as error:
            raise SchemaError(f"{name}: {error}") from None
    if node_type in _FIELD_RULES:
        _FIELD_RULES[node_type](graph.nodes, data)


def _check_type(node: Any, types: frozenset[str]) -> None:
    """Raises SchemaError if a node, to which a field refers, is of none of the given types."""
    if node["type"] not in types:
        raise SchemaError(f"refers to a {node['type']!r:.40}, and must to {' or '.join(sorted(types)) or 'nothing'}")


def _check_plain(declared: Plain, content: Any) -> None:
    """Raises SchemaError if a plain value has another type than declared, or an integer is out of range."""
    if type(content) is not declared.kind:
        raise SchemaError(f"must be of type {declared.kind.__name__}, but is {content!r:.40}")
    if isinstance(content, int) and not declared.least <= content <= declared.most:
        raise SchemaError(f"{content} is out of range")


# -- types without fields


def _check_container(graph: Graph, node_id: int, data: Any) -> None:
    """Checks that the data of an array or map are IDs of earlier nodes."""
    if not isinstance(data, list):
        raise SchemaError("has no items")
    for item in data:
        graph.referred(item, node_id)


def _check_map(graph: Graph, node_id: int, data: Any) -> None:
    """Checks that the data of a map are IDs of earlier nodes, of keys and values in turn."""
    _check_container(graph, node_id, data)
    if len(data) % 2:
        raise SchemaError("has a key without a value")


def _check_op(graph: Graph, node_id: int, data: Any) -> None:
    """Checks that an op belongs to the tvtf dialect, and adds its primitive's name to the ops of the graph."""
    if not isinstance(data, str) or not data.startswith(OP_PREFIX):
        raise SchemaError(f"{data!r:.60} is not an op of the tvtf dialect")
    graph.ops.add(data.removeprefix(OP_PREFIX))


def _plain_data_check(*types: type) -> Callable[[Graph, int, Any], None]:
    """Returns a function that checks a node's data: its type must be one of ``types``.

    An int must fit int64, because TVM reads int64.
    """

    def check_data(_: Graph, __: int, data: Any) -> None:
        if type(data) not in types:
            raise SchemaError(f"has the data {data!r:.40}")
        if type(data) is int and not -INT64_LIMIT <= data < INT64_LIMIT:
            raise SchemaError(f"{data} is out of range")

    return check_data


def _check_tensor(_: Graph, __: int, data: Any) -> None:
    """Checks that a constant's data are a valid array; has the parameters of all checks of data."""
    tensor_of(data)


def tensor_of(data: Any) -> tuple[tuple[int, int, int], tuple[int, ...]]:
    """Returns the dtype and shape of a constant, which TVM has encoded in base64.

    The dtype is in DLPack's encoding: a tuple of code, bits and lanes.

    Raises:
      SchemaError: the data is not an array in main memory, or its size does not match.
    """
    try:
        octets = base64.b64decode(data, validate=True)
        magic, _, device_type, device, ndim, code, bits, lanes = TENSOR_HEADER.unpack_from(octets)
        is_on_cpu = (device_type, device) == (1, 0)  # DLPack's kDLCPU is 1
        if magic != TENSOR_MAGIC or not is_on_cpu or not 0 <= ndim <= MAX_DIMS:
            raise SchemaError("is not an array in main memory")
        # After the header come the dims and the number of bytes, then the bytes.
        *shape, size = struct.unpack_from(f"<{ndim + 1}q", octets, TENSOR_HEADER.size)
    except (TypeError, ValueError, binascii.Error, struct.error) as cause:
        raise SchemaError(f"is not an array: {cause}") from None
    data_size = len(octets) - TENSOR_HEADER.size - 8 * (ndim + 1)
    item_size = ceil_div(bits * lanes, 8)  # whole bytes
    if min(shape, default=0) < 0 or size != data_size or math.prod(shape) * item_size != size:
        raise SchemaError(f"has {data_size} bytes for shape {shape} of {bits * lanes} bits")
    return (code, bits, lanes), tuple(shape)


_LEAVES: Final[Mapping[str, Callable[[Graph, int, Any], None]]] = {
    "None": _plain_data_check(type(None)),
    "bool": _plain_data_check(bool),
    "int": _plain_data_check(int),
    "float": _plain_data_check(float, int),
    "ffi.String": _plain_data_check(str),
    "ffi.Array": _check_container,
    "ffi.Map": _check_map,
    "ffi.Tensor": _check_tensor,
    "ir.Op": _check_op,
    "ir.SourceName": _plain_data_check(str),
}


# -- rules on the fields of a node together


def _check_dtype(_: list[Any], data: dict[str, Any]) -> None:
    """Checks that a type's dtype is one that traced programs may have."""
    if data["dtype"] not in PAIRS and data["dtype"] not in {dtype.name for dtype in dtypes.TRACED}:
        raise SchemaError(f"{data['dtype']!r:.40} is not a dtype")


def _check_rank(nodes: list[Any], data: dict[str, Any]) -> None:
    """Checks that the rank of a tensor type equals the number of dims of its shape, if the type has a shape."""
    shape = nodes[data["shape"]]
    if shape["type"] != "None" and data["ndim"] != len(_items(nodes, shape["data"]["values"])):
        raise SchemaError(f"has ndim {data['ndim']}, which is not the number of its dims")


def _check_shape_type(nodes: list[Any], data: dict[str, Any]) -> None:
    """Checks that the rank of the type of a shape equals the number of its dims."""
    if data["ndim"] != len(_items(nodes, data["values"])):
        raise SchemaError(f"has ndim {data['ndim']}, which does not match its dims")


def _check_shape(nodes: list[Any], data: dict[str, Any]) -> None:
    """Checks that a shape has as many dims as its declared type."""
    if nodes[data["ty"]]["data"]["ndim"] != len(_items(nodes, data["values"])):
        raise SchemaError("has a type whose rank is not its own")


def _check_constant(nodes: list[Any], data: dict[str, Any]) -> None:
    """Checks that a constant's array has the dtype and shape of the constant's declared type.

    TVM interprets the array's bytes by the declared type. ``data`` holds the constant's fields, which are node IDs.
    """
    type_data = nodes[data["ty"]]["data"]
    declared_dtype = nodes[type_data["dtype"]]["data"]["dtype"]
    dtype, shape = tensor_of(nodes[data["value"]]["data"])
    if dtype not in _dlpack_codes(declared_dtype):
        raise SchemaError(f"holds an array of dtype {dtype} but has type {declared_dtype}")
    has_shape = nodes[type_data["shape"]]["type"] != "None"
    dims = _dims(nodes, type_data["shape"]) if has_shape else []
    if dims != list(shape):
        raise SchemaError(f"holds an array of shape {shape} but has type {dims}")


def _check_division(nodes: list[Any], data: dict[str, Any]) -> None:
    """Checks that a dim's expression does not divide by the constant zero."""
    if _static_dim(nodes, data["b"]) == 0:
        raise SchemaError("divides by zero")


def _check_dim_type(nodes: list[Any], data: dict[str, Any]) -> None:
    """Checks that a dim, or a part of its expression, is an integer or bool."""
    name = nodes[data["ty"]]["data"]["dtype"]
    if name not in ("bool", "int8", "int16", "int32", "int64"):
        raise SchemaError(f"is a dim of dtype {name}, but dims are integers")


def _dlpack_codes(name: str) -> set[tuple[int, int, int]]:
    """Returns the DLPack encodings (code, bits, lanes) of a dtype's name, such as "float32" or "float32x2".

    A bool may also be encoded as an unsigned integer of 1 bit.
    """
    scalar_name, _, lanes = name.partition("x")
    kind = scalar_name.rstrip("0123456789")
    bits = scalar_name.removeprefix(kind) or "8"
    encodings = {(CODES.get(kind, -1), int(bits), int(lanes or 1))}
    if kind == "bool":
        encodings.add((1, 1, 1))
    return encodings


def _items(nodes: list[Any], node_id: int) -> list[int]:
    """Returns the node IDs of an array's items."""
    return nodes[node_id]["data"]  # type: ignore[no-any-return]


def _dims(nodes: list[Any], shape: int) -> list[Any]:
    """Returns the dims of the shape with a node ID, or None for a dim that is not static."""
    return [_static_dim(nodes, dim) for dim in _items(nodes, nodes[shape]["data"]["values"])]


def _static_dim(nodes: list[Any], dim: int) -> int | None:
    """Returns the value of the dim with a node ID, or None if the dim is not static."""
    node = nodes[dim]
    return nodes[node["data"]["value"]]["data"] if node["type"] == "ir.IntImm" else None


def _both_rules(first: Any, second: Any) -> Any:
    """Combines two rules for a node's fields to one, which checks both.

    Args:
      first, second: the rules.
    """

    def check_both(nodes: list[Any], data: dict[str, Any]) -> None:
        first(nodes, data)
        second(nodes, data)

    return check_both


_FIELD_RULES: Final[Mapping[str, Callable[[list[Any], dict[str, Any]], None]]] = {
    "ir.PrimType": _check_dtype,
    "relax.TensorType": _check_rank,
    "relax.ShapeType": _check_shape_type,
    "relax.expr.ShapeExpr": _check_shape,
    "ir.GenericConst": _check_constant,
    **{kind: _check_dim_type for kind in DIMS if kind not in ("ir.Var",)},
    **{
        f"prim.{name}": _both_rules(_check_dim_type, _check_division) for name in ("FloorDiv", "FloorMod", "Div", "Mod")
    },
}
