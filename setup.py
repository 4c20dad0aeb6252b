"""Builds the native kernels. They are optional: without a C compiler the NumPy twin serves.

They use Python's stable ABI, so one wheel serves Python 3.11 and all later versions. The builds of Python without a GIL
have no stable ABI yet, and get a wheel of their own.
"""

import sysconfig
from glob import glob

from setuptools import Extension, setup

STABLE = not sysconfig.get_config_var("Py_GIL_DISABLED")

setup(
    ext_modules=[
        Extension(
            "dualfl.kernels._native",
            sources=["native/module.c"],
            depends=glob("native/*.h"),
            # no -march: module.c holds the same kernels for several instruction sets, chosen at run time;
            # no -ffast-math: a NaN must stay a NaN. Contraction only allows a * b + c in one rounding.
            extra_compile_args=["-O3", "-std=gnu11", "-ffp-contract=fast", "-Wno-psabi"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if STABLE else [],
            py_limited_api=STABLE,
            optional=True,  # a failed build must not fail the install
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE else {},
)
