"""Files and command lines of other programs as questions: what was understood, and what was not."""

from planner.imports.read import FORMATS, import_text
from planner.imports.types import REASONS, Imported, ImportRefusedError, Remark

__all__ = ["FORMATS", "REASONS", "ImportRefusedError", "Imported", "Remark", "import_text"]
