"""What is wrong with a calibration or evaluation set, told before anything is built from it."""
