"""Why a policy that works in its twin fails on the robot: success points lost to each gap dimension, or "unknown"."""
