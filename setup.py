"""Builds the native kernels. They are optional: without a C compiler the NumPy twin serves."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "dualfl.kernels._native",
            sources=["native/module.c"],
            depends=["native/kernels.h", "native/body.h"],
            extra_compile_args=["-O3", "-std=c11"],
            optional=True,  # a failed build must not fail the install
        )
    ]
)
