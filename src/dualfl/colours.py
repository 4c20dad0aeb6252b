"""The colours of all pictures and pages: Okabe and Ito's palette without its yellow, which is too light on paper."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
