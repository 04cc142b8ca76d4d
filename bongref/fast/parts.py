"""How a part of entry points is compiled: translated, and left at that.

Numba optimises every function, gives it wrappers to be called from Python and from C, and makes machine code of it, before it links what
it has into the function that calls it and optimises the whole again. A part is only ever called by entry points, which it becomes a piece
of: it needs none of this, and a stream compiles in three quarters of the time without. The entry point is optimised as ever.
"""

from __future__ import annotations

from typing import Any

from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

OPTIONS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class Library(JITCodeLibrary):
    """The code of a part, with that of its own parts linked in: to be linked, never run."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Nothing: the entry point does it."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class Lowering(NativeLowering):
    """Numba's translation to LLVM without machine code; a function object without any stands for the part."""

    _name = "bongref_part"

    def __init__(self) -> None:
        NativeLowering.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Translate, and make the part known to those that call it."""
        state.library = Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        made = state["cr"]
        name = made.fndesc.qualname.split(".")[-1]
        stand_in = _dynfunc.make_function(made.fndesc.lookup_module(), name, "a part of entry points", 0, made.env, (state.library,))
        state.targetctx.insert_user_function(stand_in, made.fndesc, [state.library])
        state["cr"] = made._replace(cfunc=stand_in)
        return True


class Compiler(CompilerBase):
    """Numba's compiler with this way of lowering."""

    def define_pipelines(self) -> list[Any]:
        """The passes of Numba's, one of them exchanged."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(Lowering if p is NativeLowering else p, why) for p, why in passes.passes]
        passes._finalized = False
        passes.finalize()
        return [passes]


CHOSEN: Any = {"pipeline_class": Compiler, **OPTIONS}  # jit_options of overload: a part that is chosen by the types of arguments


def environments(dispatcher: Any) -> None:
    """Tell the machine code of an entry point just compiled where the environments of its parts are, as Numba does for what it loads."""
    for result in dispatcher.overloads.values():
        for env in result._find_referenced_environments():
            result.library.codegen.set_env(env.env_name, env)
