"""Frames with joint readings to the pose, lens and joint zeros of a camera, with how sure they are."""
