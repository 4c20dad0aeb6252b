"""Builds the native kernels. They are optional: without a C compiler the NumPy twin serves."""

from glob import glob

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "dualfl.kernels._native",
            sources=["native/module.c"],
            depends=glob("native/*.h"),
            # no -march: module.c holds the same kernels for several instruction sets, chosen at run time;
            # no -ffast-math: a NaN must stay a NaN. Contraction only allows a * b + c in one rounding.
            extra_compile_args=["-O3", "-std=gnu11", "-ffp-contract=fast", "-Wno-psabi"],
            optional=True,  # a failed build must not fail the install
        )
    ]
)
