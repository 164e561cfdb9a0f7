"""Makes kernels callable with TVM's packed arguments: `WithPackedEntry`, in place of `tirx.transform.MakePackedAPI`.

TVM calls every function as `int f(void* self, TVMFFIAny* args, int32_t num_args, TVMFFIAny* result)` (tvm/ffi/c_api.h).
A kernel's entry reads from `args` where each tensor's memory is, and the sizes that aren't known at compile time.

TVM's own pass also checks the rank, dtype, sizes and device of each argument. Bytecode that has made the arguments itself
needs no checks: they would be most of LLVM's work on small kernels, and half of the work before LLVM.
"""

from __future__ import annotations

from enum import IntEnum

from tvm import IRModule, ir, tirx, transform
from tvm.tirx.buffer import is_buffer_var

from tvtf.core.tvm_visitor import structural_walk
from tvtf.passes.schedule.cpu import emit

TRUSTED = "tvtf.trusted_arguments"
"""The attribute of a kernel whose callers pass only tensors of the dtypes and sizes that the kernel takes."""
PREFIX = "__tvm_ffi_"
"""Prefix that TVM gives to the symbols of functions that take packed arguments."""
CALLED_FROM_C = 1
"""`CallingConv::kCPackedFunc` in tvm/ir/function.h."""
OBJECT_HEADER_BYTES = 24
"""The size of the `TVMFFIObject` in front of a tensor object's `DLTensor`."""
CPU = 1
"""`kDLCPU` in dlpack.h."""
SET_DEVICE = "__tvm_set_device"
"""The function of TVM's runtime that selects the GPU for what follows in this thread."""
POINTER = tirx.Var("pointer", "handle").ty
STRUCT_GET = ir.Op.get("tirx.tvm_struct_get")
ADD_BYTE_OFFSET = ir.Op.get("tirx.handle_add_byte_offset")
SIZES_POINTER = ir.PointerType(ir.PrimType("int64"), "global")


class Field(IntEnum):
    """What `tvm_struct_get` reads, of a `DLTensor`, a packed argument or an array; numbers of tvm/tirx/builtin.h."""

    DATA = 1
    SHAPE = 2
    BYTE_OFFSET = 8
    DEVICE_ID = 9
    ARGUMENT = 15
    SIZE = 17


@transform.module_pass(opt_level=0, name="WithPackedEntry")
def WithPackedEntry(mod: IRModule, _context: transform.PassContext) -> IRModule:
    """Gives each function on the host the parameters of a packed call, and code that unpacks the arguments.

    A kernel marked `TRUSTED` gets an entry without checks. All other functions get TVM's entry, as do kernels with a
    parameter that `_Entry` doesn't unpack, and kernels that call other functions of the module.
    """
    functions, others = {}, {}
    for name, func in mod.functions_items():
        if _has_simple_arguments(func):
            functions[name] = _Entry(func).function()
        else:
            others[name] = func
    if others:
        with_checks = tirx.transform.MakePackedAPI()(IRModule(others, attrs=mod.attrs))
        functions |= dict(with_checks.functions_items())
    return IRModule(functions, attrs=mod.attrs)


def _has_simple_arguments(func: tirx.PrimFunc) -> bool:
    """Returns whether a kernel is trusted, takes contiguous tensors and int64 numbers, and calls no other function."""
    if not func.attrs or TRUSTED not in func.attrs:
        return False
    tensors, numbers = _parameters(func)
    sizes = [size for tensor in tensors for size in tensor.ty.shape]
    known_sizes = {*numbers, *(size for size in sizes if isinstance(size, tirx.Var))}
    variables_in_sizes: list[tirx.Var] = []
    for size in sizes:
        if not isinstance(size, tirx.IntImm):
            structural_walk(size, (tirx.Var, variables_in_sizes.append))
    callees: list[ir.GlobalVar] = []
    structural_walk(func.body, (ir.GlobalVar, callees.append))
    return (
        bool(tensors)
        and not callees
        and all(map(_is_contiguous, tensors))
        and all(str(number.ty) == "int64" for number in numbers)
        and known_sizes.issuperset(variables_in_sizes)
    )


def _parameters(func: tirx.PrimFunc) -> tuple[list[tirx.Var], list[tirx.Var]]:
    """Returns the parameters of a kernel that are tensors, and those that are numbers."""
    params = list(func.params)
    tensors = [param for param in params if is_buffer_var(param)]
    return tensors, [param for param in params if not is_buffer_var(param)]


def _is_contiguous(tensor: tirx.Var) -> bool:
    """Returns whether a tensor parameter has no strides, and begins at the start of its memory or at a variable offset."""
    offset = tensor.ty.elem_offset
    starts_at_zero = offset is None or (isinstance(offset, tirx.IntImm) and int(offset) == 0)
    return not tensor.ty.strides and (starts_at_zero or isinstance(offset, tirx.Var))


class _Entry:
    """The function that unpacks a kernel's arguments, and then does what the kernel does."""

    def __init__(self, kernel: tirx.PrimFunc) -> None:
        """Creates the entry's parameters, and a variable for the `DLTensor` of each tensor that the kernel takes."""
        self.kernel = kernel
        self.kernel_params = list(kernel.params)
        self.args = tirx.Var("args", POINTER)
        self.params = [
            tirx.Var("self_handle", POINTER),
            self.args,
            tirx.Var("num_args", "int32"),
            tirx.Var("result", POINTER),
        ]
        self.tensors = {x: tirx.Var(f"{x.name}.handle", POINTER) for x in self.kernel_params if is_buffer_var(x)}
        self.device = tirx.Var("dev_id", "int32")

    def function(self) -> tirx.PrimFunc:
        """Returns the function with packed parameters, for the host of the kernel's target."""
        body = emit.sequence([*self._bound_arguments(), *self._bound_sizes(), self._bound_device(), self._on_device()])
        entry = tirx.PrimFunc(self.params, body, ir.PrimType("int32"), self.kernel.attrs)
        return entry.with_attr(
            {
                "global_symbol": PREFIX + str(self.kernel.attrs["global_symbol"]),
                "calling_conv": CALLED_FROM_C,
                "target": self.kernel.attrs["target"].host,
            }
        )

    def _bound_arguments(self) -> list[tirx.Stmt]:
        """Binds the variable of each tensor, and each number, to what the caller passes."""
        bindings = []
        for position, param in enumerate(self.kernel_params):
            if param in self.tensors:
                tensor_object = _field(self.args, position, Field.ARGUMENT, POINTER)
                offset = tirx.IntImm("int32", OBJECT_HEADER_BYTES)
                dl_tensor = ir.Call(ADD_BYTE_OFFSET, [tensor_object, offset], ret_ty=POINTER)
                bindings.append(tirx.Bind(self.tensors[param], dl_tensor))
            else:
                bindings.append(tirx.Bind(param, _field(self.args, position, Field.ARGUMENT, param.ty)))
        return bindings

    def _bound_sizes(self) -> list[tirx.Stmt]:
        """Returns statements that bind each variable in a tensor's shape or offset, at its first occurrence."""
        bindings: list[tirx.Stmt] = []
        known = {param for param in self.kernel_params if param not in self.tensors}
        for param, dl_tensor in self.tensors.items():
            axis_of_size = {size: axis for axis, size in enumerate(param.ty.shape) if isinstance(size, tirx.Var)}
            unknown = {size: axis for size, axis in axis_of_size.items() if size not in known}
            if unknown:
                sizes = tirx.Var(f"{param.name}.shape", SIZES_POINTER)
                bindings.append(tirx.Bind(sizes, _field(dl_tensor, 0, Field.SHAPE, SIZES_POINTER)))
                for size, axis in unknown.items():
                    bindings.append(tirx.Bind(size, _field(sizes, axis, Field.SIZE, size.ty)))
                known.update(unknown)
            offset = param.ty.elem_offset
            if isinstance(offset, tirx.Var) and offset not in known:
                byte_offset = _field(dl_tensor, 0, Field.BYTE_OFFSET, ir.PrimType("uint64"))
                item_bytes = tirx.const(param.ty.dtype.dtype.itemsize, "uint64")
                bindings.append(tirx.Bind(offset, tirx.Cast("int64", tirx.Div(byte_offset, item_bytes))))
                known.add(offset)
        return bindings

    def _bound_device(self) -> tirx.Stmt:
        """Binds the number of the device that has the first tensor in its memory."""
        first, *_ = self.tensors.values()
        return tirx.Bind(self.device, _field(first, 0, Field.DEVICE_ID, self.device.ty))

    def _on_device(self) -> tirx.Stmt:
        """Returns the kernel's statements with attributes that tell TVM's code generator the device and alignments."""
        name, target = self.kernel.attrs["global_symbol"], self.kernel.attrs["target"]
        device_type = target.get_target_device_type()
        buffers = [tirx.DeclBuffer(param, data=_data(param, dl_tensor)) for param, dl_tensor in self.tensors.items()]
        selection = (
            None if device_type == CPU else tirx.Evaluate(tirx.call_packed(SET_DEVICE, device_type, self.device))
        )
        # TVM generates a separate LLVM function for the body of this attribute, whose pointer parameters are `noalias`.
        computed = tirx.AttrStmt(0, "compute_scope", ir.StringImm(f"{name}_compute_"), self.kernel.body)
        body = emit.sequence([*buffers, selection, computed, tirx.Return(tirx.IntImm("int32", 0))])
        body = tirx.AttrStmt("default", "device_type", tirx.IntImm("int32", device_type), body)
        body = tirx.AttrStmt("default", "device_id", self.device, body)
        for param in reversed(self.tensors):
            alignment = int(param.ty.data_alignment)
            if alignment > param.ty.dtype.dtype.itemsize:  # all code generators assume that elements are aligned
                body = tirx.AttrStmt(param, "storage_alignment", tirx.IntImm("int32", alignment), body)
        return body


def _data(param: tirx.Var, dl_tensor: tirx.Var) -> ir.Expr:
    """Returns the pointer to a tensor's first element."""
    return tirx.reinterpret(param.data.ty, _field(dl_tensor, 0, Field.DATA, POINTER))


def _field(struct: tirx.Var, index: int, field: Field, result_type: ir.Type) -> ir.Call:
    """Returns the expression that reads a field of the item at ``index`` of an array of structs."""
    arguments = [struct, tirx.IntImm("int32", index), tirx.IntImm("int32", field)]
    return ir.Call(STRUCT_GET, arguments, ret_ty=result_type)
