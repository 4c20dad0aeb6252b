"""The number of the language that a coordinator and its silos speak: it changes whenever a message does."""

PROTOCOL = 10
UNDECIDED = "the plan waits for this silo's operator"  # with this begins a refusal until that operator has decided
