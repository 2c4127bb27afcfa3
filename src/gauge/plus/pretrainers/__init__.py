"""One file for each way to train encoders and network before they learn a task, from samples with or without labels."""
