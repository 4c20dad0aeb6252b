"""Words modulo p = 2^61 - 1: masks and tags of sums that silos send (see `federation.field`)."""

from .backends import serving
from .twin_words import Words


def add_words(total: Words, stream: Words, negative: bool) -> None:
    """Add 61 of the 64 random bits of each word of the stream, or take them off. What is p then stands for 0."""
    serving().add_words(total, stream, negative)


def dot_words(stream: Words, words: Words) -> int:
    """The sum of (stream_i >> 3) words_i modulo p."""
    return serving().dot_words(stream, words)
