"""Trees: nested tuples, lists, dictionaries and modules, with arrays or anything else as leaves; None has no leaf."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from streamgp.numerics.module import Module


def map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Return a tree of the same form, its leaves those of `function`, which gets a leaf of each tree.

    Raises
    ------
    ValueError
        If another tree has not as many parts where the first has some.
    """
    if tree is None:
        return None
    if isinstance(tree, Module):
        names = tree.array_fields
        rows = ([getattr(each, name) for each in (tree, *others)] for name in names)
        return tree.with_arrays([map(function, *row) for row in rows])
    if isinstance(tree, tuple):
        parts = [map(function, *row) for row in zip(tree, *others, strict=True)]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    if isinstance(tree, list):
        return [map(function, *row) for row in zip(tree, *others, strict=True)]
    if isinstance(tree, dict):
        return {key: map(function, value, *(each[key] for each in others)) for key, value in tree.items()}
    return function(tree, *others)


def leaves(tree: Any) -> list[Any]:
    """Return the leaves of a tree in order; those of a dictionary by its sorted keys."""
    return list(_leaves(tree))


def _leaves(tree: Any) -> Iterator[Any]:
    if tree is None:
        return
    if isinstance(tree, Module):
        parts: Any = (getattr(tree, name) for name in tree.array_fields)
    elif isinstance(tree, tuple | list):
        parts = tree
    elif isinstance(tree, dict):
        parts = (tree[key] for key in sorted(tree))
    else:
        yield tree
        return
    for part in parts:
        yield from _leaves(part)


def form(tree: Any) -> Any:
    """Return what a tree is besides its leaves, to be compared with that of another."""
    if isinstance(tree, Module):
        fixed = tuple(getattr(tree, name) for name in tree.static_fields)
        return type(tree), fixed, tuple(form(getattr(tree, name)) for name in tree.array_fields)
    if isinstance(tree, tuple | list):
        return type(tree), tuple(form(part) for part in tree)
    if isinstance(tree, dict):
        return dict, tuple((key, form(tree[key])) for key in sorted(tree))
    return None if tree is None else "leaf"


def form_of_rows(tree: Any) -> Any:
    """Return what trees of rows have in common that can be joined: their form, and the shapes of a row's arrays."""
    return form(tree), tuple(np.shape(a)[1:] for a in leaves(tree))
