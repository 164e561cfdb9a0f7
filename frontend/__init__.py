"""The front end: how a program becomes Relax, by tracing functions, tapes, AutoGraph and control flow."""

from typing import Any

from tvtf.core.primitive import hooks
from tvtf.core.thread_state import state
from tvtf.frontend.control_flow.variable_effects import traced_assign
from tvtf.frontend.gradient.recompute_grad import recompute_vjp
from tvtf.ops import control, custom


class _TracedVariables:
    """What tracing does with Variables; the modules that need TVM are imported when they are needed."""

    def check_creation(self, variable: Any) -> None:
        if state.variables_allowed is not None:
            state.variables_allowed.note_creation()

    def initial_value(self, trace: Any, tensor: Any) -> Any:
        from tvtf.frontend.control_flow.closure_conversion import value_in_this_call

        return value_in_this_call(trace, tensor)

    def assign(self, variable: Any, value: Any, read_value: bool) -> Any:
        return traced_assign(variable, value, read_value)

    def reload(self, variable: Any, trace: Any) -> Any:
        from tvtf.frontend.control_flow.variable_reload import reload

        return reload(variable, trace)

    def store(self, variable: Any, value: Any, trace: Any) -> None:
        from tvtf.frontend.control_flow.variable_reload import store

        store(variable, value, trace)


def _cond_vjp(*args: Any, **attrs: Any) -> Any:
    from tvtf.frontend.control_flow.cond_grad import cond_vjp

    return cond_vjp(*args, **attrs)


def _while_vjp(*args: Any, **attrs: Any) -> Any:
    from tvtf.frontend.control_flow.while_grad import while_vjp

    return while_vjp(*args, **attrs)


def _effect_while_vjp(*args: Any, **attrs: Any) -> Any:
    from tvtf.frontend.control_flow.while_grad import effect_while_vjp

    return effect_while_vjp(*args, **attrs)


def _cond_batch(*args: Any, **attrs: Any) -> Any:
    from tvtf.frontend.control_flow.batched_control_flow import cond_batch

    return cond_batch(*args, **attrs)


def _while_batch(*args: Any, **attrs: Any) -> Any:
    from tvtf.frontend.control_flow.batched_control_flow import while_batch

    return while_batch(*args, **attrs)


def _custom_batch(*args: Any, **attrs: Any) -> Any:
    from tvtf.frontend.control_flow.batched_control_flow import custom_batch

    return custom_batch(*args, **attrs)


def _recompute_batch(*args: Any, **attrs: Any) -> Any:
    from tvtf.frontend.control_flow.batched_control_flow import recompute_batch

    return recompute_batch(*args, **attrs)


def _bind_once(primitive: Any, inputs: Any, attrs: Any) -> Any:
    """Binds control flow whose effects must run once although tapes watch it; NotImplemented for other primitives."""
    from tvtf.frontend.control_flow.effects_once import bound_once, is_flow_with_effects, is_watched

    is_recorded = is_watched(inputs) and is_flow_with_effects(primitive, attrs)
    return bound_once(primitive, inputs, attrs) if is_recorded else NotImplemented


hooks.variables = _TracedVariables()

# These rules trace functions, which needs TVM; the primitives are declared without them, so that TVM loads late.
for _flow in (control.cond, control.effect_cond):
    _flow.vjp, _flow.batch = _cond_vjp, _cond_batch
control.while_.vjp, control.effect_while.vjp = _while_vjp, _effect_while_vjp
for _loop in (control.while_, control.effect_while):
    _loop.batch = _while_batch
for _again in (custom.recompute, custom.effect_recompute):
    _again.vjp, _again.batch = recompute_vjp, _recompute_batch
custom.with_gradient.batch = _custom_batch
control.Flow.bind_once = staticmethod(_bind_once)
