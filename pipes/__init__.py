"""Where text and pictures come from."""

if __name__ != "multimodal.pipes":
    raise ImportError("import multimodal.pipes, not pipes: the folder is installed as part of the multimodal package")
