"""Keys of kernels, by which their object code is found again: in another program, or in another process.

A key is a digest of everything that the code is compiled from: the kernel, the target, the kernel's record of tuning, and the
options of TVM's passes. What stores code adds the versions of tvtf and TVM. So that a kernel has one key in all programs, it
is compiled under a common name, and its parameters are numbered.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import tvm
from tvm.target import Target
from tvm.tirx import PrimFunc, Var
from tvm.tirx.buffer import is_buffer_var

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.schedule.tuned_choices import choices_text

SYMBOL = "global_symbol"
_NUMBERS = re.compile(r"_\d+(?=_|$)")


def common_name(symbol: str) -> str:
    """Returns a kernel's name without the numbers that make it unique in its program.

    >>> common_name("fused_conv_3_relu_12")
    'fused_conv_relu'
    """
    return _NUMBERS.sub("", symbol)


def with_common_names(func: PrimFunc, symbol: str) -> PrimFunc:
    """Returns a kernel with names that don't depend on the program: ``symbol`` for itself, ``p0, p1, ...`` for buffers.

    Equal kernels of different programs then have the same key. Sizes keep their names, since types contain them.
    """
    buffers = {param: Var(f"p{i}", param.ty) for i, param in enumerate(func.params) if is_buffer_var(param)}
    body = structural_map(func.body, (Var, lambda var: buffers.get(var, var)))
    params = [buffers.get(param, param) for param in func.params]
    return PrimFunc(params, body, func.ret_type, func.attrs, func.span).with_attr(SYMBOL, symbol)


def content_of(func: PrimFunc) -> str:
    """Returns a text of everything in a kernel, which differs for kernels that differ in anything."""
    return str(tvm.ir.save_json(func))


def kernel_key(func: PrimFunc, target: Target, options: Mapping[str, Any], content: str | None = None) -> str:
    """Returns the key under which a kernel's object code is stored: a digest of everything that the code depends on.

    ``tvm_ffi.structural_hash`` isn't safe enough. It has 64 bits, and the shapes (16, 128) and (17, 63) are likely to
    have the same hash (``StableHashCombine`` in tvm/ffi/base_details.h).

    Args:
      func: the kernel.
      target: the processor that the code is for.
      options: TVM's options.
      content: the kernel's `content_of`, if the caller has it.
    """
    settings = sorted((option, str(value)) for option, value in options.items())
    parts = (content or content_of(func), str(target), choices_text(func, target), str(settings))
    text = "\0".join(parts)
    return hashlib.sha256(text.encode()).hexdigest()[:40]
