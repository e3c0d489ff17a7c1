"""Every runtime's profile by name: frameworks, then engines."""

from typing import Final

from planner.runtimes import TRAINING
from planner.runtimes.profile import Profile
from planner.runtimes.serving import SERVING

PROFILES: Final[dict[str, Profile]] = TRAINING | {profile.name: profile for profile in SERVING}
