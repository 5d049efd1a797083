"""The model families, a package each; what defines a model before any data (`spec`); the presets (`registry`)."""
