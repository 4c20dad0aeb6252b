"""Attacks on the commands, the files, the artefacts and the API: thousands of wrong inputs, each judged by four rules.

    traceback      something other than a sentence of dualfl's own came out
    half-written   a folder of results is there without its record, a passing file is left, or a foreign file is gone
    hang           it took longer than the limit of a case
    wrong          an answer was given, and it is not the right one (of damaged artefacts, and in the table of traps)

All four must be 0. A case is made from its seed and its number alone, so that each can be run again.
"""
