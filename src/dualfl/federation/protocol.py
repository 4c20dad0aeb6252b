"""The number of the language that a coordinator and its silos speak: it changes whenever a message does."""

PROTOCOL = 10
