"""The load process: its own process, so that it can neither be slowed nor slow anything."""
