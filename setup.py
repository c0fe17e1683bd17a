"""pip's way in: the package is plain Python; the library that was built in build/ goes with it."""
import os
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py


class WithLibrary(build_py):
    def run(self):
        super().run()
        built = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.environ.get("BUILD", "build"), "libspc.so")
        if os.path.exists(built) and not self.editable_mode:
            shutil.copy(os.path.realpath(built), os.path.join(self.build_lib, "spc", "libspc.so"))


setup(cmdclass={"build_py": WithLibrary})
