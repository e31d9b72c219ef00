"""Groups the kernels of a compiled step that share a launch, in an order that needs few launches.

A compiler can launch kernels of one kind (elementwise, or sums) together if they do not need each other. Its
own grouping takes each kernel as early as possible, so that most launches hold few.
"""

import contextlib
from collections.abc import Iterator

from torch._inductor.scheduler import BaseSchedulerNode, ForeachKernelSchedulerNode, Scheduler

__all__ = ["few_launches"]


@contextlib.contextmanager
def few_launches() -> Iterator[None]:
    """Context in which torch.compile forms groups (option ``combo_kernels``) with :func:`group`; where its
    scheduler has become another, with its own grouping."""
    before = ForeachKernelSchedulerNode.group_algorithm_for_combo_kernels

    def group_or_before(scheduler: Scheduler) -> list[list[BaseSchedulerNode]]:
        try:
            return group(scheduler)
        except Exception:
            # Private classes may lack anything in another version.
            return before(scheduler)

    ForeachKernelSchedulerNode.set_group_algorithm_for_combo_kernels(group_or_before)
    try:
        yield
    finally:
        ForeachKernelSchedulerNode.set_group_algorithm_for_combo_kernels(before)


def group(scheduler: Scheduler) -> list[list[BaseSchedulerNode]]:
    """The scheduler's kernels in the order of their launches; each group needs only earlier ones.

    Next comes the kind of kernel that the longest chain waits for, with everything of that kind that is
    ready. What shares no launch, such as a library's product, comes as soon as it is ready.
    """
    needed = {node: set(scheduler._get_unmet_dep_nodes(node)) for node in scheduler.nodes}
    shared = {node for node in needed if _can_share(node)}
    chain = _chains(needed)
    groups: list[list[BaseSchedulerNode]] = []
    while needed:
        ready = [node for node, others in needed.items() if not others]
        alone = [[node] for node in ready if node not in shared]
        if not alone:
            sums = max(ready, key=chain.__getitem__).is_reduction()
            alone = [[node for node in ready if node.is_reduction() == sums]]
        groups += alone
        done = {node for each in alone for node in each}
        needed = {node: others - done for node, others in needed.items() if node not in done}
    return groups


def _chains(
    needed: dict[BaseSchedulerNode, set[BaseSchedulerNode]],
) -> dict[BaseSchedulerNode, int]:
    """Length of the longest chain of kernels that begins with each; those of a scheduler are in order."""
    chain = dict.fromkeys(needed, 1)
    for node in reversed(needed):
        for other in needed[node]:
            chain[other] = max(chain[other], chain[node] + 1)
    return chain


def _can_share(node: BaseSchedulerNode) -> bool:
    device = node.get_device()
    on_a_gpu = device is not None and device.type == "cuda"
    return on_a_gpu and bool(ForeachKernelSchedulerNode.combinable_nodes([node]))
