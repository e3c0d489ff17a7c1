"""Runtime profiles: one file per framework or engine."""

from planner.runtimes.generic import GENERIC
from planner.runtimes.profile import Profile
from planner.runtimes.vllm import VLLM

PROFILES: dict[str, Profile] = {profile.name: profile for profile in (GENERIC, VLLM)}


def profile_for(name: str) -> Profile:
    """The profile of a runtime; one without its own file uses the generic habits."""
    return PROFILES.get(name, GENERIC)
