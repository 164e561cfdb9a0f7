"""How a program becomes Relax: tapes, functions, AutoGraph, control flow, importers."""

from typing import Any

from tvtf.core.primitive import hooks


def _variable_created(variable: Any) -> None:
    from tvtf.core.thread_state import state

    if state.trace is not None:
        from tvtf.frontend.function.concrete_function import check_variable_creation

        check_variable_creation(variable)


def _traced_assign(variable: Any, value: Any, read_value: bool) -> Any:
    from tvtf.frontend.control_flow.variable_effects import traced_assign

    return traced_assign(variable, value, read_value)


def _reload(variable: Any, trace: Any) -> Any:
    from tvtf.frontend.control_flow.variable_reload import reload

    return reload(variable, trace)


def _store(variable: Any, value: Any, trace: Any) -> None:
    from tvtf.frontend.control_flow.variable_reload import store

    store(variable, value, trace)


def _value_in_this_call(trace: Any, tensor: Any) -> Any:
    from tvtf.frontend.control_flow.closure_conversion import value_in_this_call

    return value_in_this_call(trace, tensor)


hooks.variable_created = _variable_created
hooks.value_in_this_call = _value_in_this_call
hooks.traced_assign = _traced_assign
hooks.reload = _reload
hooks.store = _store
