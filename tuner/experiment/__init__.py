"""What an experiment leaves behind: its folder, its journal, its checkpoints."""
