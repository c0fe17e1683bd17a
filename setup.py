"""pip's way in: the package is plain Python; the library of build/ goes with it, or one that is built now."""
import os
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT = os.path.dirname(os.path.abspath(__file__))


def build_library(folder):
    """By CMake, with what is here: LLVM (the CPU) and CUDA are looked for there and when the library is loaded."""
    for tool in ("cmake", "cc"):
        if not shutil.which(tool):
            raise SystemExit("spc: the library is not built and %s is not here to build it: `script/setup` installs what is missing" % tool)
    make = ["-G", "Ninja"] if shutil.which("ninja") else []
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DSPC_TESTS=OFF", *make], check=True)
    subprocess.run(["cmake", "--build", folder, "--target", "spc", "--parallel", str(os.cpu_count() or 1)], check=True)


class WithLibrary(build_py):
    def run(self):
        super().run()
        if self.editable_mode:  # finds build/ by itself
            return
        built = os.path.join(ROOT, os.environ.get("BUILD", "build"), "libspc.so")
        if not os.path.exists(built):
            folder = os.path.join(os.path.abspath(self.get_finalized_command("build").build_temp), "spc")
            build_library(folder)
            built = os.path.join(folder, "libspc.so")
        shutil.copy(os.path.realpath(built), os.path.join(self.build_lib, "spc", "libspc.so"))


class ForOnePlatform(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": WithLibrary}, distclass=ForOnePlatform)
