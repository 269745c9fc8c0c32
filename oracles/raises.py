"""Whether the call raises."""

from collections.abc import Iterator

from fxmorph.model import Kind, Status, ValuePlan, Verdict, VerdictCode
from fxmorph.oracle import Evidence, oracle
from fxmorph.torchapi.compiling import cannot_compile, is_compiler_error

#: What autograd says of it.
WRITTEN_AFTER_SAVED = "modified by an inplace operation"
#: What it says of a loss that has no gradient: of the phase of an eigenvector, say.  The loss is fxmorph's.
LOSS_REFUSED = "specified loss function depends on"
#: What ``Tensor.numpy`` says of a tensor on a GPU.  Dynamo traces NumPy's functions as torch's, which run there.
NUMPY_REFUSED = "device type tensor to numpy"


@oracle(kinds=(Kind.RAISES, Kind.COMPILE_ERROR), step=1)
def raises(evidence: Evidence) -> Iterator[Verdict]:
    """Eager raises and compiled returns, or the reverse.

    The type of the exception is information, not a verdict.  Programs that the compiler
    says it does not support (data-dependent shapes, graph breaks under ``fullgraph``, double backward) are
    ``unsupported``.  Where eager raises on values that fxmorph chose itself nothing is said.
    Nor is it where eager's backward pass refuses a tensor that was written after it was saved:
    compiled code saves a copy.  Nor where it refuses the loss, which fxmorph chose, or NumPy on a GPU, which
    ``torch.compile`` is documented to run.
    """
    eager, compiled = evidence.eager, evidence.compiled
    if eager.raised and compiled.raised:
        return
    if eager.raised and NUMPY_REFUSED in eager.raised:
        text = f"raises in eager on its own inputs: {eager.raised}"
        yield Verdict(Status.UNSUPPORTED, None, "call", text, code=VerdictCode.EAGER_RAISES)
        return
    if eager.raised and not (eager.in_backward and WRITTEN_AFTER_SAVED in eager.raised):
        if evidence.plan is not ValuePlan.SEED or (eager.in_backward and LOSS_REFUSED in eager.raised):
            text = f"eager raises on these values: {eager.raised}"
            yield Verdict(Status.SKIPPED, None, "call", text, code=VerdictCode.EAGER_RAISES)
            return
        yield Verdict(Status.FINDING, Kind.RAISES, "call", f"eager raises {eager.raised}; compiled returns")
    elif compiled.raised:
        error = compiled.exception
        if error is not None and cannot_compile(error):
            yield Verdict(Status.UNSUPPORTED, None, "call", compiled.raised, code=VerdictCode.CANNOT_COMPILE)
        elif error is not None and is_compiler_error(error):
            yield Verdict(Status.FINDING, Kind.COMPILE_ERROR, "call", compiled.raised)
        else:
            yield Verdict(Status.FINDING, Kind.RAISES, "call", f"compiled raises {compiled.raised}; eager returns")
