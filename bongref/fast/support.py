from .streams import why_not

__all__ = ["why_not"]
