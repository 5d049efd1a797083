"""The commands, one a file. Everything heavy is imported when a command runs, so that --help is quick."""
