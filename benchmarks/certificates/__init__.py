"""The campaign on certificates: generated problems, a reference in extended precision, and what is counted."""
