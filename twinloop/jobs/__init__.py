"""Commands that run one after the other in processes of their own, whoever asked for them and whether or not that is still there."""
