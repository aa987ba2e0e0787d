"""Tokenizers of libweft.so, for comparison with those of the tokenizers library."""

from __future__ import annotations

import ctypes
import pathlib


class Tokens(ctypes.Structure):
    """struct weft_tokens"""

    _fields_ = [
        ("at", ctypes.POINTER(ctypes.c_int32)),
        ("len", ctypes.c_size_t),
        ("cap", ctypes.c_size_t),
    ]


class Error(ctypes.Structure):
    """struct weft_error"""

    _fields_ = [
        ("status", ctypes.c_int),
        ("file", ctypes.c_char_p),
        ("line", ctypes.c_int),
        ("msg", ctypes.c_char * 480),
    ]


class WeftTokenizer:
    """A tokenizer that weft has read from a file or directory."""

    def __init__(self, library: pathlib.Path, path: pathlib.Path) -> None:
        self.lib = ctypes.CDLL(str(library))
        self.lib.weft_tokenizer_token.restype = ctypes.c_void_p
        self.handle = ctypes.c_void_p()
        error = Error()
        status = self.lib.weft_tokenizer_open(
            str(path).encode(), ctypes.byref(self.handle), ctypes.byref(error)
        )
        if status != 0:
            raise ValueError(error.msg.decode())

    def __del__(self) -> None:
        self.lib.weft_tokenizer_free(self.handle)

    def end(self) -> int:
        """Returns the token that ends a document."""
        return self.lib.weft_tokenizer_eot(self.handle)

    def encode(self, text: str, special: bool = False) -> list[int]:
        """Returns the tokens of a text."""
        data, tokens, error = text.encode(), Tokens(), Error()
        function = (
            self.lib.weft_tokenizer_encode_special if special else self.lib.weft_tokenizer_encode
        )
        status = function(
            self.handle,
            data,
            ctypes.c_size_t(len(data)),
            ctypes.byref(tokens),
            ctypes.byref(error),
        )
        if status != 0:
            raise ValueError(error.msg.decode())
        out = tokens.at[: tokens.len]
        self.lib.weft_tokens_release(ctypes.byref(tokens))
        return out

    def decode(self, tokens: list[int]) -> bytes:
        """Returns the bytes of tokens."""
        out = []
        for token in tokens:
            length = ctypes.c_size_t()
            at = self.lib.weft_tokenizer_token(self.handle, token, ctypes.byref(length))
            out.append(ctypes.string_at(at, length.value))
        return b"".join(out)
