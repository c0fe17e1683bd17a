# lit configuration of the text tests: %spc is the command, FileCheck and `not` come from LLVM.
import os, shutil, lit.formats

config.name = "spc"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".spx", ".ir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
build = os.environ.get("SPC_BUILD", os.path.join(os.path.dirname(__file__), "..", "..", "build"))
config.test_exec_root = os.path.join(build, "lit")
tools = next((d for d in ["/usr/lib/llvm-%d/bin" % v for v in (19, 20, 18, 17, 16)] if os.path.exists(d + "/FileCheck")), "")
config.environment["PATH"] = tools + os.pathsep + os.environ["PATH"]
for name in ("SPC_NVRTC_LIB", "SPC_NVRTC_DIR", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LD_LIBRARY_PATH"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
config.environment["NO_COLOR"] = "1"
config.environment["SPC_CACHE"] = "off"
config.substitutions.append(("%spc", os.path.abspath(os.path.join(build, "spc"))))
config.substitutions.append(("%examples", os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "examples"))))
probe = os.popen(os.path.join(build, "spc") + " doctor --json 2>/dev/null").read()
for what in ("LLVM", "NVRTC", "GPU"):
    if '{"what":"%s","found":true' % what in probe:
        config.available_features.add(what.lower())
