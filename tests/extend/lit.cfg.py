# The text tests of the extended program: the configuration of tests/text, with SPC_BUILD naming the extended build.
import os

here = os.path.dirname(__file__)
exec(compile(open(os.path.join(here, "../text/lit.cfg.py")).read(), "lit.cfg.py", "exec"), dict(globals(), __file__=os.path.join(here, "../text/lit.cfg.py")))
config.name = "spc-extended"
config.test_source_root = os.path.join(here, "text")
