"""What is compiled, and why not."""

from .streams import why_not

__all__ = ["why_not"]
