"""Decision tree ensembles of tract, checked and normalized to one kind of branch.

    trees  [n]     the roots
    nodes  [m, 5]  a branch: feature, node if the comparison holds, node if not, bits of the float32
                   threshold, comparison + 0x100 if it holds for NaN;
                   a leaf: begin and end of its votes, three zeros
    leaves [v, 2]  a vote: class, bits of its float32 weight

The normalized branch has three targets, for x <= threshold, x > threshold and NaN.  All nodes are
then evaluated by the same operations, for all kinds of comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from nnefc.frontends.common.budget import STEPS_OF_OPERATION, Budget
from nnefc.frontends.common.values import Array, OperatorError

RULE: Final = "argument/ml_tree_ensemble_classifier"
_EQUAL, _NOT_EQUAL, _LESS, _GREATER, _AT_MOST, _AT_LEAST = range(1, 7)
_KIND: Final = 0xFF
_NAN_HOLDS: Final = 0x100
_BRANCHES: Final = 3
"""Targets of a branch: for numbers up to the threshold, for greater ones, and for NaN."""


@dataclass(frozen=True, slots=True)
class TreeEnsemble:
    """Trees whose leaves are nodes 0 to l - 1, with up to v votes each.

    The targets of a leaf are the leaf itself, so that `depth` steps end at a leaf for every row.
    """

    roots: Array
    """[trees], int32."""
    features: Array
    """[nodes], int32: the tested feature; 0 for leaves."""
    thresholds: Array
    """[nodes], float32."""
    targets: Array
    """[3 nodes], int32: the targets for x <= threshold, x > threshold and NaN."""
    depth: int
    """Branches on the longest path from a root to a leaf."""
    classes: Array
    """[l, v], int32: the class of each vote; the number of classes where a leaf has fewer votes."""
    weights: Array
    """[l, v], float32."""


def tree_ensemble(
    trees: Array, nodes: Array, leaves: Array, *, features: int, classes: int, budget: Budget
) -> TreeEnsemble:
    """The normalized ensemble of tract's arrays; raises OperatorError if they are inconsistent.

    `features`, `classes`: exclusive upper bounds of feature and class numbers.
    """
    reached = _reachable(trees, nodes, features, budget)
    kinds = nodes[:, 4] & _KIND
    ends, inner = reached[kinds[reached] == 0], reached[kinds[reached] != 0]
    # new number of each node: reachable leaves first, then reachable branches
    number = np.zeros(len(nodes), np.int64)
    number[ends], number[inner] = np.arange(ends.size), ends.size + np.arange(inner.size)
    about, thresholds, targets = _branches(nodes[inner], number, ends.size)
    own = np.repeat(np.arange(ends.size), _BRANCHES).reshape(-1, _BRANCHES)
    every = np.concatenate([own, targets])
    votes, weights = _votes(nodes[ends], leaves, classes, budget)
    return TreeEnsemble(
        number[trees].astype(np.int32),
        np.concatenate([np.zeros(ends.size), about]).astype(np.int32),
        np.concatenate([np.zeros(ends.size), thresholds]).astype(np.float32),
        every.reshape(-1).astype(np.int32),
        _depth(every, ends.size, budget),
        votes,
        weights,
    )


def _reachable(trees: Array, nodes: Array, features: int, budget: Budget) -> Array:
    """The nodes that are reachable from the roots; raises OperatorError for an invalid node."""
    seen = np.zeros(len(nodes), np.bool_)
    levels: list[Array] = [np.zeros(0, np.int64)]
    new = np.unique(trees)
    while new.size:
        budget.take_steps(STEPS_OF_OPERATION)
        if (outside := new[new >= len(nodes)]).size:
            raise OperatorError(RULE, f"there is no node {outside[0]}: there are {len(nodes)}")
        seen[new] = True
        levels.append(new)
        kinds = nodes[new, 4] & _KIND
        if (unknown := new[kinds > _AT_LEAST]).size:
            kind = nodes[unknown[0], 4] & _KIND
            raise OperatorError(RULE, f"node {unknown[0]} has comparison {kind}; 1 to 6 are known")
        branches = new[kinds != 0]
        if (wrong := branches[nodes[branches, 0] >= features]).size:
            message = f"node {wrong[0]} tests feature {nodes[wrong[0], 0]} of {features}"
            raise OperatorError(RULE, message)
        new = np.unique(nodes[branches, 1:3])
        inside = new < len(nodes)
        new = new[~inside | ~seen[np.where(inside, new, 0)]]
    return np.concatenate(levels)


def _branches(nodes: Array, number: Array, leaves: int) -> tuple[Array, Array, Array]:
    """Features [b], thresholds [b] and targets [b, 3] of normalized branches.

    `number` maps node numbers of the file to new ones.  Comparisons for equality need a second
    branch; these are appended.
    """
    kinds = nodes[:, 4] & _KIND
    given = nodes[:, 3].astype(np.uint32).view(np.float32)
    holds, fails = number[nodes[:, 1]], number[nodes[:, 2]]
    for_nan = np.where(nodes[:, 4] & _NAN_HOLDS, holds, fails)
    # x > y, x >= y and x != y are the negations of x <= y, x < y and x == y: swap the targets
    is_negated = np.isin(kinds, (_GREATER, _AT_LEAST, _NOT_EQUAL))
    low, high = np.where(is_negated, fails, holds), np.where(is_negated, holds, fails)
    is_pair = np.isin(kinds, (_EQUAL, _NOT_EQUAL))
    # x < y is x <= z, where z is the float32 before y
    is_below = np.isin(kinds, (_LESS, _AT_LEAST)) | is_pair
    with np.errstate(over="ignore"):
        before = np.nextafter(given, np.float32(-np.inf))
    thresholds = np.where(is_below, before, given)
    # x == y is x > z and x <= y: the second branch tests x <= y
    second = leaves + len(nodes) + np.cumsum(is_pair) - 1
    up_to = np.where(is_pair, high, low)
    above = np.where(is_pair, second, high)
    # no x is less than -inf; a NaN threshold satisfies no comparison but "not equal"
    up_to = np.where(is_below & (given == -np.inf), above, up_to)
    never = np.isnan(given)
    otherwise = np.where(kinds == _NOT_EQUAL, holds, fails)
    up_to, above = np.where(never, otherwise, up_to), np.where(never, otherwise, above)
    thresholds = np.where(never, np.float32(0), thresholds)
    pairs = is_pair.nonzero()[0]
    targets = np.stack([up_to, above, for_nan], axis=1)
    seconds = np.stack([low[pairs], high[pairs], for_nan[pairs]], axis=1)
    return (
        np.concatenate([nodes[:, 0], nodes[pairs, 0]]),
        np.concatenate([thresholds, given[pairs]]),
        np.concatenate([targets, seconds]),
    )


def _depth(targets: Array, leaves: int, budget: Budget) -> int:
    """The branches on the longest path to a leaf; raises OperatorError for a cycle."""
    waiting = np.bincount(targets[leaves:].reshape(-1), minlength=len(targets))
    ready, depth, done = (waiting[leaves:] == 0).nonzero()[0] + leaves, 0, 0
    while ready.size:
        budget.take_steps(STEPS_OF_OPERATION)
        depth, done = depth + 1, done + ready.size
        passed, times = np.unique(targets[ready], return_counts=True)
        waiting[passed] -= times
        ready = passed[(waiting[passed] == 0) & (passed >= leaves)]
    if done < len(targets) - leaves:
        raise OperatorError(RULE, "the nodes do not form trees: some of them form a cycle")
    return depth


def _votes(ends: Array, leaves: Array, classes: int, budget: Budget) -> tuple[Array, Array]:
    """Classes and weights [l, v] of the votes of leaves; raises OperatorError."""
    begin, end = ends[:, 0], ends[:, 1]
    if (wrong := ((begin > end) | (end > len(leaves))).nonzero()[0]).size:
        first, last = begin[wrong[0]], end[wrong[0]]
        raise OperatorError(
            RULE, f"a leaf has the votes {first} to {last}: there are {len(leaves)}"
        )
    most = int((end - begin).max(initial=0))
    budget.take_items(most * len(ends))
    if most == 0:
        return np.full((len(ends), 1), classes, np.int32), np.zeros((len(ends), 1), np.float32)
    index = begin[:, None] + np.arange(most)
    is_there = index < end[:, None]
    table: Array = leaves[np.where(is_there, index, 0)]
    votes = np.where(is_there, table[..., 0], classes)
    if (outside := votes[is_there & (votes >= classes)]).size:
        raise OperatorError(RULE, f"a vote is for class {outside[0]} of {classes}")
    weights = table[..., 1].astype(np.uint32).view(np.float32)
    return votes.astype(np.int32), weights
