"""Languages: each has a prompt pack, an extraction pack and a control set, one TOML file each."""
