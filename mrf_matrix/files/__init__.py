"""What every part needs that writes a file or shows a stranger's text."""

from mrf_matrix.files.plain_text import escaped, is_plain_line
from mrf_matrix.files.whole_file import check_writable, whole_file

__all__ = ["check_writable", "escaped", "is_plain_line", "whole_file"]
