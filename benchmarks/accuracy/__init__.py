"""Scores, calibration and regret of models on clean streams."""
