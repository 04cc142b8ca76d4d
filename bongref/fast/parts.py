"""How entry points and their parts are compiled, in less time than Numba would take.

Numba optimises every function, gives it wrappers to be called from Python and from C, and makes machine code of it, before it links what
it has into the function that calls it and optimises the whole again. A part is only ever called by entry points, which it becomes a piece
of: it is translated, and left at that. What kernels do not use is not looked for, the types of an operation are found once, the translation
is that of :mod:`.lean`, and an entry point is kept without the code that others would need to make it a part of theirs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import extending
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import NativeLowering
from numba.core.types.functions import BaseFunction

from .lean import Lean

OPTIONS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}  # a part allocates nothing
# passes for closures, comprehensions, contexts, literal_unroll, array expressions and overloads with inline=
UNUSED = {"with_lifting", "inline_closure_likes", "literal_unroll", "find_literally", "inline_overloads", "nopython_rewrites"}
BUILTINS = {range, len, slice, abs, min, max}
COUNTING = "ir_legalization"  # finds where variables end, which matters where references are counted


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
    lowering_class = Lean

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


class EntryLibrary(JITCodeLibrary):
    """The code of an entry point: to be run, never linked."""

    def _optimize_final_module(self) -> None:
        """As Numba does, but for loops that are unrolled: those that gain by it are vectors already, or written so."""
        codegen: Any = self._codegen
        if not hasattr(codegen, "_pass_builder"):  # before Numba 0.61: an older LLVM, whose passes are set otherwise
            return super()._optimize_final_module()
        builder = codegen._pass_builder
        codegen._pass_builder = lambda **options: _pass_builder(codegen._tm, **options)
        try:
            super()._optimize_final_module()
        finally:
            codegen._pass_builder = builder

    def serialize_using_object_code(self) -> tuple[str, str, tuple[bytes, bytes]]:
        """The machine code, and in place of what it was made from a module with the same names, which is all that loading asks for."""
        self._ensure_finalized()
        functions = [f.name for f in self._final_module.functions if not f.is_declaration]
        others = [v.name for v in self._final_module.global_variables if not v.is_declaration]
        names = [f'define void @"{name}"() {{ ret void }}' for name in functions] + [f'@"{name}" = global i8 0' for name in others]
        return self.name, "object", (self._get_compiled_object(), llvm.parse_assembly("\n".join(names)).as_bitcode())


def _pass_builder(machine: Any, opt: Any = 3, loop_vectorize: bool = True, slp_vectorize: bool = False) -> Any:
    options = llvm.create_pipeline_tuning_options()
    options.speed_level, options.loop_vectorization, options.slp_vectorization = int(opt), bool(loop_vectorize), bool(slp_vectorize)
    options.loop_unrolling = False
    return llvm.create_pass_builder(machine, options)


@register_pass(mutates_CFG=True, analysis_only=False)
class EntryLowering(NativeLowering):
    """Numba's translation to machine code, with the lean one of what it is made of."""

    _name = "bongref_entry"
    lowering_class = Lean

    def __init__(self) -> None:
        NativeLowering.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Translate, optimise, and make machine code."""
        state.library = EntryLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().run_pass(state)


class Compiler(CompilerBase):
    """Numba's compiler with this way of lowering."""

    lowering: Any = Lowering

    def define_pipelines(self) -> list[Any]:
        """The passes of Numba's that kernels need, one of them exchanged."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        unused = UNUSED if self.state.flags.nrt else {*UNUSED, COUNTING}
        passes.passes = [(self.lowering if p is NativeLowering else p, why) for p, why in passes.passes if p._name not in unused]
        passes._finalized = False
        passes.finalize()
        return [passes]


class EntryCompiler(Compiler):
    """The same for entry points."""

    lowering = EntryLowering


def _plain(function: Any) -> bool:
    """Whether what this function does depends on the types of its arguments and the flags alone: operators, some builtins, intrinsics."""
    return function in BUILTINS or isinstance(function, extending._Intrinsic) or getattr(function, "__module__", None) == "_operator"


@contextlib.contextmanager
def remembering() -> Iterator[None]:
    """Inside, what an operation does with arguments of some types is found out once: Numba asks a hundred candidates every time."""
    find, found = BaseFunction.get_call_type, {}

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        if kws or not _plain(self.typing_key):
            return find(self, context, args, kws)
        flags = ConfigStack.top_or_none()
        key = self, context, tuple(args), None if flags is None else (flags.nrt, frozenset(flags.fastmath.flags))
        if key not in found:
            found[key] = find(self, context, args, kws)
        return found[key]

    BaseFunction.get_call_type = get_call_type  # type: ignore[method-assign]
    try:
        yield
    finally:
        BaseFunction.get_call_type = find  # type: ignore[method-assign]


CHOSEN: Any = {"pipeline_class": Compiler, **OPTIONS}  # jit_options of overload: a part that is chosen by the types of arguments
MAKING: Any = {**CHOSEN, "_nrt": True}  # the same for one that makes arrays


def environments(dispatcher: Any) -> None:
    """Tell the machine code of an entry point just compiled where the environments of its parts are, as Numba does for what it loads."""
    for result in dispatcher.overloads.values():
        for env in result._find_referenced_environments():
            result.library.codegen.set_env(env.env_name, env)
