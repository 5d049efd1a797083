"""Docstrings as readers need them: options filled in, and a line for each parameter."""

import inspect
import re
from importlib import import_module
from typing import Any

import griffe

ENTRY = re.compile(r"^(\w+(?:, \w+)+)( : .*)?\n((?:(?:[ \t].*)?\n?)*)", flags=re.MULTILINE)
SECTION = re.compile(r"(^Parameters\n-+\n)(.*?)(?=^\w[\w ]*\n-+$|\Z)", flags=re.MULTILINE | re.DOTALL)


class Docstrings(griffe.Extension):
    """Change docstrings before they are parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fill in what is written when the class is imported, and part parameters that share a text.

        Of parameters that are documented together only the first would have its own type and default.
        """
        if not obj.docstring:
            return
        if "{options}" in obj.docstring.value:
            filled = getattr(import_module(obj.module.path), obj.name).__doc__
            obj.docstring.value = inspect.cleandoc(filled)
        obj.docstring.value = SECTION.sub(lambda found: found[1] + ENTRY.sub(_parted, found[2]), obj.docstring.value)


def _parted(found: re.Match[str]) -> str:
    text = found[3].rstrip("\n")
    entries = [f"{name}{found[2] or ''}\n{text}\n" for name in found[1].split(", ")]
    return "".join(entries) + found[3][len(text) :].removeprefix("\n")
