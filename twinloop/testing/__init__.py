"""Checks that users can run on their own plug-ins and episodes."""
