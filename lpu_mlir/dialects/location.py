"""Where an operation comes from, in words."""

from __future__ import annotations

from xdsl.dialects.builtin import FileLineColLoc, NameLoc
from xdsl.ir import Attribute


def describe_location(location: Attribute) -> str:
    """`file:line`, with the column if it is known; or what stands for it, such as a module's path.

    Empty if nothing is known.
    """
    match location:
        case FileLineColLoc():
            column = f":{location.column.data}" if location.column.data else ""
            return f"{location.filename.data}:{location.line.data}{column}"
        case NameLoc():
            return location.desc.data
        case _:
            return ""
