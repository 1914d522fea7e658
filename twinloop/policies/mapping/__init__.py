"""The interface map, what turns our signals into a policy's inputs and its outputs into commands by it, and the policy that results."""
