"""The commands of the command line, one file each, imported when one is called."""
