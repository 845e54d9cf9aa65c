"""Everything that only a GPU can show, in one program: `make gpu`."""
