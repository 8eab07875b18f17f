"""Memory that the compiled decoder and encoder fill and Arrow takes over: `Block`.

Cython in its pure-Python mode; its fields are in `_memory.pxd`. Never import it uncompiled.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBuffer_FillInfo
from cython.cimports.libc.stdlib import free


class Block:
    """Memory of a column; pyarrow keeps it alive."""

    def __dealloc__(self) -> None:
        free(self.data)

    def __getbuffer__(self, buffer: cython.pointer(Py_buffer), flags: cython.int):
        PyBuffer_FillInfo(buffer, self, self.data, self.size, 1, flags)

    def __len__(self) -> int:
        return self.size
