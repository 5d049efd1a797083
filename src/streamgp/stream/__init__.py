"""The learner that takes rows as they come, whatever the model: scaling, gaps, lags, waiting forecasts, warm-up."""
