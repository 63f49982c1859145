"""When a picture may appear, and whether it did."""

if __name__ != "multimodal.sync":
    raise ImportError("import multimodal.sync, not sync: the folder is installed as part of the multimodal package")
