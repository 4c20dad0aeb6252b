"""Methods for the fewest exchanges, on clients however unlike, from sums only.

    sketched-newton  smooth losses: Newton where the dimension is small, a sketch of it and secant pairs where it is large
    auto             says which of the library's methods a problem needs, and runs that one

A round that takes seconds to hours, whatever its size, makes one large message cheaper than many small ones. So these
methods send second-order sums, D x D numbers, beside gradients. Nothing but sums leaves a client.
"""
