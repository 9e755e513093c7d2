"""Measuring: claims runs, starts servers, drives load, records ticks.
Never imports a web framework."""
