"""How much memory a process may take: beyond it an allocation fails, and the machine is left alone."""

from __future__ import annotations

import resource


def limit_memory(more: int) -> None:
    """Let this process take ``more`` bytes of addresses beyond what it has; nothing where that cannot be told."""
    try:
        with open("/proc/self/statm") as f:
            used = int(f.read().split()[0]) * resource.getpagesize()
    except OSError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = used + more
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
