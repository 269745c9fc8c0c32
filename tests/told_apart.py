"""A text of programs that differ where they are compiled, without asking ``torch.compiler.is_compiling``."""

#: Defines ``compiled()``: true where Dynamo traces.  The oracle answers those who ask in eager, and cannot answer this.
COMPILED = """import torch
@torch.compiler.assume_constant_result
def compiled(): return torch._guards.TracingContext.try_get() is not None
"""
