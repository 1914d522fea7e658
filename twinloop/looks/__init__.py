"""What real cameras show, measured against a twin's frames of the same joint states: six causes, each as values of the twin's parameters."""
