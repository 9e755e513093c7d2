"""The REST API under /api/v1, put together. Its routes live in api_*.py."""

from fastapi import APIRouter, Security
from fastapi.security import APIKeyCookie, HTTPBearer

from app.web import api_facts, api_live, api_results, api_runs
from app.web.security import COOKIE

PREFIX = "/api/v1"

# The guard decides; these two only tell readers of the OpenAPI document how to get in.
_BEARER = HTTPBearer(auto_error=False, scheme_name="bearer", description="From `slipstream token`.")
_SESSION = APIKeyCookie(
    name=COOKIE, auto_error=False, scheme_name="session", description="From a one-use link."
)

router = APIRouter(prefix=PREFIX)
_private = [Security(_BEARER), Security(_SESSION)]
router.include_router(api_runs.router, dependencies=_private)
router.include_router(api_live.router, dependencies=_private)
router.include_router(api_results.router, dependencies=_private)
router.include_router(api_facts.router, dependencies=_private)
router.include_router(api_facts.health_router)
