"""What engines print when they fail, as data: one file per engine. workers.diagnose reads them.

Rows are tried top to bottom. Sources: `run` = seen on a live server (tests/golden), `src` = read
in the engine's source, otherwise an issue of the engine's project.
"""
