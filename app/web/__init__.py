"""Showing: pages, API, live feed, embeds. Reads the store; never touches a worker."""
