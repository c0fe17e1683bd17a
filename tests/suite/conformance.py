"""The language and the command line as their descriptions state them, tested from outside: every program is run with real
arrays on every back end that is here, and NumPy and SciPy say what is right.  One file a subject in conform/."""
import importlib, os, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from conform import harness

only = sys.argv[2:]
MANY_ALIKE = ("entries", "lists")
for subject in ("tour", "rules_shape", "rules_value", "rules_sparse", "rules_row", "storage", "entries", "programs", "attention", "lists", "columns", "aside", "uneven", "ordered", "krows", "shares", "turns", "packed", "tokens", "few", "narrow", "masked", "fronts", "instead", "dealt", "blocks", "drawn", "sdd", "algebra", "command", "diagnostics"):
    if not only or subject in only:
        before = harness.put_down()
        importlib.import_module("conform." + subject)
        if subject in MANY_ALIKE:
            harness.many_alike(before)
harness.finish()
