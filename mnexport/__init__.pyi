from .errors import MnExportError as MnExportError
from .options import ExportOptions as ExportOptions
from .pipeline import export as export
from .repository.target import Target as Target
