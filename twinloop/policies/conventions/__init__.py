"""What the interface map of a policy should say: proposals, and which convention fault explains its actions."""
