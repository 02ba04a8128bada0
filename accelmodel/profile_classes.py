"""What sort of work a kernel does, told by its name: the profilers do not say it."""

from __future__ import annotations

import re

OTHER = "other"
# The first that matches counts: a copy is written as an element-wise kernel, a softmax as a reduction.
_CLASSES = (
    (
        "communication",
        r"nccl|rccl|oneccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|sendrecv|broadcast_kernel",
    ),
    ("attention", r"flash|fmha|attention|\bmha\b|sdpa"),
    ("convolution", r"conv(?!ert)|winograd|dgrad|wgrad|implicit_gemm|im2col"),
    ("contraction", r"gemm|gemv|matmul|mat_?mul|cutlass|xmma|cublas|cijk_|splitk|dot_kernel|(?<!bi)(?<!tri)linear"),
    ("softmax", r"softmax"),
    ("normalisation", r"(?:layer|batch|group|rms|instance)_?norm|_bn_|bn_fw|bn_bw|normalization"),
    ("embedding", r"embedding|gather|scatter|index_?(?:select|put|add)?_?kernel|indexing"),
    ("copy", r"copy|memcpy|memset|fill|transpose|permute|catarray|concat|\bcat\b|slice|pad_"),
    ("reduction", r"reduce|reduction|argmax|argmin|cumsum|scan|sort|topk"),
    ("optimizer", r"multi_tensor|adam|sgd|optimizer"),
    ("element-wise", r"elementwise|element_wise|pointwise|triton_poi|relu|gelu|silu|sigmoid|tanh|add|mul|dropout|cast"),
)
CLASSES = (*(name for name, _ in _CLASSES), OTHER)
_PATTERNS = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _CLASSES)
_FUSED = re.compile(r"fused|fusion", re.IGNORECASE)
MAX_READ_CHARS = 500  # template arguments far in tell of types, no longer of the work


def kernel_class(name: str) -> str:
    """One of CLASSES; `other` where the name says nothing. A judgement by words, not a measurement."""
    read = name[:MAX_READ_CHARS]
    return next((each for each, pattern in _PATTERNS if pattern.search(read)), OTHER)


def is_named_fusion(name: str) -> bool:
    """Whether the name itself says that several ops became one kernel, as those that compilers generate do."""
    return bool(_FUSED.search(name[:MAX_READ_CHARS]))
