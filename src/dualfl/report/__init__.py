"""Reports for people: summaries, result folders, pictures and pages."""

from dualfl.report.figure import convergence_figure, save_png
from dualfl.report.folder import Folder
from dualfl.report.run_summary import summary

__all__ = ["Folder", "convergence_figure", "save_png", "summary"]
